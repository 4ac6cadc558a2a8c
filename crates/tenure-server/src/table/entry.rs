//! One lease in the table, and the requests that wait for it.

use tenure_core::Instant;
use tenure_core::lease::{Lease, Priority, Record, Waiting};
use tokio::sync::watch;

use super::Recent;
use crate::model::LeaseVersion;

/// One lease. `W` is the channel to which the outcome of a waiting acquire is sent.
#[derive(Debug)]
pub(crate) struct Entry<W> {
    /// The record of the lease, and the acquires that wait for it.
    pub(crate) lease: Lease<W>,
    /// The revision of the last change; zero if there was none.
    pub(crate) revision: u64,
    /// The number of its terms since the start of the store.
    pub(crate) terms: u64,
    /// The time of the lease in the timer; it may be over.
    pub(crate) armed: Instant,
    /// The sender that notifies long polls of the revision. Most leases have no waiters or
    /// watchers, and take no memory for it.
    pub(crate) interest: Option<Box<watch::Sender<u64>>>,
    /// The numbers of its terms for overviews.
    pub(crate) recent: Recent,
}

impl<W> Entry<W> {
    pub(crate) fn new(record: Record, revision: u64) -> Self {
        Self {
            lease: record.into(),
            revision,
            terms: 0,
            armed: Instant::default(),
            interest: None,
            recent: Recent::default(),
        }
    }

    /// Returns the current version of the lease, for an undo.
    pub(crate) fn version(&self) -> LeaseVersion {
        LeaseVersion {
            record: self.lease.record().clone(),
            revision: self.revision,
            terms: self.terms,
        }
    }

    /// Restores an earlier version of the lease, after its later changes were undone.
    pub(crate) fn restore(&mut self, version: LeaseVersion) {
        self.lease.restore(version.record);
        self.revision = version.revision;
        self.terms = version.terms;
    }

    /// Returns whether the lease was acquired at least once since it was created or deleted.
    pub(crate) const fn is_known(&self) -> bool {
        self.lease.record().last_grant().is_some()
    }

    /// Returns whether the entry may be removed from the table. That is so if its lease does not
    /// exist, durably, and no request waits. A deleted lease stays until its deletion is durable,
    /// because the answer that it does not exist depends on the deletion.
    pub(crate) const fn is_vacant(&self, durable: u64) -> bool {
        !self.is_known() && self.revision <= durable && self.interest.is_none()
    }

    /// Adds an acquire to the waiting queue. Returns the request that it replaces.
    pub(crate) fn wait(&mut self, priority: Priority, waiting: Waiting<W>) -> Option<Waiting<W>> {
        // Its presence shows that a request waits.
        self.interest();
        self.lease.wait(priority, waiting)
    }

    pub(crate) fn interest(&mut self) -> &watch::Sender<u64> {
        let revision = self.revision;
        self.interest
            .get_or_insert_with(|| watch::Sender::new(revision).into())
    }

    /// Returns the number of acquires that wait.
    pub(crate) fn waiters(&self) -> u64 {
        self.lease.waiting() as u64
    }

    /// Frees the sender once no request waits.
    pub(crate) fn drop_idle_interest(&mut self) {
        let has_waiters = self.lease.waiting() > 0;
        let is_idle =
            |interest: &mut Box<watch::Sender<u64>>| !has_waiters && interest.receiver_count() == 0;
        drop(self.interest.take_if(is_idle));
    }
}
