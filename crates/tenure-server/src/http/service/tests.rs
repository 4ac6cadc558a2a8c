//! Every check of the request path, for every path to a handler.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody, to_bytes};
use axum::extract::Request as AnyRequest;
use axum::http::Method;
use axum::http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use hyper::body::Frame;
use serde_json::json;

use super::*;
use crate::StoreConfig;
use crate::metrics::Exposition;
use crate::overflow::Overflow;

const LEASE: &str = "/v1/namespaces/ns/leases/job";

/// Whether a connection is within the limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Within,
    Over,
}

/// A path of a request to its handler.
struct Way {
    name: &'static str,
    path: &'static str,
    load: Load,
    is_native: bool,
}

const WAYS: [Way; 6] = [
    Way::native(
        "renewal",
        "/v1/namespaces/ns/leases/job/renew",
        Load::Within,
    ),
    Way::native(
        "change",
        "/v1/namespaces/ns/leases/job/release",
        Load::Within,
    ),
    Way::native(
        "renewal, over the limit",
        "/v1/namespaces/ns/leases/job/renew",
        Load::Over,
    ),
    Way::native(
        "renewals, over the limit",
        "/v1/namespaces/ns/renew",
        Load::Over,
    ),
    Way::foreign("protocol", "/account/release", Load::Within),
    Way::foreign("protocol, over the limit", "/account/renew", Load::Over),
];

impl Way {
    const fn native(name: &'static str, path: &'static str, load: Load) -> Self {
        Self {
            name,
            path,
            load,
            is_native: true,
        }
    }

    const fn foreign(name: &'static str, path: &'static str, load: Load) -> Self {
        Self {
            name,
            path,
            load,
            is_native: false,
        }
    }

    async fn send(&self, more: &[(HeaderName, &str)], body: TestBody) -> Response {
        self.send_counted(more, body).await.0
    }

    /// Sends a request. Returns the answer, and the metrics of the service.
    async fn send_counted(
        &self,
        more: &[(HeaderName, &str)],
        body: TestBody,
    ) -> (Response, String) {
        let mut request = Request::post(self.path)
            .header(HOST, "store:7400")
            .header(CONTENT_TYPE, "application/json");
        for (name, value) in more {
            request = request.header(name, *value);
        }
        let store = Store::open(StoreConfig::memory()).unwrap();
        let service = HttpService::new(ServiceConfig {
            protocol: Some(Arc::new(TestProtocol)),
            ..ServiceConfig::new(store.into(), Access::anonymous())
        });
        let overflow = Overflow::new(1);
        let source = Source {
            client: None,
            certificate: None,
            credential: Arc::default(),
            over: match self.load {
                Load::Within => None,
                Load::Over => overflow.enter(),
            },
            is_over_for_address: false,
        };
        let request = request.body(Body::new(body)).unwrap();
        let response = service.serve_request(&source, request).await;
        let mut out = Exposition::default();
        service.scrape.requests.as_ref().unwrap().expose(&mut out);
        let refusals = &service.scrape.refusals;
        out.counters("refusals", "Refusals.", "code", refusals);
        (response, out.into_text())
    }

    /// Checks that the server itself refused the request, in the format of the API that the request
    /// is for.
    #[track_caller]
    fn assert_refused(&self, response: &Response, status: u16) {
        let is_native = !response.headers().contains_key("by-protocol");
        assert_eq!(
            (response.status().as_u16(), is_native),
            (status, self.is_native),
            "{}",
            self.name
        );
    }
}

/// A protocol that answers with status 299, and refuses with the status of the problem.
#[derive(Debug)]
struct TestProtocol;

impl Protocol for TestProtocol {
    fn is_renewal(&self, head: &Parts) -> bool {
        head.uri.path().ends_with("/renew")
    }

    fn serve(
        &self,
        request: AnyRequest,
        _: Option<IpAddr>,
    ) -> Pin<Box<dyn Future<Output = Response> + Send>> {
        Box::pin(async {
            to_bytes(request.into_body(), usize::MAX).await.unwrap();
            response(299)
        })
    }

    fn refuse(&self, _: Option<&Parts>, problem: Problem) -> Response {
        response(problem.status)
    }

    fn needs_tls(&self) -> bool {
        false
    }

    fn label(&self) -> &'static str {
        "test"
    }
}

fn response(status: u16) -> Response {
    let response = axum::http::Response::builder().status(status);
    response
        .header("by-protocol", "yes")
        .body(Body::empty())
        .unwrap()
}

/// A body that records that it was read, or that panics when it is read.
struct TestBody {
    bytes: Option<Bytes>,
    panics: bool,
    was_read: Arc<AtomicBool>,
}

impl TestBody {
    fn new(bytes: &[u8]) -> (Self, Arc<AtomicBool>) {
        let was_read = Arc::<AtomicBool>::default();
        let body = Self {
            bytes: Some(Bytes::copy_from_slice(bytes)),
            panics: false,
            was_read: Arc::clone(&was_read),
        };
        (body, was_read)
    }
}

impl HttpBody for TestBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        assert!(!self.panics, "a fault");
        self.was_read.store(true, Ordering::Relaxed);
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn proof() -> TestBody {
    let id = "6f1c9a64-3a52-4c0e-9d43-000000000001";
    TestBody::new(json!({"lease_id": id}).to_string().as_bytes()).0
}

#[tokio::test]
async fn every_request_path_leads_to_its_handler() {
    for way in &WAYS {
        let response = way.send(&[], proof()).await;
        let expected = match way {
            Way {
                is_native: false, ..
            } => 299,
            // This request has another body.
            Way {
                name: "renewals, over the limit",
                ..
            } => 400,
            _ => 404,
        };
        assert_eq!(response.status(), expected, "{}", way.name);
    }
}

#[tokio::test]
async fn a_wrong_head_is_refused_on_every_request_path() {
    let long = "x".repeat(20_000);
    for way in &WAYS {
        let large = [(ORIGIN, long.as_str())];
        way.assert_refused(&way.send(&large, proof()).await, 431);
        let response = way.send(&[(HOST, "other")], proof()).await;
        way.assert_refused(&response, 400);
        assert_eq!(response.headers()[CONNECTION], "close", "{}", way.name);
    }
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused_on_every_request_path() {
    for way in &WAYS {
        let origin = [(ORIGIN, "https://elsewhere.example")];
        way.assert_refused(&way.send(&origin, proof()).await, 403);
    }
}

#[tokio::test]
async fn over_the_limit_only_renewals_and_probes_are_answered() {
    for way in &WAYS {
        let over = Way {
            load: Load::Over,
            ..*way
        };
        let response = over.send(&[], proof()).await;
        if way.load == Load::Over || way.path.ends_with("/renew") {
            assert_ne!(response.status(), 429, "{}", way.name);
        } else {
            over.assert_refused(&response, 429);
        }
    }
    let renew = format!("{LEASE}/renew");
    for (method, path, is_essential) in [
        (Method::GET, "/livez", true),
        (Method::HEAD, "/readyz", true),
        (Method::POST, &renew, true),
        (Method::GET, &renew, false),
        (Method::POST, "/livez", false),
        (Method::GET, "/v1/limits", false),
        (Method::GET, "/openapi.json", false),
        (Method::GET, "/", false),
    ] {
        let found = routes::find(&method, path);
        assert_eq!(found.is_essential(), is_essential, "{method} {path}");
    }
}

#[tokio::test]
async fn a_panic_ends_one_request_and_nothing_else_on_every_request_path() {
    for way in &WAYS {
        let body = TestBody {
            panics: true,
            ..proof()
        };
        way.assert_refused(&way.send(&[], body).await, 500);
    }
}

#[tokio::test]
async fn each_request_is_counted_once_by_its_route_and_its_code_on_every_request_path() {
    for way in &WAYS {
        let panicking = TestBody {
            panics: true,
            ..proof()
        };
        let elsewhere = [(ORIGIN, "https://elsewhere.example")];
        for (more, body, code) in [
            (&[][..], proof(), None),
            (&elsewhere[..], proof(), Some("cross_origin")),
            (&[(HOST, "other")][..], proof(), Some("malformed")),
            (&[][..], panicking, Some("internal")),
        ] {
            let (response, text) = way.send_counted(more, body).await;
            let status = response.status();
            let route = match way.is_native {
                true => way.path.rsplit('/').next().unwrap(),
                false => "test",
            };
            let route = match way.path {
                "/v1/namespaces/ns/renew" => "renew_many",
                _ => route,
            };
            let samples = |name: &str| {
                let lines = text.lines().filter(|line| line.starts_with(name));
                let lines = lines.filter(|line| !line.ends_with(" 0"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            let requests = "tenure_http_requests_total{";
            let expected = format!(
                "{requests}route=\"{route}\",status=\"{}\"}} 1",
                status.as_u16()
            );
            assert_eq!(samples(requests), [expected], "{} {code:?}", way.name);
            let duration = "tenure_http_request_duration_seconds_count{";
            let expected = format!("{duration}route=\"{route}\"}} 1");
            assert_eq!(samples(duration), [expected], "{} {code:?}", way.name);
            if let Some(code) = code {
                let expected = format!("refusals{{code=\"{code}\"}} 1");
                assert_eq!(samples("refusals{"), [expected], "{}", way.name);
            }
        }
    }
}

#[tokio::test]
async fn the_body_of_a_refused_request_is_drained_only_within_the_limit() {
    for way in &WAYS {
        let (body, was_read) = TestBody::new(b"unread");
        let origin = [(ORIGIN, "https://elsewhere.example")];
        way.assert_refused(&way.send(&origin, body).await, 403);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let is_within = way.load == Load::Within;
        assert_eq!(was_read.load(Ordering::Relaxed), is_within, "{}", way.name);
    }
}

#[tokio::test]
async fn a_refusal_has_the_id_of_its_request_on_every_way() {
    let given = HeaderName::from_static("x-request-id");
    for way in &WAYS {
        let id = |response: &Response| {
            let id = response.headers().get("tenure-request-id");
            id.map(|id| id.to_str().unwrap().to_owned())
        };
        let origin = (ORIGIN, "https://elsewhere.example");
        let with_id = [origin.clone(), (given.clone(), "r-1")];
        let with_id = id(&way.send(&with_id, proof()).await);
        // The other protocol has its own ids.
        assert_eq!(with_id, way.is_native.then(|| "r-1".into()), "{}", way.name);
        let without = id(&way.send(&[origin], proof()).await);
        assert_eq!(without.is_some(), way.is_native, "{}", way.name);
        let body = TestBody {
            panics: true,
            ..proof()
        };
        let after_a_fault = id(&way.send(&[(given.clone(), "r-2")], body).await);
        let expected = way.is_native.then(|| "r-2".into());
        assert_eq!(after_a_fault, expected, "{}", way.name);
    }
}

#[tokio::test]
async fn a_change_has_the_id_of_its_request_and_a_renewal_has_none() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let service = HttpService::new(ServiceConfig::new(store.into(), Access::anonymous()));
    let id = "6f1c9a64-3a52-4c0e-9d43-000000000001";
    let acquire = json!({"holder": "c1", "duration_ms": 60_000, "lease_id": id});
    let own = json!({"lease_id": id});
    let many = json!({"leases": [{"lease": "job", "lease_id": id}]});
    let lease = |verb: &str| format!("{LEASE}{verb}");
    for (method, path, body, status, has_id) in [
        ("POST", lease("/acquire"), &acquire, 200, true),
        ("POST", lease("/renew"), &own, 200, false),
        ("POST", "/v1/namespaces/ns/renew".into(), &many, 200, false),
        ("GET", lease(""), &own, 200, false),
        ("GET", lease("-missing"), &own, 404, true),
        ("GET", "/livez".into(), &own, 200, false),
        ("POST", lease("/release"), &own, 200, true),
        ("POST", lease("/renew"), &own, 409, true),
        ("DELETE", lease(""), &own, 204, true),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(&path)
            .header(HOST, "store:7400")
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()));
        let source = Source::default();
        let response = service.serve_request(&source, request.unwrap()).await;
        assert_eq!(response.status(), status, "{method} {path}");
        let found = response.headers().contains_key("tenure-request-id");
        assert_eq!(found, has_id, "{method} {path}");
    }
}
