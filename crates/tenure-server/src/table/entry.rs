//! One lease in the table, and those who wait for something to happen to it.

use tenure_core::Instant;
use tenure_core::lease::{Queue, Record};
use tenure_core::wire::{LeaseView, Problem};
use tokio::sync::{oneshot, watch};

use super::Past;
use crate::journal::Ticket;

/// One lease.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: Record,
    /// The journal's number of the last change; zero if there was none.
    pub(crate) revision: u64,
    /// Most leases have nobody waiting: a pointer's room for these.
    pub(crate) interest: Option<Box<Interest>>,
    /// Its terms, if no engine keeps them.
    pub(crate) past: Option<Box<Past>>,
}

/// Those who wait.
#[derive(Debug)]
pub(crate) struct Interest {
    /// Acquires, in order.
    pub(crate) queue: Queue<oneshot::Sender<Reply>>,
    /// Long polls; the value is the revision.
    pub(crate) changed: watch::Sender<u64>,
    /// The earliest time at which the timer will look.
    pub(crate) armed: Option<Instant>,
}

/// What one who waits is told.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The lease is granted; tell it when the ticket is good.
    Granted(Box<LeaseView>, Option<Ticket>),
    /// A later request with the same lease id took the place.
    Replaced(Box<Problem>, Option<Ticket>),
}

impl Entry {
    pub(crate) const fn new(record: Record, revision: u64) -> Self {
        Self {
            record,
            revision,
            interest: None,
            past: None,
        }
    }

    /// Whether the lease was acquired at least once since it was made or deleted.
    pub(crate) const fn is_known(&self) -> bool {
        self.record.last_grant().is_some()
    }

    /// Whether it may be taken out of the table: nothing is known of it, durably so, and nobody
    /// waits. A deleted lease stays until its deletion is durable, because to answer that there is
    /// no such lease is to tell of the deletion.
    pub(crate) const fn is_vacant(&self, durable: u64) -> bool {
        !self.is_known() && self.revision <= durable && self.interest.is_none()
    }

    pub(crate) fn interest(&mut self) -> &mut Interest {
        let revision = self.revision;
        self.interest.get_or_insert_with(|| {
            Box::new(Interest {
                queue: Queue::default(),
                changed: watch::Sender::new(revision),
                armed: None,
            })
        })
    }

    /// How many wait to be granted.
    pub(crate) fn waiters(&self) -> u64 {
        let queue = self.interest.as_ref().map(|interest| &interest.queue);
        queue.map_or(0, |queue| queue.len() as u64)
    }

    /// Gives the room of the interest back once nobody waits.
    pub(crate) fn drop_idle_interest(&mut self) {
        let idle = |interest: &mut Box<Interest>| {
            interest.queue.is_empty() && interest.changed.receiver_count() == 0
        };
        drop(self.interest.take_if(|interest| idle(interest)));
    }
}
