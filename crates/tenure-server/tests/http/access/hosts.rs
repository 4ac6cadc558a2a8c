//! Requests that a browser could send for a page of another site, by their `Host` and by their
//! `Origin`.

use super::*;

/// The access control of the store, and the presence of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Open,
    Unauthenticated,
    Authenticated,
}

/// A request, and its status if the store accepts it.
struct Way {
    method: &'static str,
    path: String,
    body: Option<Value>,
    served: u16,
    is_stream: bool,
}

fn ways() -> Vec<Way> {
    let way = |method, path: String, body, served| Way {
        method,
        is_stream: path.ends_with("/events"),
        path,
        body,
        served,
    };
    let (renew, id) = (json!({"lease_id": id(1)}), id(1));
    let many = json!({"leases": [{"lease": "job", "lease_id": id}]});
    vec![
        way("POST", format!("{LEASE}/renew"), Some(renew), 200),
        way("POST", "/v1/namespaces/a/renew".into(), Some(many), 200),
        way("DELETE", LEASE.into(), None, 409),
        way("POST", "/v1/nothing".into(), None, 404),
        way("GET", LEASE.into(), None, 200),
        way("HEAD", LEASE.into(), None, 200),
        way("GET", "/v1/limits".into(), None, 200),
        way("GET", "/v1/nothing".into(), None, 404),
        way("OPTIONS", LEASE.into(), None, 405),
        way("GET", format!("{LEASE}/events"), None, 200),
        way("GET", "/v1/namespaces/a/leases/events".into(), None, 200),
    ]
}

/// The hosts, and whether each is an address, `localhost`, or the name in the settings.
const HOSTS: [(&str, bool); 12] = [
    ("127.0.0.1:7400", true),
    ("10.0.0.5", true),
    ("[::1]:7400", true),
    ("localhost:7400", true),
    ("account.localhost", true),
    ("STORE.lan", true),
    ("evil.example", false),
    ("evil.example:7400", false),
    ("127.0.0.1.evil.example", false),
    ("localhost.evil.example", false),
    ("[::1].evil.example", false),
    ("store.lan.evil.example", false),
];

/// Returns headers of a browser, and whether the page is of the host of the request or there is no
/// page.
fn origins(host: &str) -> [(String, bool); 7] {
    [
        (String::new(), true),
        (format!("origin: http://{host}\r\n"), true),
        (format!("origin: https://{host}\r\n"), true),
        ("sec-fetch-site: none\r\n".into(), true),
        ("origin: http://evil.invalid\r\n".into(), false),
        ("origin: null\r\n".into(), false),
        (
            format!("sec-fetch-site: cross-site\r\norigin: http://{host}\r\n"),
            false,
        ),
    ]
}

/// Returns the status for the mode, the host and the origin.
fn expected(mode: Mode, way: &Way, is_own_host: bool, is_own_page: bool) -> u16 {
    let is_safe = matches!(way.method, "GET" | "HEAD" | "OPTIONS");
    match mode {
        _ if !is_safe && !is_own_page => 403,
        Mode::Open if !is_own_host => 403,
        Mode::Unauthenticated => 401,
        _ if way.is_stream && !is_own_page => 403,
        Mode::Open | Mode::Authenticated => way.served,
    }
}

#[tokio::test]
async fn a_page_of_somebody_else_gets_nothing_on_any_way() {
    let guarded = Guarded::start(&[("admin", &grant("admin", "*", ""))]);
    let open = Access::anonymous_at(["store.lan".to_owned()]);
    let open = served(bind(&guarded.store).with_access(open));
    let acquire = format!("{LEASE}/acquire");
    let acquired = guarded
        .post("admin", &acquire, body_of("acquire", &id(1)))
        .await;
    assert_eq!(acquired.0, 200);
    let path = format!("{LEASE}/break");
    let broken = guarded
        .post("admin", &path, json!({"break_period_ms": 0}))
        .await;
    assert_eq!(broken.0, 200);
    // The lease has no owner, so both servers may renew it.
    let request = open.api.request(Method::POST, &acquire);
    let request = request
        .json(&body_of("acquire", &id(2)))
        .send()
        .await
        .unwrap();
    assert_eq!(request.status(), 200);
    let signed_in = guarded.header("admin");
    for mode in [Mode::Open, Mode::Unauthenticated, Mode::Authenticated] {
        let api = match mode {
            Mode::Open => &open.api,
            _ => &guarded.running.api,
        };
        let credential = if mode == Mode::Authenticated {
            &*signed_in
        } else {
            ""
        };
        for way in ways() {
            for (host, is_own_host) in HOSTS {
                for (origin, is_own_page) in origins(host) {
                    let body = way.body.as_ref().map(Value::to_string).unwrap_or_default();
                    let body = body.replace(&id(1), &id(2));
                    let request = format!(
                        "{} {} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
                         content-length: {}\r\nconnection: close\r\n{credential}{origin}\r\n{body}",
                        way.method,
                        way.path,
                        body.len()
                    );
                    let mut wire = Wire::connect(api).await;
                    wire.send(&request).await.unwrap();
                    let reply = wire.reply_to(way.method).await.expect("an answer");
                    let (status, answer) = &reply.answer;
                    let expected = expected(mode, &way, is_own_host, is_own_page);
                    assert_eq!(*status, expected, "{mode:?} {request}{answer}");
                    if expected == 403 && way.method != "HEAD" {
                        assert_eq!(answer["code"], "cross_origin", "{mode:?} {request}");
                    }
                }
            }
        }
        for (host, _) in HOSTS {
            for path in ["/livez", "/readyz"] {
                let mut wire = Wire::connect(api).await;
                let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
                wire.send(request).await.unwrap();
                assert_eq!(wire.reply().await.unwrap().answer.0, 200, "{host}");
            }
        }
    }
}

#[tokio::test]
async fn the_host_of_an_absolute_target_counts() {
    let open = served(bind(&Store::open(StoreConfig::memory()).unwrap()));
    for (target, status) in [("localhost:7400", 200), ("evil.example", 403)] {
        let mut wire = Wire::connect(&open.api).await;
        let request = format!("GET http://{target}/v1/limits HTTP/1.1\r\nhost: {target}\r\n\r\n");
        wire.send(request).await.unwrap();
        assert_eq!(wire.reply().await.unwrap().answer.0, status, "{target}");
    }
}
