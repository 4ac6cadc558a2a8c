//! Lease services: they grant the leases that candidates compete for.
//!
//! A lease service is one implementation of `LeaseBackend` in a module of its own, one line in
//! `open`, and one variant of [`Strategy`] with its settings.
//! [`LeaseService`] shows a lease to tools, whatever the service is.

#[cfg(feature = "azure")]
mod azure_blob;
mod error;
mod http_store;
pub(crate) mod memory;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tenure_core::ElectionName;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{LeaseId, Metadata};

pub use error::BackendError;

use crate::candidate_runtime::StartError;
use crate::clock::Clock;
use crate::config::{Config, Strategy};
use crate::http::HttpClients;
use crate::store::{LeaseView, Pong};

/// A lease service for one candidate, or for the observers of one election.
///
/// Each method sends a request once: the lease candidate decides what to repeat, because it counts
/// its lease from the moment before a request was sent. Answers are those of
/// [`Answer`]: no answer, or one that may have been given before or after the request was executed,
/// is [`Answer::Unknown`].
pub(crate) trait LeaseBackend: Any + fmt::Debug + Send + Sync {
    /// Sends one request, once.
    fn send(&self, request: Request, timeout: Duration) -> BoxFuture<'_, Answer>;

    /// Renews several leases of one namespace by one request, where the service can. Answers come in
    /// the order of the renewals. Called only if [`shares_requests_with`](Self::shares_requests_with)
    /// returns true for two candidates.
    fn renew_many(&self, renewals: Vec<Renewal>, timeout: Duration) -> BoxFuture<'_, Vec<Answer>> {
        let renew = move |(_, lease_id)| self.send(Request::Renew(lease_id), timeout);
        Box::pin(join_all(renewals.into_iter().map(renew)))
    }

    /// Whether renewals of both candidates may go in one request.
    fn shares_requests_with(&self, other: &dyn LeaseBackend) -> bool {
        let _ = other;
        false
    }

    /// Replaces the leader's metadata.
    fn proclaim(&self, lease_id: LeaseId, metadata: Metadata) -> BackendFuture<'_, ()>;

    /// Whether a holder can hand its lease over to a chosen candidate.
    fn can_hand_over(&self) -> bool {
        true
    }

    /// The lease, when its revision is greater than `after`, or as it is after `wait`. A service
    /// without revisions answers at once with revision 0, and the observer asks again later.
    fn lease_after(&self, after: u64, wait: Duration) -> BackendFuture<'_, Option<LeaseView>>;

    /// Checks that the service answers.
    fn ping(&self) -> BackendFuture<'_, Pong>;

    /// The service's address, without secrets.
    fn address(&self) -> String;
}

/// The reply of a lease service, or the reason why there is none.
type BackendFuture<'a, T> = BoxFuture<'a, Result<T, BackendError>>;

/// An election with the lease id that its lease is renewed under.
type Renewal = (ElectionName, LeaseId);

/// A lease service that its candidate and requests under way share.
pub(crate) type SharedBackend = Arc<dyn LeaseBackend>;

/// The lease service of this configuration, with connections of these clients; `None` if its
/// strategy elects without one.
///
/// # Errors
///
/// [`StartError`] if the configuration is not one of this service, or there is no HTTP client.
pub(crate) fn open(
    config: &Config,
    clients: &HttpClients,
    clock: &Clock,
) -> Result<Option<SharedBackend>, StartError> {
    Ok(Some(match &config.strategy {
        Strategy::Lease => http_store::open(config, clients)?,
        #[cfg(feature = "azure")]
        Strategy::AzureBlob(blob) => azure_blob::open(config, blob, clients)?,
        Strategy::Static => memory::MemoryStore::new(clock.clone()).backend(config),
        #[cfg(feature = "peers")]
        Strategy::Both(_) => http_store::open(config, clients)?,
        #[cfg(feature = "peers")]
        Strategy::Bully(_) => return Ok(None),
    }))
}

/// The lease service that a configuration names, for tools that show a lease whatever grants it.
#[derive(Clone, Debug)]
pub struct LeaseService {
    backend: SharedBackend,
}

impl LeaseService {
    /// The lease service of this configuration; `None` if its strategy elects without one that other
    /// processes can reach.
    ///
    /// # Errors
    ///
    /// [`StartError`] if there can't be such an election, or the HTTP client can't be set up.
    pub fn from_config(config: &Config) -> Result<Option<Self>, StartError> {
        if matches!(config.strategy, Strategy::Static) {
            return Ok(None);
        }
        let backend = open(config, &HttpClients::default(), &Clock::System)?;
        Ok(backend.map(|backend| Self { backend }))
    }

    /// The service's address, without secrets.
    #[must_use]
    pub fn address(&self) -> String {
        self.backend.address()
    }

    /// The lease of the configuration's election, or `None` if no candidate has ever acquired it.
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
