//! A client of the store's HTTP API.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::wire::{
    BreakRequest, HandOverRequest, History, LeaseList, LeaseView, Problem, STORE_HEADER,
    SessionCode,
};
use tenure_core::{ElectionName, Name};

use super::Endpoint;
use crate::credentials::Credentials;
use crate::http::{HttpClientError, HttpClients, REQUEST_TIMEOUT, innermost_cause, read_body};
use crate::http_client::{HttpClient, VersionedClient};
use crate::root_certificates::RootCertificates;
use crate::trace;

/// The size of the largest answer that is read. The answer to a thousand renewals contains as many
/// leases, each with metadata of 4 KiB. A byte of metadata can become twelve bytes of JSON. Such an
/// answer is within this limit.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A client of one lease store, at one or several addresses. Clones are cheap and share
/// connections.
#[derive(Clone, Debug)]
pub struct StoreClient {
    http: HttpClient,
    pub(crate) endpoints: Arc<[Endpoint]>,
    roots: RootCertificates,
    pub(crate) credentials: Credentials,
    /// Checks each answer before it counts.
    check: Option<Arc<dyn CheckStore>>,
    /// Whether the last answer passed the check, and no request has failed since. After a failure
    /// another store may answer at the same address.
    is_confirmed: Arc<AtomicBool>,
    /// The endpoint of the next request. The client uses the next endpoint if one can't be reached.
    current: Arc<AtomicUsize>,
}

/// Checks the store that has answered.
pub(crate) trait CheckStore: Debug + Send + Sync {
    /// Returns whether the store is already known, so that a check only compares.
    fn is_known(&self) -> bool;

    /// Checks the id of the store that has answered; `None` if the answer has no id. The error says
    /// what would be right.
    fn check<'a>(&'a self, id: Option<&'a str>) -> BoxFuture<'a, Result<(), String>>;
}

/// A request without the address.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// The body, as JSON.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
}

impl Call {
    pub(crate) const fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            body: None,
            timeout: REQUEST_TIMEOUT,
        }
    }

    pub(crate) fn post(path: String, body: &impl Serialize) -> Self {
        Self {
            method: Method::POST,
            // Text and numbers always result in JSON.
            body: serde_json::to_vec(body).ok(),
            ..Self::get(path)
        }
    }
}

/// The answer to [`StoreClient::ping`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pong {
    /// The duration of the request.
    pub round_trip: Duration,
    /// The time of the server's wall clock (an HTTP date, whole seconds), if the answer has one.
    pub date: Option<String>,
    /// The id of the store, if the answer has one.
    pub store: Option<String>,
}

/// The reason why a request to the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store did not answer. The store may have executed the request.
    #[error("can't reach the store at {endpoint}: {reason}")]
    Unreachable {
        /// The address.
        endpoint: Endpoint,
        /// The innermost cause.
        reason: String,
    },
    /// The store refused the request.
    #[error("{} ({})", .0.detail, .0.code.as_str())]
    Problem(Problem),
    /// The group of the candidate uses another store. The answer does not count.
    #[error("the store at {endpoint} is not used: {reason}")]
    AnotherStore {
        /// The address.
        endpoint: Endpoint,
        /// The text names both stores, and the remedy.
        reason: String,
    },
    /// The server at this address is not a lease store.
    #[error("{endpoint} answered {status}, which is not an answer of a lease store")]
    NotAStore {
        /// The address.
        endpoint: Endpoint,
        /// The HTTP status of the answer.
        status: u16,
    },
}

impl StoreError {
    /// Returns whether another address of the same store may help.
    const fn is_of_the_endpoint(&self) -> bool {
        match self {
            Self::Problem(problem) => problem.code.is_transient(),
            Self::Unreachable { .. } | Self::AnotherStore { .. } | Self::NotAStore { .. } => true,
        }
    }
}

impl StoreClient {
    /// Creates a client of the store at these addresses, of which there must be at least one. It
    /// uses the root certificates of the operating system.
    ///
    /// # Errors
    ///
    /// [`HttpClientError`].
    pub fn new(endpoints: &[Endpoint]) -> Result<Self, HttpClientError> {
        Self::with_root_certificates(endpoints, &RootCertificates::system())
    }

    /// Creates a client like [`new`](Self::new) that uses these root certificates for https
    /// addresses.
    ///
    /// # Errors
    ///
    /// [`HttpClientError`].
    pub fn with_root_certificates(
        endpoints: &[Endpoint],
        roots: &RootCertificates,
    ) -> Result<Self, HttpClientError> {
        Self::with_all(endpoints, roots, Credentials::none())
    }

    /// Sets the credential.
    ///
    /// # Errors
    ///
    /// [`HttpClientError`]: one of the addresses must not get the credential, or the files of a
    /// client certificate are wrong.
    pub fn with_credentials(self, credentials: Credentials) -> Result<Self, HttpClientError> {
        if credentials.certificate() != self.credentials.certificate() {
            return Self::with_all(&self.endpoints, &self.roots, credentials);
        }
        let (endpoints, roots) = (&self.endpoints, &self.roots);
        Self::with_http(self.http, endpoints, roots, credentials)
    }

    fn with_all(
        endpoints: &[Endpoint],
        roots: &RootCertificates,
        credentials: Credentials,
    ) -> Result<Self, HttpClientError> {
        let urls = endpoints.iter().map(Endpoint::url);
        let http = HttpClients::default().get(roots, credentials.certificate(), urls)?;
        Self::with_http(http, endpoints, roots, credentials)
    }

    /// Creates a client of the store over this HTTP client, which has the certificate of the
    /// credential.
    pub(crate) fn with_http(
        http: HttpClient,
        endpoints: &[Endpoint],
        roots: &RootCertificates,
        credentials: Credentials,
    ) -> Result<Self, HttpClientError> {
        endpoints
            .iter()
            .try_for_each(|endpoint| credentials.check(endpoint))
            .map_err(HttpClientError)?;
        Ok(Self {
            http,
            endpoints: endpoints.into(),
            roots: roots.clone(),
            credentials,
            check: None,
            is_confirmed: Arc::default(),
            current: Arc::default(),
        })
    }

    /// Lets no answer count before this check.
    pub(crate) fn with_check(self, check: Option<Arc<dyn CheckStore>>) -> Self {
        Self { check, ..self }
    }

    /// Makes sure that the store is the known one, after each failure again. This is for a request by
    /// which a store promises something: another store must not get it.
    pub(crate) async fn confirm(&self) -> Result<(), StoreError> {
        match &self.check {
            Some(check) if !check.is_known() || !self.is_confirmed.load(Ordering::Relaxed) => {
                self.ping().await.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether both clients have the same addresses and root certificates.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.endpoints == other.endpoints
            && self.roots == other.roots
            && self.credentials == other.credentials
            && match (&self.check, &other.check) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            }
    }

    /// Returns a lease, or `None` if it was never acquired.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn lease(&self, election: &ElectionName) -> Result<Option<LeaseView>, StoreError> {
        known(self.ask_any(&Call::get(path(election, ""))).await)
    }

    /// Waits until the revision of a lease is greater than `after`, but no longer than `wait`, and
    /// returns the lease.
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
        let query = format!("?after={after}&wait_ms={}", wait.as_millis());
        let call = Call {
            timeout: wait + REQUEST_TIMEOUT,
            ..Call::get(path(election, &query))
        };
        known(self.ask_any(&call).await)
    }

    /// Returns one page of the leases of a namespace, with names that begin with `prefix` and sort
    /// after `after`.
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
        self.ask_any(&Call::get(path)).await
    }

    /// Breaks a lease. The holder receives the break with its next renewal. If the break period is
    /// shorter than the lease's duration, the holder may still act when the lease is granted to
    /// another candidate.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn break_lease(
        &self,
        election: &ElectionName,
        request: &BreakRequest,
    ) -> Result<LeaseView, StoreError> {
        let call = Call::post(path(election, "/break"), request);
        self.ask_any(&call).await
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
        let call = Call::post(path(election, "/handover"), request);
        self.ask_any(&call).await
    }

    /// Returns the terms of a lease, newest first, or `None` if it was never acquired.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn history(&self, election: &ElectionName) -> Result<Option<History>, StoreError> {
        known(self.ask_any(&Call::get(path(election, "/history"))).await)
    }

    /// Checks that the current address answers, and measures the round trip.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn ping(&self) -> Result<Pong, StoreError> {
        let sent = std::time::Instant::now();
        let headers = self.get_text("livez").await?;
        let text = |name| Some(headers.get(name)?.to_str().ok()?.to_owned());
        Ok(Pong {
            round_trip: sent.elapsed(),
            date: text(DATE.as_str()),
            store: text(STORE_HEADER),
        })
    }

    /// Checks that the store at the current address is ready for requests.
    ///
    /// # Errors
    ///
    /// [`StoreError::Problem`] with the store's reason if it is not.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.get_text("readyz").await.map(|_| ())
    }

    /// Returns the store's limits by the names of their settings. Times are in milliseconds.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn limits(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        self.ask_any(&Call::get("v1/limits".into())).await
    }

    /// Returns the caller as the store identifies it, in JSON: its principal and its grants.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn whoami(&self) -> Result<serde_json::Value, StoreError> {
        self.ask_any(&Call::get("v1/whoami".into())).await
    }

    /// Asks for a one-time code with which a browser can sign in as this client, within 60 seconds.
    /// Only the store at [`endpoint`](Self::endpoint) accepts the code.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn session_code(&self) -> Result<SessionCode, StoreError> {
        let path = "v1/session/code".to_owned();
        let call = Call {
            method: Method::POST,
            ..Call::get(path)
        };
        self.ask_any(&call).await
    }

    /// Returns the address of the next request: the one that has answered last.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoints[self.current.load(Ordering::Relaxed)]
    }

    /// Returns the principals in the store's access file, in JSON, with the last use of each token.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn principals(&self) -> Result<serde_json::Value, StoreError> {
        self.ask_any(&Call::get("v1/access".into())).await
    }

    /// Sends a GET request whose answer is not JSON to the current endpoint. Returns the headers.
    async fn get_text(&self, path: &str) -> Result<HeaderMap, StoreError> {
        let index = self.current.load(Ordering::Relaxed);
        let (_, headers, _) = self.send(index, &Call::get(path.into())).await?;
        Ok(headers)
    }

    async fn ask_any<T: DeserializeOwned>(&self, call: &Call) -> Result<T, StoreError> {
        self.try_all(|index| self.ask(index, call)).await
    }

    /// Sends a request to the current endpoint once. If the endpoint does not answer, or can't
    /// execute requests now, the next request goes to the next endpoint.
    pub(crate) async fn ask_once<T: DeserializeOwned>(&self, call: &Call) -> Result<T, StoreError> {
        self.try_current(|index| self.ask(index, call)).await
    }

    /// Sends a request to one endpoint after the other until one of them can execute it.
    async fn try_all<T, F>(&self, ask: impl Fn(usize) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        for _ in 1..self.endpoints.len() {
            match self.try_current(&ask).await {
                Err(error) if error.is_of_the_endpoint() => {}
                answer => return answer,
            }
        }
        self.try_current(ask).await
    }

    async fn try_current<T, F>(&self, ask: impl FnOnce(usize) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let index = self.current.load(Ordering::Relaxed);
        let answer = ask(index).await;
        if answer.as_ref().is_err_and(StoreError::is_of_the_endpoint) {
            self.is_confirmed.store(false, Ordering::Relaxed);
            // If several requests fail at the same endpoint, only one of them selects the next
            // endpoint.
            let next = (index + 1) % self.endpoints.len();
            let order = Ordering::Relaxed;
            let _ = self.current.compare_exchange(index, next, order, order);
        }
        answer
    }

    /// Opens a stream of events at the first endpoint that provides it.
    pub(super) async fn open(
        &self,
        path: &str,
        last_id: Option<u64>,
    ) -> Result<(Response, Endpoint), StoreError> {
        self.try_all(|index| self.open_at(index, path, last_id))
            .await
    }

    async fn open_at(
        &self,
        index: usize,
        path: &str,
        last_id: Option<u64>,
    ) -> Result<(Response, Endpoint), StoreError> {
        const EVENT_STREAM: &str = "text/event-stream";
        let request = |client: &Client| {
            let request = client.get(self.url(index, path));
            let request = request.header(ACCEPT, EVENT_STREAM);
            match last_id {
                Some(last_id) => request.header("last-event-id", last_id),
                None => request,
            }
        };
        let open = async {
            let unreachable = |error| self.unreachable(index, innermost_cause(&error));
            let response = self.authorized(request).await.map_err(unreachable)?;
            let status = response.status();
            let content_type = response.headers().get(CONTENT_TYPE);
            let media_type = content_type.map_or(&b""[..], |value| value.as_bytes());
            if status.is_success() && media_type.starts_with(EVENT_STREAM.as_bytes()) {
                return Ok((response, self.endpoints[index].clone()));
            }
            let body = read_body(response, MAX_ANSWER_BYTES).await;
            Err(self.refusal(index, status, body.map_err(unreachable)?))
        };
        tokio::time::timeout(REQUEST_TIMEOUT, open)
            .await
            .unwrap_or_else(|_| Err(self.unreachable(index, "no answer in time".into())))
    }

    async fn ask<T: DeserializeOwned>(&self, index: usize, call: &Call) -> Result<T, StoreError> {
        let (status, _, bytes) = self.send(index, call).await?;
        serde_json::from_slice(&bytes).map_err(|_| self.not_a_store(index, status))
    }

    /// Sends a request. Returns the status, the headers and the body of a success.
    async fn send(
        &self,
        index: usize,
        call: &Call,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), StoreError> {
        let unreachable = |error| self.unreachable(index, innermost_cause(&error));
        let traceparent = trace::current_traceparent();
        let request = |client: &Client| {
            let request = client.request(call.method.clone(), self.url(index, &call.path));
            // A lease may be named `events`. This header requests the lease and not the events of
            // its namespace.
            let request = request.header(ACCEPT, "application/json");
            let request = request.timeout(call.timeout);
            let request = match &traceparent {
                Some(traceparent) => request.header("traceparent", traceparent),
                None => request,
            };
            match &call.body {
                Some(body) => request
                    .header(CONTENT_TYPE, "application/json")
                    .body(body.clone()),
                None => request,
            }
        };
        let mut response = self.authorized(request).await.map_err(unreachable)?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        if let Some(check) = &self.check {
            let id = headers.get(STORE_HEADER).and_then(|id| id.to_str().ok());
            let checked = check.check(id).await;
            self.is_confirmed.store(checked.is_ok(), Ordering::Relaxed);
            checked.map_err(|reason| StoreError::AnotherStore {
                endpoint: self.endpoints[index].clone(),
                reason,
            })?;
        }
        let body = read_body(response, MAX_ANSWER_BYTES).await;
        match body.map_err(unreachable)? {
            Some(body) if status.is_success() => Ok((status, headers, body)),
            body => Err(self.refusal(index, status, body)),
        }
    }

    /// Sends the request with the credential. If the store refuses the credential, and the files
    /// now contain another one, the request is sent again with that one. After a number of refusals
    /// of one address the store answers 429 instead of 401. An answer of 429 is handled in the same
    /// manner, because many leaders may share that address, and all of their credentials may be
    /// replaced at once.
    async fn authorized(
        &self,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<Response, reqwest::Error> {
        let send = |http: &VersionedClient, header: Option<&HeaderValue>| {
            let request = request(&http.client);
            match header {
                Some(header) => request.header(AUTHORIZATION, header).send(),
                None => request.send(),
            }
        };
        let (http, header) = (self.http.current(), self.credentials.header());
        let response = send(&http, header.as_ref()).await?;
        let refusals = [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS];
        if !refusals.contains(&response.status()) {
            return Ok(response);
        }
        let next_http = self.http.after(&http).await;
        let next_header = match &header {
            Some(header) => self.credentials.header_after(header).await,
            None => None,
        };
        if next_http.is_none() && next_header.is_none() {
            return Ok(response);
        }
        let http = next_http.unwrap_or(http);
        send(&http, next_header.or(header).as_ref()).await
    }

    fn url(&self, index: usize, path: &str) -> String {
        let endpoint = self.endpoints[index].url().as_str();
        format!("{}/{path}", endpoint.trim_end_matches('/'))
    }

    fn unreachable(&self, index: usize, reason: String) -> StoreError {
        StoreError::Unreachable {
            endpoint: self.endpoints[index].clone(),
            reason,
        }
    }

    /// Returns the error for an answer that is not a success, or whose body is of another kind or
    /// too large.
    fn refusal(&self, index: usize, status: StatusCode, body: Option<Vec<u8>>) -> StoreError {
        let body = body.filter(|_| !status.is_success());
        let problem = body.and_then(|body| serde_json::from_slice(&body).ok());
        problem.map_or_else(|| self.not_a_store(index, status), StoreError::Problem)
    }

    fn not_a_store(&self, index: usize, status: StatusCode) -> StoreError {
        StoreError::NotAStore {
            endpoint: self.endpoints[index].clone(),
            status: status.as_u16(),
        }
    }
}

/// Returns the path of an election's lease with `rest` appended.
pub(crate) fn path(election: &ElectionName, rest: &str) -> String {
    format!(
        "v1/namespaces/{}/leases/{}{rest}",
        election.namespace, election.name
    )
}

/// Converts the answer "unknown lease" to `None`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::UnixMillis;
    use tenure_core::lease::{State, WithoutStore};
    use tenure_core::wire::{MAX_METADATA_BYTES, MAX_RENEWALS, WithoutStoreView};

    /// Builds the largest possible answer: as many renewals as fit into a request, for leases that
    /// have all optional values, in characters that need the most bytes in JSON.
    #[test]
    fn the_largest_answer_to_many_renewals_is_within_the_limit() {
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
        let mut view = LeaseView::new("n".repeat(128), "l".repeat(128), State::Breaking);
        view.holder = Some("\"".repeat(256));
        view.owner = Some("\"".repeat(128));
        view.epoch = Some(u64::MAX);
        view.remaining_ms = Some(u64::MAX);
        view.granted_at = Some("2026-11-21T03:05:09.701Z".into());
        let most = WithoutStore {
            periods: u32::MAX,
            from: UnixMillis::new(u64::MAX),
            to: UnixMillis::new(u64::MAX),
            total: Duration::MAX,
        };
        let time = |_| Some("2026-11-21T03:05:09.701Z".into());
        view.without_store = Some(WithoutStoreView::of(&most, time).into());
        view.metadata = Some(metadata);
        view.waiters = u64::MAX;
        view.revision = u64::MAX;
        let bytes = serde_json::to_vec(&view).unwrap().len();
        assert!(bytes * MAX_RENEWALS < MAX_ANSWER_BYTES, "{bytes}");
    }
}
