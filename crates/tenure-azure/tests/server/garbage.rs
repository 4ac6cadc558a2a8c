//! Invalid input for every operation. The response contains a code of the service and a reason. It
//! never has a status of 500 or more, because clients would repeat the request.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use tenure_azure::server::AzureConfig;
use tenure_server::StoreConfig;

use crate::client::{development, start};
use crate::common::SOON;

/// Method, target and headers of valid requests.
const OPERATIONS: &[(&str, &str, &[&str])] = &[
    ("GET", "?comp=list", &[]),
    ("PUT", "/new?restype=container", &[]),
    ("GET", "/con?restype=container", &[]),
    ("HEAD", "/con?restype=container&comp=metadata", &[]),
    ("PUT", "/con?restype=container&comp=metadata", &[]),
    ("GET", "/con?restype=container&comp=list", &[]),
    (
        "PUT",
        "/con?restype=container&comp=lease",
        &["x-ms-lease-action: break"],
    ),
    ("DELETE", "/con?restype=container", &[]),
    ("PUT", "/con/b?", &["x-ms-blob-type: BlockBlob"]),
    (
        "PUT",
        "/con/p?",
        &["x-ms-blob-type: PageBlob", "x-ms-blob-content-length: 512"],
    ),
    ("GET", "/con/b?", &[]),
    ("HEAD", "/con/b?", &[]),
    ("GET", "/con/b?comp=metadata", &[]),
    ("PUT", "/con/b?comp=metadata", &[]),
    ("PUT", "/con/b?comp=properties", &[]),
    (
        "PUT",
        "/con/b?comp=lease",
        &["x-ms-lease-action: acquire", "x-ms-lease-duration: 15"],
    ),
    (
        "PUT",
        "/con/b?comp=lease",
        &["x-ms-lease-action: renew", ID],
    ),
    (
        "PUT",
        "/con/b?comp=lease",
        &["x-ms-lease-action: release", ID],
    ),
    ("PUT", "/con/b?comp=lease", &["x-ms-lease-action: break"]),
    ("DELETE", "/con/b?", &[]),
    ("PUT", "/con/b?comp=block&blockid=AAAA", &[]),
    ("PUT", "/con/b?comp=blocklist", &[]),
    ("GET", "/con/b?comp=blocklist", &[]),
    (
        "POST",
        "?comp=batch",
        &["content-type: multipart/mixed; boundary=b"],
    ),
    // The store does not support these operations.
    ("PUT", "/con/b?comp=page", &[]),
    ("PUT", "?restype=service&comp=properties", &[]),
    ("PUT", "/con?restype=container&comp=acl", &[]),
    ("GET", "/con?restype=container&comp=acl", &[]),
];

const ID: &str = "x-ms-lease-id: 6f1c9a64-3a52-4c0e-9d43-000000000001";

const HEADERS: &[&str] = &[
    "x-ms-lease-action",
    "x-ms-lease-id",
    "x-ms-proposed-lease-id",
    "x-ms-lease-duration",
    "x-ms-lease-break-period",
    "x-ms-blob-type",
    "x-ms-blob-content-length",
    "x-ms-blob-content-md5",
    "x-ms-blob-content-type",
    "x-ms-blob-public-access",
    "x-ms-delete-snapshots",
    "x-ms-meta-a",
    "x-ms-meta-9",
    "x-ms-range",
    "range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "content-md5",
    "content-type",
    "x-ms-date",
    "date",
    "x-ms-version",
    "x-ms-client-request-id",
    "x-ms-if-tags",
    "accept-encoding",
    "authorization",
];

const VALUES: &[&[u8]] = &[
    b"",
    b"x",
    b"-1",
    b"18446744073709551616",
    b"bytes=0-18446744073709551615",
    b"bytes=18446744073709551615-",
    b"bytes=-1",
    b"Sun, 06 Nov 99999 08:49:37 GMT",
    b"Sat, 29 Feb 0000 24:61:61 GMT",
    b"\"",
    b"*, *",
    b"\xff\xfe",
    b"SharedKey devstoreaccount1:AAAA",
    b"Bearer a.b.c",
    // This value adds a duplicate header.
    b"15\r\n+: 16",
];

const QUERIES: &[&str] = &[
    "&comp=",
    "&comp=x",
    "&comp=%ff",
    "&restype=x",
    "&%00=%00",
    "&%zz=%",
    "&=&==",
    "&snapshot=x",
    "&versionid=x",
    "&timeout=-1",
    "&maxresults=-1",
    "&maxresults=99999999999999999999",
    "&marker=%00",
    "&marker=AA",
    "&blockid=%00",
    "&blocklisttype=%ff",
    "&include=%ff",
    "&prefix=%00%01",
    "&delimiter=%00",
    "&a=1&a=1",
    "&sig=",
    "&sig=x&sv=2020-12-06&sr=b&se=9999-12-31&sp=r&sip=x",
    "&sig=x&sv=z&ss=b&srt=sco&se=x&sp=%ff",
];

const PATHS: &[&str] = &[
    "/",
    "//",
    "/con/",
    "/con//",
    "/con/%",
    "/con/%00",
    "/con/%ff",
    "/con/..",
    "/con/%2e%2e/b",
    "/../con/b",
    "/%2e%2e",
    "/con/a%0d%0ab",
    "/CON/b",
    "/con/b;x",
    "/con/b#x",
];

struct Raw {
    status: u16,
    head: String,
    body: String,
}

async fn exchange(origin: &str, request: &[u8]) -> Raw {
    let address = origin.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(SOON, stream.read_to_end(&mut answer)).await;
    read.expect("the connection is closed").unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| {
        let request = String::from_utf8_lossy(request);
        panic!("no answer to {request}: {answer}")
    });
    Raw {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

fn request(method: &str, target: &str, headers: &[&[u8]], body: &str) -> Vec<u8> {
    let line = format!("{method} /devstoreaccount1{target} HTTP/1.1\r\nhost: localhost\r\n");
    let mut bytes = line.into_bytes();
    for header in headers {
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(b"\r\n");
    }
    let rest = format!(
        "content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Checks that the response has the form of the service, and that a refusal contains a reason.
#[track_caller]
fn check(request: &[u8], answer: &Raw) {
    let Raw { status, head, body } = answer;
    let what = || format!("{}\n{head}\n\n{body}", String::from_utf8_lossy(request));
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    };
    assert!((200..500).contains(status), "{}", what());
    assert_eq!(
        header("x-ms-request-id").map(str::len),
        Some(36),
        "{}",
        what()
    );
    assert!(head.contains("\nx-ms-version:"), "{}", what());
    if *status < 300 {
        return;
    }
    let code = header("x-ms-error-code").unwrap_or_else(|| panic!("no code: {}", what()));
    if request.starts_with(b"HEAD") || *status == 304 {
        assert!(body.is_empty(), "{}", what());
        return;
    }
    assert_eq!(
        header("content-type"),
        Some("application/xml"),
        "{}",
        what()
    );
    let start = "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>";
    let told = body
        .strip_prefix(start)
        .and_then(|rest| rest.split_once('<'));
    let told = told.unwrap_or_else(|| panic!("no XML: {}", what())).0;
    assert_eq!(told.to_ascii_lowercase(), code, "{}", what());
    assert!(body.ends_with("</Error>"), "{}", what());
    let is_text = |c: char| !c.is_control() || c == '\n';
    assert!(body.chars().all(is_text), "{}", what());
}

#[tokio::test]
async fn garbage_at_every_operation_is_refused_with_a_code_of_the_service() {
    let config = AzureConfig {
        // No authentication, so that requests reach the checks that follow it.
        unguarded: true,
        ..development()
    };
    let (running, _az) = start(StoreConfig::memory(), config);
    let origin = &running.api.origin;
    let send = async |request: Vec<u8>| {
        let answer = exchange(origin, &request).await;
        check(&request, &answer);
        answer
    };
    let block: &[&[u8]] = &[b"x-ms-blob-type: BlockBlob"];
    let begin = async || {
        send(request("PUT", "/con?restype=container", &[], "")).await;
        send(request("PUT", "/con/b", block, "0123")).await;
    };
    let mut refused = 0;
    for (method, target, headers) in OPERATIONS {
        let own: Vec<&[u8]> = headers.iter().map(|header| header.as_bytes()).collect();
        let with = |more: &[u8]| {
            let name = more.split(|byte| *byte == b':').next().unwrap();
            let is_other = |header: &&&[u8]| !header.starts_with(name);
            let mut all: Vec<&[u8]> = own.iter().filter(is_other).copied().collect();
            all.push(more);
            request(method, target, &all, "")
        };
        let mut requests = vec![request(method, target, &own, "<BlockList><Latest>")];
        for name in HEADERS {
            for value in VALUES {
                let line = [name.as_bytes(), b": ", value].concat();
                let line = match value.iter().position(|byte| *byte == b'+') {
                    Some(_) => format!("{name}: 15\r\n{name}: 16").into_bytes(),
                    None => line,
                };
                requests.push(with(&line));
            }
            requests.push(with(format!("{name}: {}", "a".repeat(9000)).as_bytes()));
        }
        for query in QUERIES {
            requests.push(request(method, &format!("{target}{query}"), &own, ""));
        }
        for path in PATHS {
            let query = target.split_once('?').map_or("", |(_, query)| query);
            requests.push(request(method, &format!("{path}?{query}"), &own, ""));
        }
        begin().await;
        for request in requests {
            refused += u32::from(send(request).await.status >= 400);
            if *method == "DELETE" {
                begin().await;
            }
        }
    }
    assert!(refused > 5_000, "{refused} refusals");
}

#[tokio::test]
async fn unusual_forms_of_a_request_get_a_response() {
    let config = AzureConfig {
        unguarded: true,
        ..development()
    };
    let (running, _az) = start(StoreConfig::memory(), config);
    let origin = &running.api.origin;
    let host = "host: localhost\r\nconnection: close\r\n\r\n";
    let put = "host: localhost\r\nx-ms-blob-type: BlockBlob\r\nconnection: close\r\n";
    for (text, status) in [
        // HTTP/1.0, which needs no Host; 1.1 without one; an absolute target; two hosts; transfer
        // codings.
        (
            "GET /devstoreaccount1?comp=list HTTP/1.0\r\n\r\n".to_owned(),
            200,
        ),
        ("GET /devstoreaccount1/con/b HTTP/1.0\r\n\r\n".into(), 404),
        (
            "GET /devstoreaccount1?comp=list HTTP/1.1\r\nconnection: close\r\n\r\n".into(),
            400,
        ),
        (
            format!("GET http://localhost/devstoreaccount1?comp=list HTTP/1.1\r\n{host}"),
            200,
        ),
        (
            format!("GET http://elsewhere/devstoreaccount1?comp=list HTTP/1.1\r\n{host}"),
            400,
        ),
        (
            format!("GET /devstoreaccount1?comp=list HTTP/1.1\r\nhost: other\r\n{host}"),
            400,
        ),
        (
            format!(
                "GET /devstoreaccount1?comp=list HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n{host}"
            ),
            400,
        ),
        (format!("OPTIONS * HTTP/1.1\r\n{host}"), 405),
        // A body of unknown length, and a body over the limit.
        (
            format!(
                "PUT /devstoreaccount1/con/b HTTP/1.1\r\n{put}transfer-encoding: chunked\r\n\r\nzz\r\n"
            ),
            411,
        ),
        (
            format!(
                "PUT /devstoreaccount1/con/b HTTP/1.1\r\n{put}content-length: 99999999999\r\n\r\n"
            ),
            413,
        ),
    ] {
        let answer = exchange(origin, text.as_bytes()).await;
        assert_eq!(
            answer.status, status,
            "{text}\n{}\n{}",
            answer.head, answer.body
        );
        check(text.as_bytes(), &answer);
    }
    // If a header is duplicate, neither of the two counts.
    let twice = format!(
        "PUT /devstoreaccount1/con/b?comp=lease HTTP/1.1\r\nhost: localhost\r\n{ID}\r\n{}\r\nx-ms-lease-action: renew\r\n\
         content-length: 0\r\nconnection: close\r\n\r\n",
        ID.replace("01", "02")
    );
    let answer = exchange(origin, twice.as_bytes()).await;
    check(twice.as_bytes(), &answer);
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("twice"), "{}", answer.body);
    // Native paths have native errors.
    let native = exchange(origin, b"GET /v1/nothing HTTP/1.0\r\n\r\n").await;
    assert!(
        native.head.contains("application/problem+json"),
        "{}",
        native.head
    );
}
