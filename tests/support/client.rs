//! A client of a store, or of the servers of a cluster, without the library.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

/// Begins a client for plain HTTP. It reads no certificates, which takes a debug build 40 ms.
pub fn plain_http() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

/// A client without retries, redirects and checks. If it has several addresses, it asks the next
/// one after a failure.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    stores: Arc<[SocketAddr]>,
    current: Arc<AtomicUsize>,
    failures: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// An answer's status and body; `None` without an answer.
pub type Answer = Option<(u16, Value)>;

impl Client {
    /// A client of one store.
    #[must_use]
    pub fn new(store: SocketAddr) -> Self {
        Self::of(&[store], crate::PATIENCE)
    }

    /// A client of several servers, which waits this long for an answer.
    ///
    /// # Panics
    ///
    /// If the TLS of the client cannot be set up.
    #[must_use]
    pub fn of(stores: &[SocketAddr], timeout: Duration) -> Self {
        let http = plain_http()
            .pool_max_idle_per_host(0)
            .timeout(timeout)
            .build()
            .expect("a client");
        Self {
            http,
            stores: stores.into(),
            current: Arc::default(),
            failures: Arc::default(),
        }
    }

    /// The number of failures by their codes: answers with a status of 500 or above, and requests
    /// without an answer (`none`).
    #[must_use]
    pub fn failures(&self) -> BTreeMap<String, u64> {
        lock(&self.failures).clone()
    }

    /// Sends `verb` for the lease `name`, which starts with its namespace.
    pub async fn ask(&self, method: Method, name: &str, verb: &str, body: Option<Value>) -> Answer {
        let (namespace, lease) = name.split_once('/').unwrap_or_default();
        let path = format!("/v1/namespaces/{namespace}/leases/{lease}{verb}");
        self.request(method, &path, body).await
    }

    /// Sends a request to the current address.
    pub async fn request(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let current = self.current.load(Ordering::SeqCst);
        let store = self.stores[current % self.stores.len()];
        let url = format!("http://{store}{path}");
        let mut request = self.http.request(method, url);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = async {
            let answer = request.send().await.ok()?;
            let status = answer.status().as_u16();
            let bytes = answer.bytes().await.ok()?;
            // Routes for balancers answer with a text.
            let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
            Some((
                status,
                serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
            ))
        };
        // A proxy answers 502 if it gets no whole answer.
        let answer = answer.await.filter(|(status, _)| *status != 502);
        if answer.as_ref().is_none_or(|(status, _)| *status >= 500) {
            // Of several clones that fail at the same time, one goes on.
            let order = Ordering::SeqCst;
            let _ = (self.current).compare_exchange(current, current + 1, order, order);
            let code = answer
                .as_ref()
                .map_or("none", |(_, body)| body["code"].as_str().unwrap_or("other"));
            *lock(&self.failures).entry(code.into()).or_default() += 1;
        }
        answer
    }

    /// Reads a lease.
    pub async fn view(&self, name: &str) -> Answer {
        self.ask(Method::GET, name, "", None).await
    }

    /// Sends a request that changes a lease.
    pub async fn post(&self, name: &str, verb: &str, body: Value) -> Answer {
        let verb = format!("/{verb}");
        self.ask(Method::POST, name, &verb, Some(body)).await
    }

    /// Acquires for a minute, without waiting.
    pub async fn acquire(&self, name: &str, number: u64) -> Answer {
        let holder = format!("c{number}");
        let body = json!({"lease_id": id(number), "holder": holder, "duration_ms": 60_000});
        self.post(name, "acquire", body).await
    }

    /// Renews.
    pub async fn renew(&self, name: &str, number: u64) -> Answer {
        let body = json!({"lease_id": id(number)});
        self.post(name, "renew", body).await
    }

    /// Releases.
    pub async fn release(&self, name: &str, number: u64) -> Answer {
        let body = json!({"lease_id": id(number)});
        self.post(name, "release", body).await
    }
}

/// The lease id with this number.
#[must_use]
pub fn id(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// A client that acquires, holds for a while, releases, and repeats this under a new id, under all
/// faults of the store.
pub async fn compete(client: Client, name: String, number: u64, stop: Arc<AtomicBool>) {
    for turn in 0.. {
        let own = number * 100_000 + turn;
        let ask = json!({"lease_id": id(own), "holder": format!("c{number}"),
            "duration_ms": 1_000, "wait_ms": 300});
        while !stop.load(Ordering::SeqCst) {
            let answer = client.post(&name, "acquire", ask.clone()).await;
            // The term of a grant whose answer was lost may have ended. Its id is refused then, until
            // the store has forgotten it.
            if answer
                .is_some_and(|(status, body)| status == 200 || body["code"] == "lease_id_retired")
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Without an answer it does not know whether it holds the lease, so it renews nothing.
        if stop.load(Ordering::SeqCst) {
            return;
        }
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(40)).await;
            // The history check decides whether a refusal is correct.
            client.renew(&name, own).await;
        }
        // Every third lease is left to expire.
        if turn % 3 != 2 {
            client.release(&name, own).await;
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
