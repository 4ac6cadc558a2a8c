//! A proxy that writes down what clients ask a store and what it answers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// A proxy in front of a store, which may be killed and come back at its address. It ends with the
/// runtime it was started on.
#[derive(Debug)]
pub struct Tap {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    delay: Arc<AtomicU64>,
}

impl Tap {
    /// Starts one in front of this address.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let calls = Arc::<Mutex<Vec<Call>>>::default();
        // A connection that was kept would die with a store that is killed, and take a request
        // with it that a new one would have brought through.
        let http = reqwest::Client::builder()
            .pool_max_idle_per_host(0)
            .no_proxy()
            .build()
            .expect("a client");
        let shared = calls.clone();
        let delay = Arc::<AtomicU64>::default();
        let late = delay.clone();
        let router = axum::Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
            let answer = forward(http.clone(), shared.clone(), target, method, uri, body);
            let late = late.clone();
            async move {
                let answer = answer.await;
                tokio::time::sleep(Duration::from_millis(late.load(Ordering::SeqCst))).await;
                answer
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            calls,
            delay,
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on answers are on their way for so long.
    pub fn delay_answers(&self, by: Duration) {
        let millis = by.as_millis().try_into().unwrap_or(u64::MAX);
        self.delay.store(millis, Ordering::SeqCst);
    }

    /// Everything that was asked so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.calls).clone()
    }

    /// Fails if what was asked and answered so far can't be true.
    ///
    /// # Panics
    ///
    /// With what can't be, and what led to it.
    pub fn assert_possible(&self) {
        let calls = self.calls();
        assert!(!calls.is_empty(), "nobody asked the store for anything");
        if let Err((lease, violation)) = check(&calls) {
            for call in calls.iter().filter(|call| call.lease == lease) {
                eprintln!("{call:?}");
            }
            panic!("{lease}: {violation:?}");
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
    let index = asked(&method, &uri, &body).map(|(lease, what)| {
        let mut calls = lock(&calls);
        calls.push(Call {
            lease,
            what,
            sent: instant(),
            answer: None,
        });
        calls.len() - 1
    });
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
    // What was cut off is as if no answer had come.
    let Ok((status, headers, body)) = whole else {
        let mut response = Response::new(Body::from("the store is away"));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        return response;
    };
    if let Some(index) = index {
        lock(&calls)[index].answer = answered(status, &body).map(|answer| (instant(), answer));
    }
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    for name in ["content-type", "retry-after"] {
        if let Some(value) = headers.get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// The lease and the question, if it is one that the rules are about.
fn asked(method: &Method, uri: &Uri, body: &[u8]) -> Option<(String, What)> {
    let path = uri.path().strip_prefix("/v1/namespaces/")?;
    let mut parts = path.split('/');
    let (namespace, _, lease) = (parts.next()?, parts.next()?, parts.next()?);
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let lease_id = || body["lease_id"].as_str()?.parse().ok();
    let duration = || match &body["duration_ms"] {
        Value::Number(ms) => Some(LeaseDuration::Fixed(Duration::from_millis(ms.as_u64()?))),
        Value::String(_) => Some(LeaseDuration::Infinite),
        _ => None,
    };
    let what = match (method.as_str(), parts.next()) {
        ("GET", None) => What::Read,
        ("POST", Some("acquire")) => What::Acquire {
            lease_id: lease_id()?,
            duration: duration()?,
        },
        ("POST", Some("renew")) => What::Renew {
            lease_id: lease_id()?,
            duration: duration(),
        },
        ("POST", Some("release")) => What::Release {
            lease_id: lease_id()?,
        },
        ("POST", Some("break")) => What::Break,
        _ => return None,
    };
    Some((format!("{namespace}/{lease}"), what))
}

/// What the store said; a fault of its own leaves open what it did.
fn answered(status: StatusCode, body: &[u8]) -> Option<Answer> {
    if status.is_server_error() {
        return None;
    }
    if !status.is_success() {
        return Some(Answer::Refused);
    }
    let view: Value = serde_json::from_slice(body).ok()?;
    Some(Answer::Done(Seen {
        revision: view["revision"].as_u64()?,
        state: serde_json::from_value(view["state"].clone()).ok()?,
        epoch: view["epoch"].as_u64(),
    }))
}

fn instant() -> Instant {
    Instant::default() + now()
}

fn lock(calls: &Mutex<Vec<Call>>) -> MutexGuard<'_, Vec<Call>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
