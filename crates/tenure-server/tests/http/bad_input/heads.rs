//! Bytes that are not HTTP, and heads that contradict themselves.

use super::*;

#[tokio::test]
async fn bytes_that_are_not_http_affect_no_other_request() {
    let api = in_memory().api;
    let address = api.origin.strip_prefix("http://").unwrap();
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00".as_slice(),
        b"GET /v1/namespaces/\xff\xfe/leases HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/namespaces/ns/leases/a/acquire HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n\r\n",
    ] {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut reply = Vec::new();
        let _ = socket.read_to_end(&mut reply).await;
        assert!(!reply.starts_with(b"HTTP/1.1 5"), "{}", String::from_utf8_lossy(&reply));
    }
    assert_ok(&api.acquire("job", 1).await);
}

#[tokio::test]
async fn the_preface_of_http_2_gets_a_refusal_in_http_1() {
    let api = in_memory().api;
    let address = api.origin.strip_prefix("http://").unwrap();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    socket.write_all(preface).await.unwrap();
    let mut reply = Vec::new();
    let _ = socket.read_to_end(&mut reply).await;
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
    assert!(reply.contains("speaks HTTP/1.1"), "{reply}");
}

/// Each request has an exact line and headers. It is sent within the limit of connections, and over a
/// connection beyond it.
#[tokio::test]
async fn a_head_that_contradicts_itself_is_refused_on_every_request_path() {
    const RENEW: &str = "/v1/namespaces/ns/leases/job/renew";
    let limits = Limits {
        max_connections: 1,
        ..Limits::default()
    };
    let roomy = in_memory();
    let full = crate::common::start(StoreConfig::memory().with_limits(limits));
    let _only = Wire::connect(&full.api).await;
    for api in [&roomy.api, &full.api] {
        for line in [
            format!("POST {RENEW}"),
            "POST /v1/namespaces/ns/renew".to_owned(),
            "GET /v1/namespaces/ns/leases".to_owned(),
            "GET /livez".to_owned(),
        ] {
            for (headers, told) in [
                ("", "Host"),
                ("host: a\r\nhost: a\r\n", "host"),
                ("host: a\r\nhost: b\r\n", "host"),
                ("host: a, b\r\n", "Host"),
                ("host: user@a\r\n", "Host"),
                (
                    "host: a\r\ntransfer-encoding: gzip, chunked\r\n",
                    "Transfer-Encoding",
                ),
                (
                    "host: a\r\ntransfer-encoding: chunked, chunked\r\n",
                    "Transfer-Encoding",
                ),
                (
                    "host: a\r\ntransfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
                    "transfer-encoding",
                ),
                (
                    "host: a\r\ncontent-type: application/json\r\ncontent-type: text/plain\r\n",
                    "content-type",
                ),
            ] {
                let request = format!("{line} HTTP/1.1\r\n{headers}\r\n0\r\n\r\n");
                assert_malformed(api, &request, told).await;
            }
            let elsewhere = line.replacen(" /", " http://elsewhere:7400/", 1);
            let request = format!("{elsewhere} HTTP/1.1\r\nhost: store:7400\r\n\r\n");
            assert_malformed(api, &request, "elsewhere").await;
        }
        for good in [
            "GET /livez HTTP/1.0\r\n\r\n",
            "GET /livez HTTP/1.1\r\nhost:\r\n\r\n",
            "GET /livez HTTP/1.1\r\nhost: [::1]:7400\r\n\r\n",
            "GET http://Store:7400/livez HTTP/1.1\r\nhost: store:7400\r\n\r\n",
            "GET /livez HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
        ] {
            let mut wire = Wire::connect(api).await;
            wire.send(good).await.unwrap();
            assert_eq!(wire.reply().await.unwrap().answer.0, 200, "{good}");
        }
    }
}

async fn assert_malformed(api: &Api, request: &str, told: &str) {
    let mut wire = Wire::connect(api).await;
    wire.send(request).await.unwrap();
    let refused = wire.reply().await.expect(request);
    assert_refused(&refused.answer, 400, "malformed");
    let detail = refused.answer.1["detail"].as_str().unwrap();
    assert!(detail.contains(told), "{request}: {detail}");
    // The server can't know where the next request begins.
    assert!(refused.has("connection: close"), "{refused:?}");
    assert!(wire.closes_within(SOON).await, "{request}");
}
