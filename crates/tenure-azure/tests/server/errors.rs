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

/// Requests, their headers, and the refusals. `ID` is a lease id.
const REFUSED: &str = "
PUT /con/b?comp=lease | | 400 MissingRequiredHeader
PUT /con/b?comp=lease | x-ms-lease-action: steal | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: acquire | 400 MissingRequiredHeader
PUT /con/b?comp=lease | x-ms-lease-action: acquire, x-ms-lease-duration: 14 | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: acquire, x-ms-lease-duration: 61 | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: acquire, x-ms-lease-duration: 0 | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: acquire, x-ms-lease-duration: -2 | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: acquire, x-ms-lease-duration: 15.5 | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: acquire, x-ms-lease-duration: 99999999999999999999 | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: acquire, x-ms-lease-duration: 15, x-ms-proposed-lease-id: x | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: renew | 400 MissingRequiredHeader
PUT /con/b?comp=lease | x-ms-lease-action: renew, x-ms-lease-id: x | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: release | 400 MissingRequiredHeader
PUT /con/b?comp=lease | x-ms-lease-action: change, x-ms-lease-id: ID | 400 MissingRequiredHeader
PUT /con/b?comp=lease | x-ms-lease-action: change, x-ms-proposed-lease-id: ID | 400 MissingRequiredHeader
PUT /con/b?comp=lease | x-ms-lease-action: break, x-ms-lease-break-period: 61 | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: break, x-ms-lease-break-period: -1 | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: break, x-ms-lease-break-period: x | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: break, if-modified-since: yesterday | 400 InvalidHeaderValue
PUT /con/b?comp=lease | x-ms-lease-action: break, x-ms-if-tags: a = 'b' | 400 UnsupportedHeader
PUT /con/none?comp=lease | x-ms-lease-action: break | 404 BlobNotFound
PUT /none/b?comp=lease | x-ms-lease-action: break | 404 ContainerNotFound
PUT /none?comp=lease&restype=container | x-ms-lease-action: break | 404 ContainerNotFound
PUT /con?comp=lease&restype=container | x-ms-lease-action: break, if-match: * | 400 UnsupportedHeader
PUT /con/b?comp=lease&snapshot=2026-11-21T12:00:00.0000000Z | x-ms-lease-action: break | 400 InvalidQueryParameterValue
PUT /con/b | | 400 MissingRequiredHeader
PUT /con/b | x-ms-blob-type: AppendBlob | 400 UnsupportedHeader
PUT /con/b | x-ms-blob-type: BlobBlock | 400 InvalidHeaderValue
PUT /con/b | x-ms-blob-type: PageBlob | 400 MissingRequiredHeader
PUT /con/b | x-ms-blob-type: PageBlob, x-ms-blob-content-length: 511 | 400 InvalidHeaderValue
PUT /con/b | x-ms-blob-type: PageBlob, x-ms-blob-content-length: x | 400 InvalidHeaderValue
PUT /con/b | x-ms-blob-type: BlockBlob, x-ms-copy-source: http://x/y | 400 UnsupportedHeader
PUT /con/b | x-ms-blob-type: BlockBlob, x-ms-meta-9: x | 400 InvalidMetadata
PUT /con/b | x-ms-blob-type: BlockBlob, x-ms-meta-a-b: x | 400 InvalidMetadata
PUT /con/b?comp=block&blockid=A | | 400 InvalidQueryParameterValue
PUT /con/b?comp=block | | 400 MissingRequiredQueryParameter
PUT /con/b?comp=block&blockid=AAAA | | 400 InvalidHeaderValue
PUT /con/b?comp=block&blockid=AAAA | if-match: * | 400 UnsupportedHeader
PUT /con/b?comp=blocklist | | 400 InvalidXmlDocument
GET /con/b?comp=blocklist&blocklisttype=some | | 400 InvalidQueryParameterValue
GET /con/none?comp=blocklist | | 404 BlobNotFound
POST /?comp=batch | | 400 MissingRequiredHeader
POST /?comp=batch | content-type: text/plain | 400 InvalidHeaderValue
POST /?comp=batch | content-type: multipart/mixed; boundary=b | 400 InvalidInput
PUT /con/b?comp=page | | 400 InvalidQueryParameterValue
PUT /con/b?comp=snapshot | | 400 InvalidQueryParameterValue
PUT /con/b?comp=tier | | 400 InvalidQueryParameterValue
PUT /con/b?comp=lease&comp=lease | x-ms-lease-action: break | 400 InvalidQueryParameterValue
PUT /con | | 400 InvalidQueryParameterValue
PUT /con?restype=container&comp=acl | | 400 InvalidQueryParameterValue
PUT /con?restype=container | x-ms-blob-public-access: blob | 409 PublicAccessNotPermitted
PUT /con?restype=container | | 409 ContainerAlreadyExists
PUT /Con?restype=container | | 400 InvalidResourceName
PUT /c?restype=container | | 400 OutOfRangeInput
PUT /$logs?restype=container | | 400 InvalidResourceName
PUT /?restype=service&comp=properties | | 400 InvalidQueryParameterValue
GET /?restype=account&comp=properties | | 400 InvalidQueryParameterValue
GET / | | 400 InvalidQueryParameterValue
GET /con/b | x-ms-range: bytes=4- | 416 InvalidRange
GET /con/b | x-ms-range: bytes=3-1 | 400 InvalidHeaderValue
GET /con/b | range: chars=1-2 | 400 InvalidHeaderValue
GET /con/b | x-ms-lease-id: x | 400 InvalidHeaderValue
GET /con/b?versionid=1 | | 400 InvalidQueryParameterValue
GET /con?restype=container&comp=list&maxresults=0 | | 400 OutOfRangeQueryParameterValue
GET /con?restype=container&comp=list&maxresults=-1 | | 400 OutOfRangeQueryParameterValue
GET /con?restype=container&comp=list&maxresults=x | | 400 InvalidQueryParameterValue
GET /con?restype=container&comp=list&marker=! | | 400 InvalidQueryParameterValue
GET /con?restype=container&comp=list&include=secrets | | 400 InvalidQueryParameterValue
DELETE /con/b | x-ms-delete-snapshots: only | 400 InvalidHeaderValue
DELETE /con/none | | 404 BlobNotFound
POST /con/b | | 405 UnsupportedHttpVerb
PATCH /con/b | | 405 UnsupportedHttpVerb
OPTIONS /con/b | | 405 UnsupportedHttpVerb
";

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
    for line in REFUSED.trim().lines() {
        let [request, headers, expected] = line.splitn(3, " |").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let (method, target) = request.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let headers = headers.replace("ID", &lease_id);
        let headers = headers
            .trim()
            .split(", ")
            .filter_map(|it| it.split_once(": "));
        let headers: Vec<_> = headers.collect();
        let answer = az.send(method, target, &headers, b"").await;
        let (status, code) = answer.outcome();
        assert_eq!(format!("{status} {code}"), expected.trim(), "{line}");
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
