//! A client of the store's HTTP API.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use reqwest::Method;
use reqwest::header::DATE;
use serde::Serialize;
use tenure_core::wire::{
    BreakRequest, ClusterView, HandOverRequest, History, LeaseList, LeaseView, ResignRequest,
    STORE_HEADER, SessionCode, WaiterList,
};
use tenure_core::{ElectionName, Name};

use super::Endpoint;
use super::error::StoreError;
use super::round::Pace;
use crate::base::http_error::HttpClientError;
use crate::http::builder::REQUEST_TIMEOUT;
use crate::http::client::{HttpClient, HttpClients};
use crate::http::credentials::Credentials;
use crate::http::root_certificates::RootCertificates;

/// A client of one lease store, at one or several addresses. Clones are cheap and share
/// connections.
#[derive(Clone, Debug)]
pub struct StoreClient {
    pub(super) http: HttpClient,
    pub(crate) endpoints: Arc<[Endpoint]>,
    roots: RootCertificates,
    pub(crate) credentials: Credentials,
    /// Checks each answer before it counts.
    pub(super) check: Option<Arc<dyn CheckStore>>,
    /// The endpoint whose answer was the last one to pass the check, or [`NONE`] if a request has
    /// failed since. After a failure another store may answer at the same address.
    pub(super) confirmed: Arc<AtomicUsize>,
    /// The endpoint that gets the next request first.
    pub(super) current: Arc<AtomicUsize>,
    /// The ownership duration that a server of a cluster has told last, in milliseconds; zero if none.
    pub(super) ownership_ms: Arc<AtomicU64>,
}

/// No endpoint.
pub(super) const NONE: usize = usize::MAX;

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
    /// The time that one address may take.
    pub(crate) timeout: Duration,
    /// The part of that time for which the store may let the request wait.
    pub(crate) wait: Duration,
    /// Whether the store promises something by its answer. Only a store that has passed the check
    /// gets such a request.
    pub(crate) is_promise: bool,
}

impl Call {
    pub(crate) const fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            body: None,
            timeout: REQUEST_TIMEOUT,
            wait: Duration::ZERO,
            is_promise: false,
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
            confirmed: Arc::new(NONE.into()),
            current: Arc::default(),
            ownership_ms: Arc::default(),
        })
    }

    /// Lets no answer count before this check.
    pub(crate) fn with_check(self, check: Option<Arc<dyn CheckStore>>) -> Self {
        Self { check, ..self }
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
            wait,
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

    /// Hands a lease over to another candidate, which must wait for it unless the request forces
    /// that.
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

    /// Returns the candidates that wait for a lease, in the order in which it is granted; `None` if
    /// it was never acquired.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn waiters(&self, election: &ElectionName) -> Result<Option<WaiterList>, StoreError> {
        known(self.ask_any(&Call::get(path(election, "/waiters"))).await)
    }

    /// Returns the terms of a lease, newest first, or `None` if it was never acquired.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn history(&self, election: &ElectionName) -> Result<Option<History>, StoreError> {
        let mut before = String::new();
        let mut terms = Vec::new();
        loop {
            let call = Call::get(path(election, &format!("/history{before}")));
            let Some(mut page) = known::<History>(self.ask_any(&call).await)? else {
                return Ok(None);
            };
            terms.append(&mut page.terms);
            let Some(next) = page.next else {
                page.terms = terms;
                return Ok(Some(page));
            };
            before = format!("?before={next}");
        }
    }

    /// Checks that the current address answers, and measures the round trip.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn ping(&self) -> Result<Pong, StoreError> {
        let index = self.current.load(Ordering::Relaxed);
        self.ping_at(index, REQUEST_TIMEOUT).await
    }

    /// Checks that this address answers, within this time.
    pub(super) async fn ping_at(
        &self,
        index: usize,
        timeout: Duration,
    ) -> Result<Pong, StoreError> {
        let sent = std::time::Instant::now();
        let call = Call::get("livez".into());
        let (_, headers, _) = self.send(index, &call, timeout).await?;
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
        let index = self.current.load(Ordering::Relaxed);
        let call = Call::get("readyz".into());
        self.send(index, &call, call.timeout).await.map(|_| ())
    }

    /// Asks the server at each address which part it has in its cluster, all at the same time.
    pub async fn cluster(&self) -> Vec<(Endpoint, Result<ClusterView, StoreError>)> {
        let call = &Call::get("v1/cluster".into());
        let each = self.endpoints.iter().enumerate();
        let each = each.map(|(index, endpoint)| async move {
            (endpoint.clone(), self.ask(index, call, call.timeout).await)
        });
        join_all(each).await
    }

    /// Asks the server at an address that is not one of this client's own, because another server has
    /// named it as the active one. The requests have no credential. Returns `None` if that server is
    /// active and tells no more without one.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: it is not active, or does not answer.
    pub async fn active_at(&self, endpoint: &Endpoint) -> Result<Option<ClusterView>, StoreError> {
        let client = Self::with_root_certificates(std::slice::from_ref(endpoint), &self.roots);
        let client = client.map_err(|error| StoreError::Unreachable {
            endpoint: endpoint.clone(),
            reason: error.to_string(),
        })?;
        client
            .send(0, &Call::get("active".into()), REQUEST_TIMEOUT)
            .await?;
        let mut views = client.cluster().await;
        Ok(views.pop().and_then(|(_, view)| view.ok()))
    }

    /// Returns the ownership duration of the cluster's servers, if the store is a cluster and has
    /// answered.
    pub(crate) fn ownership(&self) -> Option<Duration> {
        let millis = self.ownership_ms.load(Ordering::Relaxed);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Lets the active server of a cluster give its part to another server.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn hand_over_cluster(&self, request: &ResignRequest) -> Result<(), StoreError> {
        let call = &Call::post("v1/cluster/hand-over".into(), request);
        let send = |index, timeout| self.send(index, call, timeout);
        self.round(Pace::of_each(call.timeout, self.endpoints.len()), send)
            .await
            .map(|_| ())
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
