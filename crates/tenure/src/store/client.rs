//! The store's HTTP API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::wire::{BreakRequest, HandOverRequest, History, LeaseList, LeaseView, Problem};
use tenure_core::{ElectionName, Name};

use super::{Endpoint, Roots};
use crate::azure::AzureRefusal;

/// How long a request that does not wait in the store may take.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long connecting may take, of that. An address whose machine is gone is left for the next one
/// after so long, and not when a request that may wait for a lease would have ended.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Largest answer that is read. A thousand renewals in one request are answered with as many leases, each
/// with metadata of 4 KiB, of which each byte may be twelve in JSON; they fit.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A client of one lease store, at one or several addresses. Clones are cheap and share connections.
#[derive(Clone, Debug)]
pub struct StoreClient {
    http: Client,
    endpoints: Arc<[Endpoint]>,
    roots: Roots,
    /// The endpoint to ask next; moves on when one can't be reached.
    current: Arc<AtomicUsize>,
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pong {
    /// How long it took, there and back.
    pub round_trip: Duration,
    /// The machine's wall clock as it says (an HTTP date, whole seconds), if it does.
    pub date: Option<String>,
}

/// Why a request to the store has not given what was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer came, so nothing is known of what the store did.
    #[error("can't reach the store at {endpoint}: {reason}")]
    Unreachable {
        /// Who was asked.
        endpoint: Endpoint,
        /// What went wrong, the last cause first.
        reason: String,
    },
    /// The store refused, and says why.
    #[error("{} ({})", .0.detail, .0.code.as_str())]
    Problem(Problem),
    /// The service that has the blob refused, and says why.
    #[error(transparent)]
    Azure(Box<AzureRefusal>),
    /// It answered, and something in the answer can't be.
    #[error("{endpoint}: {reason}")]
    Malformed {
        /// Who was asked.
        endpoint: Endpoint,
        /// What is wrong.
        reason: String,
    },
    /// Something answered that does not speak like a lease store.
    #[error("{endpoint} answered {status}, which is not an answer of a lease store")]
    NotAStore {
        /// Who was asked.
        endpoint: Endpoint,
        /// The HTTP status that it answered with.
        status: u16,
    },
}

impl StoreError {
    /// Whether another address of the same store might help.
    const fn is_of_the_endpoint(&self) -> bool {
        match self {
            Self::Problem(problem) => problem.code.is_transient(),
            Self::Unreachable { .. } | Self::NotAStore { .. } => true,
            // Of a blob, which is at one address.
            Self::Azure(_) | Self::Malformed { .. } => false,
        }
    }
}

impl StoreClient {
    /// A client of the store at these addresses (at least one).
    ///
    /// # Errors
    ///
    /// The HTTP client can't be set up, for example because the system's TLS roots can't be read.
    pub fn new(endpoints: &[Url]) -> Result<Self, reqwest::Error> {
        let endpoints: Vec<_> = endpoints.iter().cloned().map(Endpoint::from).collect();
        Self::trusting(&endpoints, &Roots::of_system())
    }

    /// The same, that believes stores at https addresses by these certificates.
    ///
    /// # Errors
    ///
    /// As of [`StoreClient::new`].
    pub fn trusting(endpoints: &[Endpoint], roots: &Roots) -> Result<Self, reqwest::Error> {
        Ok(Self {
            http: http_client(roots)?,
            endpoints: endpoints.into(),
            roots: roots.clone(),
            current: Arc::default(),
        })
    }

    /// Whether both are at the same addresses, and believe the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.endpoints == other.endpoints && self.roots == other.roots
    }

    /// One lease, or `None` if it was never acquired.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn lease(&self, election: &ElectionName) -> Result<Option<LeaseView>, StoreError> {
        known(
            self.ask_any(
                Method::GET,
                &path(election, ""),
                None::<&()>,
                REQUEST_TIMEOUT,
            )
            .await,
        )
    }

    /// One lease, when its revision is greater than `after`, or after `wait` as it is then.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn lease_after(
        &self,
        election: &ElectionName,
        after: u64,
        wait: Duration,
    ) -> Result<Option<LeaseView>, StoreError> {
        let query = format!(
            "{}?after={after}&wait_ms={}",
            path(election, ""),
            wait.as_millis()
        );
        known(
            self.ask_any(Method::GET, &query, None::<&()>, wait + REQUEST_TIMEOUT)
                .await,
        )
    }

    /// The leases of a namespace whose names begin with `prefix` and come after `after`, a page of
    /// them.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn list(
        &self,
        namespace: &Name,
        prefix: Option<&Name>,
        after: Option<&str>,
    ) -> Result<LeaseList, StoreError> {
        let mut path = format!("v1/namespaces/{namespace}/leases?limit=1000");
        // Names need no escaping in a query.
        if let Some(prefix) = prefix {
            path += &format!("&prefix={prefix}");
        }
        if let Some(after) = after {
            path += &format!("&after={after}");
        }
        self.ask_any(Method::GET, &path, None::<&()>, REQUEST_TIMEOUT)
            .await
    }

    /// Breaks a lease. With a period that is shorter than the lease's duration the holder, which hears of it
    /// with its next renewal, may still act when another is granted.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn break_lease(
        &self,
        election: &ElectionName,
        request: &BreakRequest,
    ) -> Result<LeaseView, StoreError> {
        let path = path(election, "/break");
        self.ask_any(Method::POST, &path, Some(request), REQUEST_TIMEOUT)
            .await
    }

    /// Hands a lease over to another candidate.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn hand_over(
        &self,
        election: &ElectionName,
        request: &HandOverRequest,
    ) -> Result<LeaseView, StoreError> {
        let path = path(election, "/handover");
        self.ask_any(Method::POST, &path, Some(request), REQUEST_TIMEOUT)
            .await
    }

    /// The terms of a lease, newest first, or `None` if it was never acquired.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn history(&self, election: &ElectionName) -> Result<Option<History>, StoreError> {
        let path = path(election, "/history");
        known(
            self.ask_any(Method::GET, &path, None::<&()>, REQUEST_TIMEOUT)
                .await,
        )
    }

    /// Asks for a sign of life, at the address that is asked first.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn ping(&self) -> Result<Pong, StoreError> {
        let sent = std::time::Instant::now();
        let (_, headers) = self.look("livez").await?;
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        Ok(Pong {
            round_trip: sent.elapsed(),
            date: date.map(Into::into),
        })
    }

    /// Whether the store takes requests, at the address that is asked first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Problem`] with the store's reason if it does not.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.look("readyz").await.map(|_| ())
    }

    /// How much the store takes of everything, by the names of its settings; times in milliseconds.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn limits(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        self.ask_any(Method::GET, "v1/limits", None::<&()>, REQUEST_TIMEOUT)
            .await
    }

    /// A path whose answer is no JSON.
    async fn look(&self, path: &str) -> Result<(Vec<u8>, HeaderMap), StoreError> {
        let index = self.current.load(Ordering::Relaxed);
        let request = self.send(index, Method::GET, path, None::<&()>, REQUEST_TIMEOUT);
        let (status, headers, bytes) = request.await?;
        self.checked(index, status, bytes)
            .map(|bytes| (bytes, headers))
    }

    /// Asks one endpoint after the other until one can help.
    async fn ask_any<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        for _ in 1..self.endpoints.len() {
            match self.ask_once(method.clone(), path, body, timeout).await {
                Err(error) if error.is_of_the_endpoint() => {}
                answer => return answer,
            }
        }
        self.ask_once(method, path, body, timeout).await
    }

    /// Asks the current endpoint, once. If it gives no answer, or one that says that it can't help
    /// now, the next request goes to the next endpoint.
    pub(crate) async fn ask_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let index = self.current.load(Ordering::Relaxed);
        let answer = self.ask(index, method, path, body, timeout).await;
        self.move_on_after(index, answer)
    }

    fn move_on_after<T>(
        &self,
        index: usize,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if answer.as_ref().is_err_and(StoreError::is_of_the_endpoint) {
            // Only one of several requests that failed at the same endpoint moves on.
            let next = (index + 1) % self.endpoints.len();
            let order = Ordering::Relaxed;
            let _ = self.current.compare_exchange(index, next, order, order);
        }
        answer
    }

    /// A stream of events from the first endpoint that gives one.
    pub(super) async fn open(
        &self,
        path: &str,
        last_id: Option<u64>,
    ) -> Result<(Response, Endpoint), StoreError> {
        let mut tries = 1;
        loop {
            let index = self.current.load(Ordering::Relaxed);
            let opened = self.open_at(index, path, last_id).await;
            match self.move_on_after(index, opened) {
                Err(error) if error.is_of_the_endpoint() && tries < self.endpoints.len() => {
                    tries += 1;
                }
                opened => return Ok((opened?, self.endpoints[index].clone())),
            }
        }
    }

    async fn open_at(
        &self,
        index: usize,
        path: &str,
        last_id: Option<u64>,
    ) -> Result<Response, StoreError> {
        const EVENT_STREAM: &str = "text/event-stream";
        let unreachable = |reason: String| StoreError::Unreachable {
            endpoint: self.endpoints[index].clone(),
            reason,
        };
        let request = self.http.get(self.url(index, path));
        let mut request = request.header(ACCEPT, EVENT_STREAM);
        if let Some(last_id) = last_id {
            request = request.header("last-event-id", last_id);
        }
        let opened = async {
            let response = request.send().await?;
            let content_type = response.headers().get(CONTENT_TYPE);
            let media_type = content_type.map_or(&b""[..], |value| value.as_bytes());
            if response.status().is_success() && media_type.starts_with(EVENT_STREAM.as_bytes()) {
                return Ok(Ok(response));
            }
            let status = response.status();
            Ok(Err((status, read(response).await?)))
        };
        let opened = tokio::time::timeout(REQUEST_TIMEOUT, opened).await;
        let opened = opened.map_err(|_| unreachable("no answer in time".into()))?;
        match opened.map_err(|error| unreachable(causes(&error)))? {
            Ok(response) => Ok(response),
            Err((status, Some(bytes))) if !status.is_success() => {
                Err(match self.checked(index, status, bytes) {
                    Err(problem) => problem,
                    Ok(_) => self.not_a_store(index, status),
                })
            }
            Err((status, _)) => Err(self.not_a_store(index, status)),
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        index: usize,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let (status, _, bytes) = self.send(index, method, path, body, timeout).await?;
        let bytes = self.checked(index, status, bytes)?;
        serde_json::from_slice(&bytes).map_err(|_| self.not_a_store(index, status))
    }

    async fn send(
        &self,
        index: usize,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        timeout: Duration,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), StoreError> {
        let endpoint = &self.endpoints[index];
        let unreachable = |error: reqwest::Error| StoreError::Unreachable {
            endpoint: endpoint.clone(),
            reason: causes(&error),
        };
        let url = self.url(index, path);
        let mut request = self.http.request(method, url).timeout(timeout);
        // Not the events of its namespace, if a lease is called `events`.
        request = request.header(ACCEPT, "application/json");
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let bytes = read(response)
            .await
            .map_err(unreachable)?
            .ok_or_else(|| self.not_a_store(index, status))?;
        Ok((status, headers, bytes))
    }

    fn url(&self, index: usize, path: &str) -> String {
        let endpoint = self.endpoints[index].url().as_str();
        format!("{}/{path}", endpoint.trim_end_matches('/'))
    }

    /// The body of a success, or the problem.
    fn checked(
        &self,
        index: usize,
        status: StatusCode,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, StoreError> {
        if status.is_success() {
            return Ok(bytes);
        }
        let problem =
            serde_json::from_slice(&bytes).map_err(|_| self.not_a_store(index, status))?;
        Err(StoreError::Problem(problem))
    }

    fn not_a_store(&self, index: usize, status: StatusCode) -> StoreError {
        StoreError::NotAStore {
            endpoint: self.endpoints[index].clone(),
            status: status.as_u16(),
        }
    }
}

/// An HTTP client for one who leads by what it is answered.
pub(crate) fn http_client(roots: &Roots) -> Result<Client, reqwest::Error> {
    let client = Client::builder()
        .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
        // HTTP/1.1: a timed-out request closes its connection. An HTTP/2 connection that died
        // silently would stay in the pool, and fail every renewal after it.
        .http1_only()
        // A repeated request must be one that the keeper counts from.
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none())
        // A proxy that only the environment names would see lease ids, and its refusals would pass for
        // the store's. One that is meant is named as the store's address.
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(5))
        .pool_idle_timeout(Duration::from_secs(60));
    roots.trusted_by(client)?.build()
}

/// The path of an election's lease, with what follows it.
pub(crate) fn path(election: &ElectionName, rest: &str) -> String {
    format!(
        "v1/namespaces/{}/leases/{}{rest}",
        election.namespace(),
        election.name()
    )
}

/// `None` for a lease that the store does not know.
fn known<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Err(StoreError::Problem(problem))
            if problem.code == tenure_core::wire::Code::UnknownLease =>
        {
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// The whole body; `None` if it is larger than any answer of a store.
pub(crate) async fn read(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_ANSWER_BYTES {
            return Ok(None);
        }
    }
    Ok(Some(bytes))
}

/// An error with its causes, without the URL, which the message has already.
pub(crate) fn causes(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::lease::State;
    use tenure_core::wire::{MAX_METADATA_BYTES, MAX_RENEWALS};

    /// The largest answer that a store gives: as many renewals as fit into a request, of leases of which
    /// all has been said that may be, in letters that JSON makes long.
    #[test]
    fn an_answer_to_many_renewals_fits_however_much_is_said_of_the_leases() {
        let controls: Vec<char> = (1..32).map(char::from).collect();
        let of_one = controls.iter().map(char::to_string);
        let of_two = controls
            .iter()
            .flat_map(|a| controls.iter().map(move |b| format!("{a}{b}")));
        let mut metadata: BTreeMap<_, _> = of_one
            .chain(of_two)
            .map(|key| (key, String::new()))
            .collect();
        let bytes: usize = metadata.keys().map(String::len).sum();
        let rest = "\u{1}".repeat(MAX_METADATA_BYTES - bytes - 1);
        metadata.insert("k".into(), rest);
        let view = LeaseView {
            namespace: "n".repeat(128),
            lease: "l".repeat(128),
            state: State::Breaking,
            holder: Some("\"".repeat(256)),
            epoch: Some(u64::MAX),
            duration_ms: None,
            remaining_ms: Some(u64::MAX),
            granted_at: Some("2026-11-21T03:05:09.701Z".into()),
            metadata: Some(metadata),
            waiters: u64::MAX,
            revision: u64::MAX,
            lease_id: None,
        };
        let bytes = serde_json::to_vec(&view).unwrap().len();
        assert!(bytes * MAX_RENEWALS < MAX_ANSWER_BYTES, "{bytes}");
    }
}
