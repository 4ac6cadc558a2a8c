//! One lease in the table, and the requests that wait for it.

use tenure_core::lease::{Lease, Priority, Record, Waiting};
use tokio::sync::watch;

use super::Past;
use crate::model::LeaseVersion;

/// One lease. `W` is where the outcome of a waiting acquire is sent.
#[derive(Debug)]
pub(crate) struct Entry<W> {
    /// Its record, and the acquires that wait for it.
    pub(crate) lease: Lease<W>,
    /// The revision of the last change; zero if there was none.
    pub(crate) revision: u64,
    /// Tells long polls the revision. A lease without waiters and watchers, as most are, has no room for it.
    pub(crate) interest: Option<Box<watch::Sender<u64>>>,
    /// Its terms, if the store is in memory.
    pub(crate) past: Option<Box<Past>>,
}

impl<W> Entry<W> {
    pub(crate) fn new(record: Record, revision: u64) -> Self {
        Self {
            lease: record.into(),
            revision,
            interest: None,
            past: None,
        }
    }

    /// The lease as it is now, for an undo.
    pub(crate) fn version(&self) -> LeaseVersion {
        LeaseVersion {
            record: self.lease.record().clone(),
            revision: self.revision,
        }
    }

    /// Whether the lease was acquired at least once since it was made or deleted.
    pub(crate) const fn is_known(&self) -> bool {
        self.lease.record().last_grant().is_some()
    }

    /// Whether it may be removed from the table: nothing is known of it, durably so, and no request waits. A
    /// deleted lease stays until its deletion is durable, because the answer that it does not exist rests on
    /// the deletion.
    pub(crate) const fn is_vacant(&self, durable: u64) -> bool {
        !self.is_known() && self.revision <= durable && self.interest.is_none()
    }

    /// Lets an acquire wait. Returns the one that it replaces.
    pub(crate) fn wait(&mut self, priority: Priority, waiting: Waiting<W>) -> Option<Waiting<W>> {
        // The timer needs the room.
        self.interest();
        self.lease.wait(priority, waiting)
    }

    pub(crate) fn interest(&mut self) -> &watch::Sender<u64> {
        let revision = self.revision;
        self.interest
            .get_or_insert_with(|| watch::Sender::new(revision).into())
    }

    /// How many acquires wait.
    pub(crate) fn waiters(&self) -> u64 {
        self.lease.waiting() as u64
    }

    /// Gives the room of the interest back once no request waits.
    pub(crate) fn drop_idle_interest(&mut self) {
        let has_waiters = self.lease.waiting() > 0;
        let is_idle =
            |interest: &mut Box<watch::Sender<u64>>| !has_waiters && interest.receiver_count() == 0;
        drop(self.interest.take_if(is_idle));
    }
}
