//! How a candidate reaches its store.

use std::time::Duration;

use tenure_core::lease::keeper::{Answer, Request};
use tenure_core::lease::{LeaseId, Metadata};
use tenure_core::{ElectionName, Name};

use super::{LeaseView, StoreClient, StoreError, Transport};
use crate::testing::TestLink;

/// How a candidate reaches its store.
#[derive(Debug)]
pub(crate) enum Link {
    /// Over HTTP.
    Http(Box<Transport>),
    /// In memory, for tests.
    Testing(TestLink),
}

impl Link {
    /// Sends one request, one attempt of it.
    pub(crate) async fn send(&self, request: Request, timeout: Duration) -> Answer {
        match self {
            Self::Http(transport) => transport.send(request, timeout).await,
            Self::Testing(link) => link.send(request, timeout).await,
        }
    }

    /// Renews several leases of one namespace. Answers come in the order of the renewals.
    pub(crate) async fn renew_many(
        &self,
        namespace: &Name,
        renewals: Vec<(Name, LeaseId)>,
        timeout: Duration,
    ) -> Vec<Answer> {
        match self {
            Self::Http(transport) => transport.renew_many(namespace, &renewals, timeout).await,
            Self::Testing(link) => link.renew_many(namespace, &renewals, timeout).await,
        }
    }

    /// Replaces what the leader says about itself.
    pub(crate) async fn proclaim(
        &self,
        lease_id: LeaseId,
        metadata: Metadata,
    ) -> Result<(), StoreError> {
        match self {
            Self::Http(transport) => transport.proclaim(lease_id, metadata).await,
            Self::Testing(link) => link.proclaim(lease_id, metadata),
        }
    }

    /// Whether requests of both may go together.
    pub(crate) fn is_same_store(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Http(this), Self::Http(other)) => this.store().is_same(other.store()),
            (Self::Testing(this), Self::Testing(other)) => this.is_same_store(other),
            _ => false,
        }
    }
}

/// How an observer reaches the store.
#[derive(Clone, Debug)]
pub(crate) enum Watcher {
    Http(StoreClient),
    Testing(TestLink),
}

impl Watcher {
    /// One lease, when its revision is greater than `after`, or after `wait` as it is then.
    pub(crate) async fn lease_after(
        &self,
        election: &ElectionName,
        after: u64,
        wait: Duration,
    ) -> Result<Option<LeaseView>, StoreError> {
        match self {
            Self::Http(store) => store.lease_after(election, after, wait).await,
            Self::Testing(link) => link.lease_after(election, after, wait).await,
        }
    }
}
