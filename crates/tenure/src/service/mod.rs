//! Lease services: they grant the leases that candidates compete for.
//!
//! A lease service consists of an implementation of `LeaseBackend` in its own module, one line in
//! `open`, and one variant of [`Strategy`] with its settings.

mod admission;
#[cfg(feature = "azure")]
mod azure_blob;
mod error;
mod http_store;
#[cfg(feature = "kubernetes")]
mod kubernetes;
pub(crate) mod memory;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all, ready};
use tenure_core::ElectionName;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{LeaseId, Metadata};

pub use error::{BackendError, StartError};
pub use tenure_core::lease::election_record::AwaitedTerm;

use crate::base::clock::Clock;
use crate::config::{Config, Strategy};
use crate::http::client::HttpClients;
use crate::http::store::{CheckStore, LeaseView, Pong};

/// A lease service for one candidate, or for the observers of one election.
///
/// Each method sends a request once. The lease candidate decides whether to repeat a request,
/// because it counts its lease from the moment before the request was sent. The methods return an
/// [`Answer`] with its [`RequestOutcome`]. If there is no answer, or if it is unknown whether the
/// service has executed the request, the answer is [`Answer::Unknown`].
pub(crate) trait LeaseBackend: Any + fmt::Debug + Send + Sync {
    /// Sends one request, once.
    fn send(&self, request: Request, timeout: Duration) -> BoxFuture<'_, BackendReply>;

    /// Renews several leases of one namespace in one request, if the service can do so. The answers
    /// are in the order of the renewals. Called only if
    /// [`shares_requests_with`](Self::shares_requests_with) returns true for two candidates.
    fn renew_many(
        &self,
        renewals: Vec<Renewal>,
        timeout: Duration,
    ) -> BoxFuture<'_, Vec<BackendReply>> {
        let renew = move |(_, lease_id)| self.send(Request::Renew(lease_id), timeout);
        Box::pin(join_all(renewals.into_iter().map(renew)))
    }

    /// Returns whether one request may contain renewals of both candidates.
    fn shares_requests_with(&self, other: &dyn LeaseBackend) -> bool {
        let _ = other;
        false
    }

    /// Replaces the leader's metadata.
    fn proclaim(&self, lease_id: LeaseId, metadata: Metadata) -> BackendFuture<'_, ()>;

    /// Returns whether a holder can hand over its lease to a chosen candidate.
    fn can_hand_over(&self) -> bool {
        true
    }

    /// Returns whether other programs write the lease, so that a leader must look at it between
    /// renewals.
    fn has_other_writers(&self) -> bool {
        false
    }

    /// Returns the right that the service does not give to this credential, as text; `None` if none
    /// is missing, or if the service can't be asked.
    fn missing_right(&self) -> BackendFuture<'_, Option<String>> {
        Box::pin(ready(Ok(None)))
    }

    /// Returns the term that candidates wait for although the lease has no valid holder.
    fn awaited(&self) -> BackendFuture<'_, Option<AwaitedTerm>> {
        Box::pin(ready(Ok(None)))
    }

    /// Waits until the revision of the lease is greater than `after`, but no longer than `wait`,
    /// and returns the lease. A service without revisions answers at once with revision 0, and the
    /// observer asks again later.
    fn lease_after(&self, after: u64, wait: Duration) -> BackendFuture<'_, Option<LeaseView>>;

    /// Checks that the service answers.
    fn ping(&self) -> BackendFuture<'_, Pong>;

    /// Returns the service's address, without secrets.
    fn address(&self) -> String;

    /// Returns the name of such a service in messages.
    fn kind(&self) -> &'static str {
        "lease store"
    }
}

/// An answer of a lease service for the machine, and its outcome for the metrics.
#[derive(Clone, Debug)]
pub(crate) struct BackendReply {
    pub(crate) answer: Answer,
    pub(crate) outcome: RequestOutcome,
}

/// The outcome of a request for the metrics. The machine does not need it: it treats a temporary
/// refusal like a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// The service has executed the request.
    Ok,
    /// The service has answered, and has not executed the request.
    Refused,
    /// The service has refused the request because of the credential.
    Unauthorized,
    /// There was no answer of the service in time.
    NoAnswer,
}

/// Takes the outcome from the answer. A service that refuses for now, which is
/// [`Answer::Unknown`], must set the outcome itself.
impl From<Answer> for BackendReply {
    fn from(answer: Answer) -> Self {
        let outcome = match &answer {
            Answer::Held(_) | Answer::Released => RequestOutcome::Ok,
            Answer::HeldByAnother(_)
            | Answer::IdRetired
            | Answer::Broken { .. }
            | Answer::Expired
            | Answer::Superseded
            | Answer::Refused(_) => RequestOutcome::Refused,
            Answer::Denied(_) => RequestOutcome::Unauthorized,
            Answer::Unknown(_) => RequestOutcome::NoAnswer,
        };
        Self { answer, outcome }
    }
}

/// The reply of a lease service, or the reason why it did not reply.
type BackendFuture<'a, T> = BoxFuture<'a, Result<T, BackendError>>;

/// An election, and the lease id under which its lease is renewed.
type Renewal = (ElectionName, LeaseId);

/// A lease service that a candidate shares with its requests in flight.
pub(crate) type SharedBackend = Arc<dyn LeaseBackend>;

/// Creates the lease service of this configuration, which uses these HTTP clients. Returns `None`
/// if the strategy needs no lease service.
///
/// # Errors
///
/// [`StartError`] if the configuration is invalid for its service, or if the HTTP client can't be
/// set up.
pub(crate) fn open(
    config: &Config,
    clients: &HttpClients,
    clock: &Clock,
) -> Result<Option<SharedBackend>, StartError> {
    open_checked(config, clients, clock, None)
}

/// Creates the lease service like [`open`]. No answer of a store counts before this check.
pub(crate) fn open_checked(
    config: &Config,
    clients: &HttpClients,
    clock: &Clock,
    check: Option<Arc<dyn CheckStore>>,
) -> Result<Option<SharedBackend>, StartError> {
    Ok(Some(match &config.strategy {
        Strategy::Lease => http_store::open(config, clients, check)?,
        #[cfg(feature = "azure")]
        Strategy::AzureBlob(blob) => azure_blob::open(config, blob, clients)?,
        #[cfg(feature = "kubernetes")]
        Strategy::Kubernetes(lease) => kubernetes::open(config, lease, clients, clock)?,
        Strategy::Static => memory::MemoryStore::new(clock.clone()).backend(config),
        #[cfg(feature = "peers")]
        Strategy::Both(_) => http_store::open(config, clients, check)?,
        #[cfg(feature = "peers")]
        Strategy::Bully(_) => return Ok(None),
    }))
}

/// The lease service that a configuration names, for tools that show leases of any service.
#[derive(Clone, Debug)]
pub struct LeaseService {
    backend: SharedBackend,
}

impl LeaseService {
    /// Creates the lease service of this configuration. Returns `None` if the strategy uses no
    /// lease service that other processes can reach.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the configuration allows no election, or the HTTP client can't be set up.
    pub fn from_config(config: &Config) -> Result<Option<Self>, StartError> {
        if matches!(config.strategy, Strategy::Static) {
            return Ok(None);
        }
        let backend = open(config, &HttpClients::default(), &Clock::System)?;
        Ok(backend.map(|backend| Self { backend }))
    }

    /// Returns the service's address, without secrets.
    #[must_use]
    pub fn address(&self) -> String {
        self.backend.address()
    }

    /// Returns the name of such a service in messages, such as `API server`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.backend.kind()
    }

    /// Returns the right that a candidate needs and that the service does not give to this
    /// credential. Only an API server of Kubernetes can be asked.
    ///
    /// # Errors
    ///
    /// [`BackendError`] if the service does not tell.
    pub async fn missing_right(&self) -> Result<Option<String>, BackendError> {
        self.backend.missing_right().await
    }

    /// Returns the term that candidates wait for although the lease has no valid holder. Only in an
    /// object that other programs write too such a term exists.
    ///
    /// # Errors
    ///
    /// [`BackendError`].
    pub async fn awaited(&self) -> Result<Option<AwaitedTerm>, BackendError> {
        self.backend.awaited().await
    }

    /// Returns the lease of the configuration's election, or `None` if no candidate has ever
    /// acquired it.
    ///
    /// # Errors
    ///
    /// [`BackendError`].
    pub async fn lease(&self) -> Result<Option<LeaseView>, BackendError> {
        self.backend.lease_after(0, Duration::ZERO).await
    }

    /// Checks that the service answers, and measures the round trip.
    ///
    /// # Errors
    ///
    /// [`BackendError`].
    pub async fn ping(&self) -> Result<Pong, BackendError> {
        self.backend.ping().await
    }
}
