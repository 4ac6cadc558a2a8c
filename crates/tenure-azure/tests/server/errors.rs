//! Errors: each has a code of Azure and an XML body.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::Utc;
use reqwest::Method;
use tenure_server::{Limits, StoreConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{ACCOUNT, development, in_memory, start};
use crate::common::{SOON, id};

const MALFORMED: (u16, &str) = (400, "InvalidHeaderValue");
const MISSING: (u16, &str) = (400, "MissingRequiredHeader");
const UNSUPPORTED: (u16, &str) = (400, "UnsupportedHeader");
const QUERY: (u16, &str) = (400, "InvalidQueryParameterValue");

#[tokio::test]
async fn an_error_has_a_status_a_code_a_request_id_and_xml() {
    let (_running, az) = in_memory();
    let own = [("x-ms-client-request-id", "My Own & <Id>")];
    let answer = az.get("/none?restype=container&comp=list", &own).await;
    answer.assert_refused(404, "ContainerNotFound");
    assert_eq!(answer.header("content-type"), "application/xml");
    assert_eq!(answer.header("x-ms-client-request-id"), "My Own & <Id>");
    assert_eq!(answer.header("x-ms-version"), "2026-10-06");
    assert_eq!(answer.header("x-ms-request-id").len(), 36);
    let text = answer.text();
    let id = answer.header("x-ms-request-id");
    let start = "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>ContainerNotFound</Code><Message>The \
                 specified container does not exist.\n";
    assert!(
        text.starts_with(start) && text.contains(&format!("RequestId:{id}\nTime:")),
        "{text}"
    );
    assert!(text.ends_with("</Message></Error>"));
    // The response to a HEAD has only the header, and so has a response 304.
    let head = az.head("/none/x", &[("x-ms-version", "2099-01-01")]).await;
    head.assert_refused(404, "ContainerNotFound");
    assert!(head.body.is_empty());
    assert_eq!(head.header("x-ms-version"), "2099-01-01");
}

#[tokio::test]
async fn malformed_and_unknown_resources_are_refused_with_their_codes() {
    let (_running, az) = in_memory();
    az.put("/con?restype=container", &[]).await.assert(201);
    az.put_block("/con/b", &[], b"0123").await.assert(201);
    let lease_id = id(1);
    let action = |name| ("x-ms-lease-action", name);
    let given = ("x-ms-lease-id", &*lease_id);
    let lease = "/con/b?comp=lease";
    let block = ("x-ms-blob-type", "BlockBlob");
    let page = ("x-ms-blob-type", "PageBlob");
    type Case<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, (u16, &'a str));
    let cases: Vec<Case<'_>> = vec![
        ("PUT", lease, vec![], MISSING),
        ("PUT", lease, vec![action("steal")], MALFORMED),
        ("PUT", lease, vec![action("acquire")], MISSING),
        (
            "PUT",
            lease,
            vec![action("acquire"), ("x-ms-lease-duration", "14")],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![action("acquire"), ("x-ms-lease-duration", "61")],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![action("acquire"), ("x-ms-lease-duration", "0")],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![action("acquire"), ("x-ms-lease-duration", "-2")],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![action("acquire"), ("x-ms-lease-duration", "15.5")],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![
                action("acquire"),
                ("x-ms-lease-duration", "99999999999999999999"),
            ],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![
                action("acquire"),
                ("x-ms-lease-duration", "15"),
                ("x-ms-proposed-lease-id", "x"),
            ],
            MALFORMED,
        ),
        ("PUT", lease, vec![action("renew")], MISSING),
        (
            "PUT",
            lease,
            vec![action("renew"), ("x-ms-lease-id", "x")],
            MALFORMED,
        ),
        ("PUT", lease, vec![action("release")], MISSING),
        ("PUT", lease, vec![action("change"), given], MISSING),
        (
            "PUT",
            lease,
            vec![action("change"), ("x-ms-proposed-lease-id", &lease_id)],
            MISSING,
        ),
        (
            "PUT",
            lease,
            vec![action("break"), ("x-ms-lease-break-period", "61")],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![action("break"), ("x-ms-lease-break-period", "-1")],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![action("break"), ("x-ms-lease-break-period", "x")],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![action("break"), ("if-modified-since", "yesterday")],
            MALFORMED,
        ),
        (
            "PUT",
            lease,
            vec![action("break"), ("x-ms-if-tags", "a = 'b'")],
            UNSUPPORTED,
        ),
        (
            "PUT",
            "/con/none?comp=lease",
            vec![action("break")],
            (404, "BlobNotFound"),
        ),
        (
            "PUT",
            "/none/b?comp=lease",
            vec![action("break")],
            (404, "ContainerNotFound"),
        ),
        (
            "PUT",
            "/none?comp=lease&restype=container",
            vec![action("break")],
            (404, "ContainerNotFound"),
        ),
        (
            "PUT",
            "/con?comp=lease&restype=container",
            vec![action("break"), ("if-match", "*")],
            UNSUPPORTED,
        ),
        (
            "PUT",
            "/con/b?comp=lease&snapshot=2026-11-21T12:00:00.0000000Z",
            vec![action("break")],
            QUERY,
        ),
        ("PUT", "/con/b", vec![], MISSING),
        (
            "PUT",
            "/con/b",
            vec![("x-ms-blob-type", "AppendBlob")],
            UNSUPPORTED,
        ),
        (
            "PUT",
            "/con/b",
            vec![("x-ms-blob-type", "BlobBlock")],
            MALFORMED,
        ),
        ("PUT", "/con/b", vec![page], MISSING),
        (
            "PUT",
            "/con/b",
            vec![page, ("x-ms-blob-content-length", "511")],
            MALFORMED,
        ),
        (
            "PUT",
            "/con/b",
            vec![page, ("x-ms-blob-content-length", "x")],
            MALFORMED,
        ),
        (
            "PUT",
            "/con/b",
            vec![block, ("x-ms-copy-source", "http://x/y")],
            UNSUPPORTED,
        ),
        (
            "PUT",
            "/con/b",
            vec![block, ("x-ms-meta-9", "x")],
            (400, "InvalidMetadata"),
        ),
        (
            "PUT",
            "/con/b",
            vec![block, ("x-ms-meta-a-b", "x")],
            (400, "InvalidMetadata"),
        ),
        ("PUT", "/con/b?comp=block&blockid=A", vec![], QUERY),
        (
            "PUT",
            "/con/b?comp=block",
            vec![],
            (400, "MissingRequiredQueryParameter"),
        ),
        ("PUT", "/con/b?comp=block&blockid=AAAA", vec![], MALFORMED),
        (
            "PUT",
            "/con/b?comp=block&blockid=AAAA",
            vec![("if-match", "*")],
            UNSUPPORTED,
        ),
        (
            "PUT",
            "/con/b?comp=blocklist",
            vec![],
            (400, "InvalidXmlDocument"),
        ),
        (
            "GET",
            "/con/b?comp=blocklist&blocklisttype=some",
            vec![],
            QUERY,
        ),
        (
            "GET",
            "/con/none?comp=blocklist",
            vec![],
            (404, "BlobNotFound"),
        ),
        ("POST", "/?comp=batch", vec![], MISSING),
        (
            "POST",
            "/?comp=batch",
            vec![("content-type", "text/plain")],
            MALFORMED,
        ),
        (
            "POST",
            "/?comp=batch",
            vec![("content-type", "multipart/mixed; boundary=b")],
            (400, "InvalidInput"),
        ),
        ("PUT", "/con/b?comp=page", vec![], QUERY),
        ("PUT", "/con/b?comp=snapshot", vec![], QUERY),
        ("PUT", "/con/b?comp=tier", vec![], QUERY),
        (
            "PUT",
            "/con/b?comp=lease&comp=lease",
            vec![action("break")],
            QUERY,
        ),
        ("PUT", "/con", vec![], QUERY),
        ("PUT", "/con?restype=container&comp=acl", vec![], QUERY),
        (
            "PUT",
            "/con?restype=container",
            vec![("x-ms-blob-public-access", "blob")],
            (409, "PublicAccessNotPermitted"),
        ),
        (
            "PUT",
            "/con?restype=container",
            vec![],
            (409, "ContainerAlreadyExists"),
        ),
        (
            "PUT",
            "/Con?restype=container",
            vec![],
            (400, "InvalidResourceName"),
        ),
        (
            "PUT",
            "/c?restype=container",
            vec![],
            (400, "OutOfRangeInput"),
        ),
        (
            "PUT",
            "/$logs?restype=container",
            vec![],
            (400, "InvalidResourceName"),
        ),
        ("PUT", "/?restype=service&comp=properties", vec![], QUERY),
        ("GET", "/?restype=account&comp=properties", vec![], QUERY),
        ("GET", "/", vec![], QUERY),
        (
            "GET",
            "/con/b",
            vec![("x-ms-range", "bytes=4-")],
            (416, "InvalidRange"),
        ),
        (
            "GET",
            "/con/b",
            vec![("x-ms-range", "bytes=3-1")],
            MALFORMED,
        ),
        ("GET", "/con/b", vec![("range", "chars=1-2")], MALFORMED),
        ("GET", "/con/b", vec![("x-ms-lease-id", "x")], MALFORMED),
        ("GET", "/con/b?versionid=1", vec![], QUERY),
        (
            "GET",
            "/con?restype=container&comp=list&maxresults=0",
            vec![],
            (400, "OutOfRangeQueryParameterValue"),
        ),
        (
            "GET",
            "/con?restype=container&comp=list&maxresults=-1",
            vec![],
            (400, "OutOfRangeQueryParameterValue"),
        ),
        (
            "GET",
            "/con?restype=container&comp=list&maxresults=x",
            vec![],
            QUERY,
        ),
        (
            "GET",
            "/con?restype=container&comp=list&marker=!",
            vec![],
            QUERY,
        ),
        (
            "GET",
            "/con?restype=container&comp=list&include=secrets",
            vec![],
            QUERY,
        ),
        (
            "DELETE",
            "/con/b",
            vec![("x-ms-delete-snapshots", "only")],
            MALFORMED,
        ),
        ("DELETE", "/con/none", vec![], (404, "BlobNotFound")),
        ("POST", "/con/b", vec![], (405, "UnsupportedHttpVerb")),
        ("PATCH", "/con/b", vec![], (405, "UnsupportedHttpVerb")),
        ("OPTIONS", "/con/b", vec![], (405, "UnsupportedHttpVerb")),
    ];
    for (method, target, headers, expected) in cases {
        let method: Method = method.parse().unwrap();
        let answer = az.send(method.clone(), target, &headers, b"").await;
        assert_eq!(answer.outcome(), expected, "{method} {target} {headers:?}");
    }
    let name = format!("/con/{}", "x".repeat(1025));
    az.put_block(&name, &[], b"")
        .await
        .assert_refused(400, "InvalidResourceName");
    let large = "x".repeat(8 * 1024);
    let metadata = [("x-ms-meta-a", &*large)];
    az.put_block("/con/b", &metadata, b"")
        .await
        .assert_refused(400, "MetadataTooLarge");
    // None of these requests changed anything.
    assert_eq!(az.get("/con/b", &[]).await.body, b"0123");
    assert_eq!(
        az.head("/con/b", &[]).await.header("x-ms-lease-state"),
        "available"
    );
}

#[tokio::test]
async fn a_body_that_is_cut_off_or_slow_is_an_error_of_the_client() {
    let limits = Limits {
        request_time: Duration::from_millis(500),
        ..Limits::default()
    };
    let config = StoreConfig::memory().with_limits(limits);
    let (running, az) = start(config, development());
    az.put("/con?restype=container", &[]).await.assert(201);
    let date = Utc::now().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let list = "/con/b?comp=blocklist";
    for (target, kind) in [("/con/b", Some("BlockBlob")), (list, None)] {
        for (is_cut, status, code) in [
            (true, 400, "InvalidInput"),
            (false, 408, "OperationTimedOut"),
        ] {
            let headers = [
                ("content-length", Some("10")),
                ("x-ms-blob-type", kind),
                ("x-ms-date", Some(&*date)),
                ("x-ms-version", Some("2026-10-06")),
            ];
            let headers = headers
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            let mut headers: BTreeMap<String, String> = headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let signature = az.signature(&Method::PUT, target, &headers);
            headers.insert("authorization".into(), signature);
            let lines = headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\r\n"));
            let lines: String = lines.collect();
            let address = running.api.origin.strip_prefix("http://").unwrap();
            let mut socket = TcpStream::connect(address).await.unwrap();
            let request =
                format!("PUT /{ACCOUNT}{target} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n01234");
            socket.write_all(request.as_bytes()).await.unwrap();
            if is_cut {
                socket.shutdown().await.unwrap();
            }
            let mut answer = String::new();
            let read = socket.read_to_string(&mut answer);
            let _ = tokio::time::timeout(SOON, read)
                .await
                .expect("an answer in time");
            // A connection may also end without an answer, because its client is gone.
            if !(is_cut && answer.is_empty()) {
                let line = format!("HTTP/1.1 {status} ");
                assert!(answer.starts_with(&line), "{target}: {answer}");
                assert!(
                    answer.contains(&format!("x-ms-error-code: {code}\r\n")),
                    "{answer}"
                );
            }
        }
    }
    let metrics = running
        .api
        .http
        .get(format!("{}/metrics", running.api.origin));
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    assert!(!metrics.contains("route=\"azure\",status=\"5"), "{metrics}");
}
