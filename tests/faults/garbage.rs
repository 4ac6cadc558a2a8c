//! Bad input over real sockets, to every route.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::{Bench, id};

/// Every route with a body, and a valid one.
const WITH_BODY: [(&str, &str, &str); 9] = [
    (
        "POST",
        RENEW_MANY,
        r#"{"leases":[{"lease":"job","lease_id":"ID"}]}"#,
    ),
    ("POST", "acquire", r#"{"holder":"c","duration_ms":60000}"#),
    ("POST", "renew", r#"{"lease_id":"ID"}"#),
    (
        "POST",
        "change",
        r#"{"lease_id":"ID","proposed_lease_id":"ID"}"#,
    ),
    ("POST", "release", r#"{"lease_id":"ID"}"#),
    ("POST", "break", r#"{"break_period_ms":1}"#),
    (
        "POST",
        "handover",
        r#"{"lease_id":"ID","to":"d","within_ms":1000,"force":true}"#,
    ),
    ("POST", "verify", r#"{"epoch":1}"#),
    ("PUT", "metadata", r#"{"lease_id":"ID","metadata":{}}"#),
];

/// The route that is not for a single lease.
const RENEW_MANY: &str = "renew many";

/// The route's path.
fn path_of(namespace: &str, lease: &str, verb: &str) -> String {
    match verb {
        RENEW_MANY => format!("/v1/namespaces/{namespace}/renew"),
        _ => format!("/v1/namespaces/{namespace}/leases/{lease}/{verb}"),
    }
}

/// Durations, waiting times and priorities that are invalid under all limits.
fn invalid_numbers() -> [Value; 9] {
    [
        (-1).into(),
        0.5.into(),
        1e300.into(),
        u64::MAX.into(),
        "1000".into(),
        "endless".into(),
        true.into(),
        serde_json::json!([]),
        serde_json::json!({}),
    ]
}

/// The fields for durations, waiting times and priorities.
const NUMBERS: [(&str, &str); 7] = [
    ("acquire", "duration_ms"),
    ("acquire", "wait_ms"),
    ("acquire", "priority"),
    ("acquire", "lock_delay_ms"),
    ("renew", "duration_ms"),
    ("break", "break_period_ms"),
    ("handover", "within_ms"),
];

/// All other routes.
const WITHOUT_BODY: [(&str, &str); 9] = [
    ("GET", "/v1/namespaces/ns/leases"),
    ("GET", "/v1/namespaces/ns/leases/job"),
    ("DELETE", "/v1/namespaces/ns/leases/job"),
    ("GET", "/v1/namespaces/ns/leases/job/history"),
    ("GET", "/v1/namespaces/ns/leases/job/events"),
    ("GET", "/v1/namespaces/ns/leases/events"),
    ("GET", "/v1/limits"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
];

const CODES: [&str; 10] = [
    "malformed",
    "unknown_field",
    "invalid_name",
    "unknown_route",
    "unknown_lease",
    "method_not_allowed",
    "too_large",
    "not_json",
    "out_of_range",
    "request_timeout",
];

/// An answer's status, head and body; `None` if the connection is closed without one.
type Answer = Option<(u16, String, Value)>;

/// Sends a whole request.
fn send(store: SocketAddr, bytes: &[u8]) -> Answer {
    exchange(store, bytes, false)
}

/// Sends an incomplete request and closes the sending side.
fn send_incomplete(store: SocketAddr, bytes: &[u8]) -> Answer {
    exchange(store, bytes, true)
}

fn exchange(store: SocketAddr, bytes: &[u8], is_incomplete: bool) -> Answer {
    let mut stream = TcpStream::connect(store).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // The store may close before it has read everything.
    let _ = stream.write_all(bytes);
    if is_incomplete {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        answer.extend(&buffer[..count]);
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = serde_json::from_str(body).unwrap_or_default();
    Some((status, head.to_ascii_lowercase(), body))
}

fn request(method: &str, path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Checks that the request was refused as a client's error, in the common format.
fn assert_refused(what: &str, answer: Answer) {
    let (status, head, body) = answer.unwrap_or_else(|| panic!("{what}: no answer"));
    assert!((400..500).contains(&status), "{what}: {status} {body}");
    assert!(head.contains("application/problem+json"), "{what}: {head}");
    assert_eq!(body["status"], status, "{what}");
    let code = body["code"].as_str().unwrap_or_default();
    assert!(CODES.contains(&code), "{what}: {body}");
}

#[test]
fn bad_input_to_every_route_is_refused_and_leaves_the_store_working() {
    let bench = Bench::new();
    let store = bench.store.address();
    let json = "application/json";
    for (method, verb, good) in WITH_BODY {
        let good = good.replace("ID", &id(1));
        let path = path_of("ns", "job", verb);
        let surprise = good.replacen('{', r#"{"surprise":1,"#, 1);
        let twice = good.replacen('{', &format!("{},", &good[..good.len() - 1]), 1);
        let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(1_000_000));
        let deep = "[".repeat(10_000);
        for bad in [
            "{",
            "null",
            "[]",
            "1",
            "\"\u{1f600}\"",
            "{\"\\u0000\":1}",
            &surprise,
            &twice,
            &large,
            &deep,
            "\0\0\0\0",
        ] {
            let answer = send(store, &request(method, &path, json, bad));
            let shown: String = bad.chars().take(60).collect();
            assert_refused(&format!("{verb} {shown}"), answer);
        }
        for field in [
            "holder",
            "lease_id",
            "proposed_lease_id",
            "to",
            "epoch",
            "metadata",
            "leases",
        ] {
            let Value::Object(mut fields) = serde_json::from_str(&good).unwrap() else {
                unreachable!("an object");
            };
            if fields.contains_key(field) {
                for bad in [
                    Value::Null,
                    "".into(),
                    "\n".into(),
                    (-1).into(),
                    1e300.into(),
                ] {
                    fields.insert(field.into(), bad);
                    let bad = Value::Object(fields.clone()).to_string();
                    assert_refused(&bad, send(store, &request(method, &path, json, &bad)));
                }
            }
        }
        for (_, field) in NUMBERS.iter().filter(|(of, _)| *of == verb) {
            let mut fields: Value = serde_json::from_str(&good).unwrap();
            for bad in invalid_numbers() {
                fields[*field] = bad;
                let bad = fields.to_string();
                let what = format!("{verb} {bad}");
                assert_refused(&what, send(store, &request(method, &path, json, &bad)));
            }
        }
        for content_type in ["text/plain", "application/x-www-form-urlencoded", "json"] {
            let answer = send(store, &request(method, &path, content_type, &good));
            assert_refused(&format!("{verb} as {content_type}"), answer);
        }
        for name in [
            "%00",
            "a%2Fb",
            "..",
            "%2e%2e",
            "\u{e9}",
            "a b",
            &"x".repeat(129),
        ] {
            let mut paths = vec![path_of(name, "job", verb)];
            if verb != RENEW_MANY {
                paths.push(path_of("ns", name, verb));
            }
            for path in paths {
                let bytes = request(method, &path, json, &good);
                match send(store, &bytes) {
                    // The HTTP library refuses an invalid request line, without a body.
                    Some((400, _, Value::Null)) => assert!(!path.is_ascii() || path.contains(' ')),
                    answer => assert_refused(&path, answer),
                }
            }
        }
        for wrong in ["GET", "DELETE", "PATCH", "OPTIONS", "BREW"] {
            let answer = send(store, &request(wrong, &path, json, &good));
            assert_refused(&format!("{wrong} {path}"), answer);
        }
        let answer = send(store, &request(method, &format!("{path}?x=1"), json, &good));
        assert_refused(&format!("{path}?x=1"), answer);
    }
    for (method, path) in WITHOUT_BODY {
        for query in ["?surprise=1", "?%ff=%ff", "?limit=-1&after=x&wait_ms=1e9"] {
            let answer = send(store, &request(method, &format!("{path}{query}"), json, ""));
            assert_refused(&format!("{method} {path}{query}"), answer);
        }
        for wrong in ["PATCH", "TRACE", "BREW"] {
            let answer = send(store, &request(wrong, path, json, ""));
            assert_refused(&format!("{wrong} {path}"), answer);
        }
        let answer = send(store, &request(method, &format!("{path}/x/y/z"), json, ""));
        assert_refused(&format!("{path}/x/y/z"), answer);
    }
    works(&bench, 1);
}

#[test]
fn invalid_http_and_incomplete_requests_have_no_effect() {
    let bench = Bench::new();
    let store = bench.store.address();
    let path = "/v1/namespaces/ns/leases/half/acquire";
    let whole = request("POST", path, "application/json", WITH_BODY[0].2);
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    let garbage: Vec<Vec<u8>> = vec![
        b"\0\x01\x02\xff".to_vec(),
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"GET /livez HTTP/1.1\r\nbad header\r\n\r\n".to_vec(),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)).into_bytes(),
        format!("GET /livez HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(2_000)).into_bytes(),
        format!("{head}content-length: -1\r\n\r\n{{}}").into_bytes(),
        format!("{head}content-length: 5\r\ncontent-length: 6\r\n\r\n{{}}").into_bytes(),
        format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n").into_bytes(),
        format!("{head}transfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\n").into_bytes(),
    ];
    for bytes in &garbage {
        if let Some((status, _, body)) = send_incomplete(store, bytes) {
            assert!(
                (400..500).contains(&status) || status == 505,
                "{status} {body}"
            );
        }
    }
    // Every prefix of a request.
    for end in (0..whole.len()).step_by(7) {
        if let Some((status, _, body)) = send_incomplete(store, &whole[..end]) {
            assert!((400..500).contains(&status), "{end}: {status} {body}");
        }
    }
    let view = bench.runtime.block_on(bench.client().view("ns/half"));
    assert_eq!(view.unwrap().0, 404, "an incomplete request had an effect");
    works(&bench, 2);
}

/// Checks that the store still works.
fn works(bench: &Bench, number: u64) {
    let client = bench.client();
    bench.runtime.block_on(async {
        let (status, view) = client.acquire("tests/after", number).await.unwrap();
        assert_eq!(status, 200, "{view}");
        let (status, view) = client.release("tests/after", number).await.unwrap();
        assert_eq!(status, 200, "{view}");
    });
    let log = bench.store.process.stderr();
    assert!(!log.contains("fault in the store"), "{log}");
    bench.tap.assert_possible();
}
