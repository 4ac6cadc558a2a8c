//! A proxy that fails on demand, in front of a working service.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, HOST, HeaderMap};
use axum::http::request::Parts;
use axum::response::Response;
use tokio::net::TcpListener;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// `acquire`, `renew` or `release`; `metadata` for a write of it; otherwise the HTTP method.
    pub(crate) what: String,
    /// The lease id in the request.
    pub(crate) id: Option<String>,
    /// The epoch in the request.
    pub(crate) epoch: Option<u64>,
    /// Whether the request is known to have succeeded.
    pub(crate) done: bool,
    /// Whether the candidate got an answer.
    pub(crate) answered: bool,
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// It is dropped, without an answer.
    Lost,
    /// It succeeds, and the answer is lost.
    LosesAnswer,
    /// It is sent twice, and the second answer arrives.
    Repeated,
    /// It succeeds, and its answer is this error.
    Denied(u16, &'static str),
    /// It is dropped, and its answer is this error.
    Refused(u16, &'static str),
}

type Rule = Box<dyn FnMut(&Asked) -> Fate + Send>;

/// The proxy and the requests that it has received. The proxy ends with its runtime.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    asked: Vec<Asked>,
    rule: Rule,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Front {
    /// Starts a proxy; the rule decides the fate of each request.
    pub(crate) async fn start(
        target: SocketAddr,
        rule: impl FnMut(&Asked) -> Fate + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Shared {
            asked: Vec::new(),
            rule: Box::new(rule),
        };
        let shared = Arc::new(Mutex::new(shared));
        let of_router = shared.clone();
        let http = tenure_tests::client::plain_http().build();
        let http = http.expect("a client");
        let router = axum::Router::new().fallback(move |request: Request| {
            let (http, shared) = (http.clone(), of_router.clone());
            async move {
                let (number, fate) = lock(&shared).record(Asked::of(&request));
                let (parts, _) = request.into_parts();
                if fate == Fate::Repeated {
                    forward(&http, target, &parts).await;
                }
                let answer = match fate {
                    Fate::Lost => std::future::pending().await,
                    Fate::Refused(status, code) => refusal(status, code),
                    _ => {
                        let answer = forward(&http, target, &parts).await;
                        lock(&shared).asked[number].done = answer.status().is_success();
                        answer
                    }
                };
                let answer = match fate {
                    Fate::LosesAnswer => std::future::pending().await,
                    Fate::Denied(status, code) => refusal(status, code),
                    _ => answer,
                };
                lock(&shared).asked[number].answered = true;
                answer
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shared }
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        lock(&self.shared).asked.clone()
    }
}

impl Shared {
    /// Records a request, and returns its index and its fate.
    fn record(&mut self, asked: Asked) -> (usize, Fate) {
        let fate = (self.rule)(&asked);
        self.asked.push(asked);
        (self.asked.len() - 1, fate)
    }
}

impl Asked {
    fn of(request: &Request) -> Self {
        let headers = request.headers();
        let text = |name| {
            let value = headers.get(name)?;
            Some(value.to_str().expect("text").to_owned())
        };
        let is_metadata = request.uri().query() == Some("comp=metadata");
        let what = match text("x-ms-lease-action") {
            Some(action) => action,
            None if is_metadata => "metadata".into(),
            None => request.method().to_string(),
        };
        Self {
            what,
            id: text("x-ms-proposed-lease-id").or_else(|| text("x-ms-lease-id")),
            epoch: text("x-ms-meta-tenureepoch").map(|epoch| epoch.parse().expect("an epoch")),
            done: false,
            answered: false,
        }
    }
}

fn refusal(status: u16, code: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    let code = code.parse().expect("a code");
    response.headers_mut().insert("x-ms-error-code", code);
    response
}

/// Forwards a request and returns the answer. No request has a body.
async fn forward(http: &reqwest::Client, target: SocketAddr, parts: &Parts) -> Response {
    let path = parts.uri.path_and_query().expect("a path");
    let without = |headers: &HeaderMap, name| {
        let mut headers = headers.clone();
        headers.remove(name);
        headers
    };
    let asked = http
        .request(parts.method.clone(), format!("http://{target}{path}"))
        .headers(without(&parts.headers, HOST))
        .send();
    let answer = asked.await.expect("an answer");
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = without(answer.headers(), CONTENT_LENGTH);
    let body = answer.bytes().await.expect("a body");
    *response.body_mut() = body.into();
    response
}
