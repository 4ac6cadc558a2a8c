//! A proxy that records the requests of clients and the answers of a store.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use serde_json::Value;
use tenure_core::Instant;
use tenure_core::lease::LeaseDuration;
use tokio::net::TcpListener;

use crate::history::{Answer, Call, Seen, What, check};
use crate::receiver::now;

/// A proxy in front of a store, which may be killed and start again at its address. The proxy ends
/// with its runtime.
#[derive(Debug)]
pub struct Tap {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Tap {
    /// Starts a proxy in front of this address.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn start(target: SocketAddr) -> Self {
        Self::record(target, Arc::default()).await
    }

    /// Starts a proxy in front of another server of the same store. All requests to both are one
    /// history.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn beside(&self, target: SocketAddr) -> Self {
        Self::record(target, self.calls.clone()).await
    }

    async fn record(target: SocketAddr, calls: Arc<Mutex<Vec<Call>>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        // A kept connection would break with a killed store, and fail a request that would succeed
        // over a new connection.
        let http = crate::client::plain_http()
            .pool_max_idle_per_host(0)
            .build()
            .expect("a client");
        let shared = calls.clone();
        let router = axum::Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
            forward(http.clone(), shared.clone(), target, method, uri, body)
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, calls }
    }

    /// The address that the proxy listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// All calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.calls).clone()
    }

    /// Checks that the requests and answers so far are possible.
    ///
    /// # Panics
    ///
    /// If they are not; the message contains the violation and its calls.
    pub fn assert_possible(&self) {
        let calls = self.calls();
        assert!(!calls.is_empty(), "the store got no request");
        if let Err((lease, violation)) = check(&calls) {
            for call in calls.iter().filter(|call| call.lease == lease) {
                eprintln!("{call:?}");
            }
            panic!("violation of safety: {lease}: {violation:?}");
        }
    }
}

async fn forward(
    http: reqwest::Client,
    calls: Arc<Mutex<Vec<Call>>>,
    target: SocketAddr,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> Response {
    let sent = instant();
    let path = uri.path().to_owned();
    let asked = asked(&method, &path, &body);
    let begin = {
        let mut calls = lock(&calls);
        let begin = calls.len();
        calls.extend(asked.iter().map(|(lease, what)| Call {
            lease: lease.clone(),
            what: what.clone(),
            sent,
            answer: None,
        }));
        begin
    };
    let is_list = method == Method::GET && path.ends_with("/leases");
    let answer = http
        .request(method, format!("http://{target}{uri}"))
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await;
    let whole = match answer {
        Ok(answer) => {
            let (status, headers) = (answer.status(), answer.headers().clone());
            answer.bytes().await.map(|body| (status, headers, body))
        }
        Err(error) => Err(error),
    };
    // An incomplete answer counts as none.
    let Ok((status, headers, body)) = whole else {
        let mut response = Response::new(Body::from("the store is unreachable"));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        return response;
    };
    let received = instant();
    let parsed: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut known = lock(&calls);
    if is_list {
        known.extend(
            parsed["leases"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|view| {
                    let name = |field: &str| view[field].as_str().unwrap_or_default();
                    Call {
                        lease: format!("{}/{}", name("namespace"), name("lease")),
                        what: What::Read,
                        sent,
                        answer: seen(view).map(|seen| (received, Answer::Done(seen))),
                    }
                }),
        );
    }
    let answers = parsed["results"].as_array();
    for (index, call) in known[begin..].iter_mut().take(asked.len()).enumerate() {
        let answer = match answers.and_then(|answers| answers.get(index)) {
            // The body of a problem contains its status.
            Some(one) => answered(one["status"].as_u64().unwrap_or(200), one),
            None => answered(status.as_u16().into(), &parsed),
        };
        call.answer = answer.map(|answer| (received, answer));
    }
    drop(known);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    for name in ["content-type", "retry-after"] {
        if let Some(value) = headers.get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// The leases and the requests that the rules of leases cover. Deletions are not among them: their
/// answers contain no revision.
fn asked(method: &Method, path: &str, body: &[u8]) -> Vec<(String, What)> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let parts = path.strip_prefix("/v1/namespaces/").unwrap_or_default();
    let parts: Vec<&str> = parts.split('/').collect();
    match (method.as_str(), &parts[..]) {
        ("POST", [namespace, "renew"]) => {
            let renewals = body["leases"].as_array().into_iter().flatten();
            let renewal = |one: &Value| {
                let lease = one["lease"].as_str()?;
                Some((format!("{namespace}/{lease}"), what("POST", "renew", one)?))
            };
            renewals.filter_map(renewal).collect()
        }
        (method, [namespace, "leases", lease, verb @ ..]) if verb.len() < 2 => {
            let verb = verb.first().copied().unwrap_or_default();
            let what = what(method, verb, &body);
            let lease = format!("{namespace}/{lease}");
            what.into_iter().map(|what| (lease.clone(), what)).collect()
        }
        _ => Vec::new(),
    }
}

fn what(method: &str, verb: &str, body: &Value) -> Option<What> {
    let lease_id = |field: &str| body[field].as_str()?.parse().ok();
    let candidate = |field: &str| body[field].as_str()?.parse().ok();
    let duration = || match &body["duration_ms"] {
        Value::Number(ms) => Some(LeaseDuration::Fixed(Duration::from_millis(ms.as_u64()?))),
        Value::String(_) => Some(LeaseDuration::Infinite),
        _ => None,
    };
    Some(match (method, verb) {
        ("GET", "") => What::Read,
        ("POST", "acquire") => What::Acquire {
            lease_id: lease_id("lease_id")?,
            duration: duration()?,
            holder: candidate("holder")?,
        },
        ("POST", "renew") => What::Renew {
            lease_id: lease_id("lease_id")?,
            duration: duration(),
        },
        ("POST", "release") => What::Release {
            lease_id: lease_id("lease_id")?,
        },
        // Without an id it is an operator's request, which works as a break.
        ("POST", "handover") => match lease_id("lease_id") {
            Some(lease_id) => What::HandOver {
                lease_id,
                to: candidate("to")?,
                within: Duration::from_millis(body["within_ms"].as_u64()?),
            },
            None => What::Break,
        },
        ("POST", "change") => What::Change {
            lease_id: lease_id("lease_id")?,
            proposed: lease_id("proposed_lease_id")?,
        },
        ("PUT", "metadata") => What::Describe {
            lease_id: lease_id("lease_id")?,
        },
        ("POST", "break") => What::Break,
        _ => return None,
    })
}

/// The answer of the store; after an internal error its effect is unknown.
fn answered(status: u64, body: &Value) -> Option<Answer> {
    match status {
        200..300 => seen(body).map(Answer::Done),
        // A refusal over a limit or after a timeout contains no information about the lease.
        408 | 429 | 500.. => None,
        // The holder still holds the lease, which it can't hand over to this candidate.
        409 if body["code"] == "not_waiting" => None,
        _ => Some(Answer::Refused),
    }
}

fn seen(view: &Value) -> Option<Seen> {
    Some(Seen {
        revision: view["revision"].as_u64()?,
        state: serde_json::from_value(view["state"].clone()).ok()?,
        holder: view["holder"].as_str().map(str::to_owned),
        epoch: view["epoch"].as_u64(),
    })
}

fn instant() -> Instant {
    Instant::default() + now()
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
