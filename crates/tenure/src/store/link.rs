//! How a candidate reaches its store.

use std::time::Duration;

use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{LeaseId, Metadata};
use tenure_core::{ElectionName, Name};

use super::{AzureBlobClient, LeaseView, StoreClient, StoreError, Transport};
use crate::azure::BlobTransport;
use crate::testing::TestLink;

/// How a candidate reaches its store.
#[derive(Debug)]
pub(crate) enum Link {
    /// Over HTTP.
    Http(Box<Transport>),
    /// To the lease of a blob.
    Azure(Box<BlobTransport>),
    /// In memory, for tests.
    Testing(TestLink),
}

impl Link {
    /// Sends one request, one attempt of it.
    pub(crate) async fn send(&self, request: Request, timeout: Duration) -> Answer {
        match self {
            Self::Http(transport) => transport.send(request, timeout).await,
            Self::Azure(transport) => transport.send(request, timeout).await,
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
            // Each blob is a store of its own, so there is one.
            Self::Azure(transport) => {
                let mut answers = Vec::new();
                for (_, lease_id) in renewals {
                    answers.push(transport.send(Request::Renew(lease_id), timeout).await);
                }
                answers
            }
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
            Self::Azure(transport) => transport.proclaim(lease_id, metadata).await,
            Self::Testing(link) => link.proclaim(lease_id, metadata),
        }
    }

    /// Whether the lease can be given up to a candidate of choice.
    pub(crate) const fn can_hand_over(&self) -> bool {
        !matches!(self, Self::Azure(_))
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
    Azure(AzureBlobClient),
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
            // It has no revision and nobody can wait there: the observer asks from time to time.
            Self::Azure(blob) => blob.lease(election).await,
            Self::Testing(link) => link.lease_after(election, after, wait).await,
        }
    }
}
