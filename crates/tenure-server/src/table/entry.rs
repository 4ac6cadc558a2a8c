//! One lease in the table, and those who wait for something to happen to it.

use tenure_core::Instant;
use tenure_core::lease::{Lease, Priority, Record, Waiting};
use tenure_core::wire::{LeaseView, Problem};
use tokio::sync::{oneshot, watch};

use super::Past;
use crate::journal::Ticket;

/// One lease.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its record, and the acquires that wait for it.
    pub(crate) lease: Lease<oneshot::Sender<Reply>>,
    /// The journal's number of the last change; zero if there was none.
    pub(crate) revision: u64,
    /// Most leases have no request waiting: a pointer's room for those that do.
    pub(crate) interest: Option<Box<Interest>>,
    /// Its terms, if no engine keeps them.
    pub(crate) past: Option<Box<Past>>,
}

/// What a lease has more if requests wait for it.
#[derive(Debug)]
pub(crate) struct Interest {
    /// Long polls; the value is the revision.
    pub(crate) changed: watch::Sender<u64>,
    /// The earliest time at which the timer will look.
    pub(crate) armed: Option<Instant>,
}

/// What a waiting request is told.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The lease is granted; tell it when the ticket is good.
    Granted(Box<LeaseView>, Option<Ticket>),
    /// A later request with the same lease id took the place.
    Replaced(Box<Problem>, Option<Ticket>),
}

impl Entry {
    pub(crate) fn new(record: Record, revision: u64) -> Self {
        Self {
            lease: record.into(),
            revision,
            interest: None,
            past: None,
        }
    }

    /// Whether the lease was acquired at least once since it was made or deleted.
    pub(crate) const fn is_known(&self) -> bool {
        self.lease.record().last_grant().is_some()
    }

    /// Whether it may be taken out of the table: nothing is known of it, durably so, and nobody
    /// waits. A deleted lease stays until its deletion is durable, because to answer that there is
    /// no such lease is to tell of the deletion.
    pub(crate) const fn is_vacant(&self, durable: u64) -> bool {
        !self.is_known() && self.revision <= durable && self.interest.is_none()
    }

    /// Lets an acquire wait. Returns the one that it replaces.
    pub(crate) fn wait(
        &mut self,
        priority: Priority,
        waiting: Waiting<oneshot::Sender<Reply>>,
    ) -> Option<Waiting<oneshot::Sender<Reply>>> {
        // The timer needs the room.
        self.interest();
        self.lease.wait(priority, waiting)
    }

    pub(crate) fn interest(&mut self) -> &mut Interest {
        let revision = self.revision;
        self.interest.get_or_insert_with(|| {
            Box::new(Interest {
                changed: watch::Sender::new(revision),
                armed: None,
            })
        })
    }

    /// How many acquires wait.
    pub(crate) fn waiters(&self) -> u64 {
        self.lease.waiting() as u64
    }

    /// Gives the room of the interest back once no request waits.
    pub(crate) fn drop_idle_interest(&mut self) {
        let has_waiters = self.lease.waiting() > 0;
        let is_idle =
            |interest: &mut Box<Interest>| !has_waiters && interest.changed.receiver_count() == 0;
        drop(self.interest.take_if(is_idle));
    }
}
