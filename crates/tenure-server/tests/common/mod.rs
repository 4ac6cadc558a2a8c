//! A server on a free port, and a client for it.

#![allow(dead_code, unreachable_pub)] // Each test file uses its part.

pub mod authority;
pub mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::access::Access;
use tenure_server::{ServeError, Server, Store, StoreConfig};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Long enough for every step of a test.
pub const SOON: Duration = Duration::from_secs(10);

/// A running server.
pub struct Running {
    pub api: Api,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

/// Calls on leases of one namespace.
#[derive(Clone)]
pub struct Api {
    pub origin: String,
    pub http: Client,
}

/// A status and a body.
pub type Answer = (u16, Value);

pub fn start(config: StoreConfig) -> Running {
    serve(Store::open(config).expect("a store"))
}

pub fn serve(store: Store) -> Running {
    let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
    // The tests name the store by any host.
    served(server.with_access(Access::anonymous()))
}

pub fn served(server: Server) -> Running {
    let address = server.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(server.serve(async {
        // If the test drops the sender, the server runs until the runtime ends.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    }));
    let api = Api {
        origin: format!("http://{address}"),
        http: client().build().unwrap(),
    };
    Running { api, stop, served }
}

fn client() -> ClientBuilder {
    // To read the certificates of the machine takes a debug build 40 ms.
    Client::builder().http1_only().tls_certs_only([])
}

pub fn in_memory() -> Running {
    start(StoreConfig::memory())
}

impl Running {
    /// Begins the shutdown, and waits for its end.
    pub async fn stop(self) -> Result<(), ServeError> {
        self.begin_stop().await.unwrap()
    }

    /// Begins the shutdown.
    pub fn begin_stop(self) -> JoinHandle<Result<(), ServeError>> {
        self.stop.send(()).unwrap();
        self.served
    }
}

impl Api {
    /// Returns a client with this address of this machine.
    pub fn from(&self, address: &str) -> Self {
        let http = client().local_address(address.parse().ok());
        Self {
            http: http.build().unwrap(),
            ..self.clone()
        }
    }

    pub fn url(&self, lease: &str, verb: &str) -> String {
        let slash = if verb.is_empty() { "" } else { "/" };
        format!(
            "{}/v1/namespaces/ns/leases/{lease}{slash}{verb}",
            self.origin
        )
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.origin))
    }

    pub async fn post(&self, lease: &str, verb: &str, body: Value) -> Answer {
        let request = self.http.post(self.url(lease, verb)).json(&body);
        answer(request.send().await.unwrap()).await
    }

    pub async fn get(&self, lease: &str) -> Answer {
        answer(self.http.get(self.url(lease, "")).send().await.unwrap()).await
    }

    pub async fn history(&self, lease: &str) -> Answer {
        answer(
            self.http
                .get(self.url(lease, "history"))
                .send()
                .await
                .unwrap(),
        )
        .await
    }

    pub async fn list(&self, query: &str) -> Answer {
        let url = format!("{}/v1/namespaces/ns/leases{query}", self.origin);
        answer(self.http.get(url).send().await.unwrap()).await
    }

    pub async fn delete(&self, lease: &str) -> Answer {
        answer(self.http.delete(self.url(lease, "")).send().await.unwrap()).await
    }

    /// Acquires the lease for a minute, with the lease id of this number.
    pub async fn acquire(&self, lease: &str, number: u32) -> Answer {
        self.post(lease, "acquire", minute(number)).await
    }

    pub async fn renew(&self, lease: &str, number: u32) -> Answer {
        self.post(lease, "renew", json!({"lease_id": id(number)}))
            .await
    }

    pub async fn release(&self, lease: &str, number: u32) -> Answer {
        self.post(lease, "release", json!({"lease_id": id(number)}))
            .await
    }

    /// Sends an acquire for a minute, which waits for the lease. The handle returns the answer and
    /// its time.
    pub fn waiting(&self, lease: &str, number: u32, more: &Value) -> JoinHandle<(Answer, Instant)> {
        let mut body = minute(number);
        body["wait_ms"] = json!(60_000);
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        let (api, lease) = (self.clone(), lease.to_owned());
        tokio::spawn(async move {
            let answer = api.post(&lease, "acquire", body).await;
            (answer, Instant::now())
        })
    }

    /// Waits until `count` requests wait for the lease.
    pub async fn queue_of(&self, lease: &str, count: u64) {
        let until = Instant::now() + SOON;
        while self.get(lease).await.1["waiters"] != count {
            assert!(Instant::now() < until, "no {count} waiters");
            sleep(Duration::from_millis(2)).await;
        }
    }
}

pub async fn answer(response: Response) -> Answer {
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap();
    let value = match body.as_ref() {
        [] => Value::Null,
        body => serde_json::from_slice(body).expect("a JSON body"),
    };
    (status, value)
}

/// Copies a data directory as a kill of its process would leave it now.
pub fn killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        // A running store deletes files now and then.
        let _ = fs::copy(file.path(), copy.path().join(file.file_name()));
    }
    // It has the place of the directory, of which this is a copy.
    fs::write(copy.path().join("lock"), "").unwrap();
    copy
}

/// Returns the newest file of the log in this directory.
pub fn newest_log(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let is_log = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("log-"))
    };
    files.filter(is_log).max().expect("a log")
}

/// Returns the result of a request that is in progress.
pub async fn outcome<T>(handle: JoinHandle<T>) -> T {
    timeout(SOON, handle).await.expect("an answer").unwrap()
}

pub fn id(number: u32) -> String {
    format!("6f1c9a64-3a52-4c0e-9d43-{number:012x}")
}

pub fn minute(number: u32) -> Value {
    json!({"holder": format!("c{number}"), "duration_ms": 60_000, "lease_id": id(number)})
}

#[track_caller]
pub fn assert_refused((status, body): &Answer, expected: u16, code: &str) {
    assert_eq!(
        (*status, body["code"].as_str()),
        (expected, Some(code)),
        "{body}"
    );
}

#[track_caller]
pub fn assert_ok((status, body): &Answer) {
    assert_eq!(*status, 200, "{body}");
}
