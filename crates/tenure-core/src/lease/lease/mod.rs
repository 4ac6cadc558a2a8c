//! One lease with its waiting queue: it selects the next holder, and decides when a grant may be
//! given back.

use alloc::boxed::Box;
use core::mem;

use super::queue::Queue;
use super::{
    Applied, Change, Lapse, LeaseId, Operation, Owner, Priority, Record, Rejection, Rules, Waiting,
    apply_as, deletable,
};
use crate::{Epoch, Instant, UnixMillis};

/// The number of a waiting request. The caller gives each request a number that is unique in the
/// process. Two requests may have the same lease id.
pub type RequestNumber = u64;

/// The number of waiting candidates that the refusal of a hand-over names: enough for an election,
/// and short enough for a line on a terminal.
const NAMED_WAITERS: usize = 20;

/// A lease's [`Record`] and the acquires that wait for it.
///
/// `W` is the caller's handle for replying to a waiting request; the core only stores it.
///
/// # Order of calls
///
/// 1. Call [`poll`](Self::poll) until it returns `None`, so that waiting requests go before a new
///    one.
/// 2. One command: [`apply`](Self::apply), [`wait`](Self::wait), [`leave`](Self::leave),
///    [`give_back`](Self::give_back) or [`delete`](Self::delete).
/// 3. Call [`poll`](Self::poll) again until it returns `None`. After a release it grants the lease
///    to the next request.
///
/// The next `poll` without a command is due at the record's [`next_lapse`](Record::next_lapse).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease<W> {
    record: Record,
    /// `None` while no request waits, which is the common case. Then the queue costs only one
    /// pointer.
    queue: Option<Box<Queue<W>>>,
}

/// The step that [`Lease::poll`] has taken.
#[derive(Debug)]
pub enum Due<W> {
    /// The term's time was over.
    Ended(Lapse),
    /// The lease was granted to the first waiting request that may have it.
    Granted {
        /// The request. It no longer waits.
        to: Waiting<W>,
        /// The new term's epoch.
        epoch: Epoch,
    },
}

impl<W> From<Record> for Lease<W> {
    fn from(record: Record) -> Self {
        Self {
            record,
            queue: None,
        }
    }
}

impl<W> Default for Lease<W> {
    fn default() -> Self {
        Self::from(Record::default())
    }
}

impl<W> Lease<W> {
    /// Returns the record of the lease.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Restores an earlier record. A store does so to undo changes that it could not write. Waiting
    /// requests stay in the queue.
    pub fn restore(&mut self, record: Record) {
        self.record = record;
        // A grant to a waiting request is undone as well, so nothing can be given back.
        self.confirm();
    }

    /// Makes the next epoch greater than `floor` too: see [`Record::numbered_above`].
    pub fn number_above(&mut self, floor: Option<Epoch>) {
        self.record = mem::take(&mut self.record).numbered_above(floor);
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.waiting.len())
    }

    /// Returns the request of this principal that waits under this lease id.
    #[must_use]
    pub fn waiter(&self, lease_id: LeaseId, owner: Option<&Owner>) -> Option<&Waiting<W>> {
        self.queue.as_ref()?.find(lease_id, owner)
    }

    /// Returns the waiting requests with their priorities, in the order in which the lease is
    /// granted to them.
    pub fn waiters(&self) -> impl Iterator<Item = (Priority, &Waiting<W>)> {
        let waiting = self.queue.iter().flat_map(|queue| &queue.waiting);
        waiting.map(|((priority, _), waiting)| (*priority, waiting))
    }

    /// Returns whether [`poll`](Self::poll) may change the lease at `now`. This is a cheap check
    /// for callers that must copy the record before it changes.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.record.has_lapsed(now) || (self.waiting() > 0 && self.record.held(now).is_none())
    }

    /// Takes the next step that is due: ends a term whose time is over, or grants a free lease to
    /// the first request in the queue that may have it. Returns `None` if no step is due.
    ///
    /// It skips requests for which `is_gone` returns `true`, because their clients have
    /// disconnected. This is an optimisation: [`give_back`](Self::give_back) would release such a
    /// grant.
    pub fn poll(
        &mut self,
        now: Instant,
        wall: UnixMillis,
        rules: &Rules,
        mut is_gone: impl FnMut(&W) -> bool,
    ) -> Option<Due<W>> {
        if let Some(lapse) = self.record.settle(now) {
            self.confirm();
            return Some(Due::Ended(lapse));
        }
        let queue = self.queue.as_mut()?;
        if self.record.held(now).is_some() {
            return None;
        }
        let (mut granted, mut is_barred) = (None, false);
        let record = &mut self.record;
        let to = queue.take_first(|waiting| {
            if is_barred || is_gone(&waiting.reply_to) {
                return false;
            }
            let acquire = Operation::Acquire(waiting.request.clone(), wall);
            let applied = apply_as(waiting.owner.as_ref(), record, &acquire, now, rules);
            match applied.map(|applied| applied.change) {
                Ok(Change::Granted(epoch)) => granted = Some(epoch),
                // This is impossible: the lease was free, so the operation was not a renewal.
                Ok(_) => {}
                // A lock delay applies to all requests; other refusals only to this one.
                Err(rejection) => is_barred = matches!(rejection, Rejection::LockDelay { .. }),
            }
            granted.is_some()
        })?;
        queue.unconfirmed = Some(to.number);
        granted.map(|epoch| Due::Granted { to, epoch })
    }

    /// Applies one operation, as [`apply`](super::apply) does.
    ///
    /// # Errors
    ///
    /// [`Rejection`]. After a [transient](Rejection::is_transient) one the caller may
    /// [`wait`](Self::wait).
    pub fn apply(
        &mut self,
        operation: &Operation,
        now: Instant,
        rules: &Rules,
    ) -> Result<Applied, Rejection> {
        self.apply_as(None, operation, now, rules)
    }

    /// Applies one operation of this principal, as [`apply_as`] does.
    ///
    /// # Errors
    ///
    /// As [`Lease::apply`].
    pub fn apply_as(
        &mut self,
        owner: Option<&Owner>,
        operation: &Operation,
        now: Instant,
        rules: &Rules,
    ) -> Result<Applied, Rejection> {
        self.check_successor(owner, operation, now, rules)?;
        let applied = apply_as(owner, &mut self.record, operation, now, rules)?;
        // `Verify` changes nothing, and its answer does not go to the holder.
        if !matches!(operation, Operation::Verify(_)) {
            self.confirm();
        }
        Ok(applied)
    }

    /// Checks that the lease is handed over only to a candidate that waits, unless the hand-over is
    /// forced. Otherwise a misspelt name would leave the lease without a holder for the whole time
    /// of the reservation.
    fn check_successor(
        &self,
        owner: Option<&Owner>,
        operation: &Operation,
        now: Instant,
        rules: &Rules,
    ) -> Result<(), Rejection> {
        let (Operation::HandOver { to, forced, .. } | Operation::SwitchOver { to, forced, .. }) =
            operation
        else {
            return Ok(());
        };
        let waits = self.queue.as_ref().is_some_and(|queue| queue.has(to, now));
        if *forced || waits {
            return Ok(());
        }
        // The refusals of the record come first: only the holder and operators learn who waits.
        apply_as(owner, &mut self.record.clone(), operation, now, rules)?;
        let mut waiting = self
            .waiters()
            .map(|(_, waiting)| waiting.request.holder.clone());
        Err(Rejection::NotWaiting {
            to: to.clone(),
            waiting: waiting.by_ref().take(NAMED_WAITERS).collect(),
            others: waiting.count(),
        })
    }

    /// Adds a request to the queue, behind all requests of its priority. A request with a lease id
    /// that already waits replaces the earlier request, which is returned, and keeps its position
    /// if the priority is the same. It also keeps the position of a request that has
    /// [left](Self::leave) less than [`PLACE_KEPT_FOR`](super::PLACE_KEPT_FOR) ago.
    pub fn wait(&mut self, priority: Priority, waiting: Waiting<W>) -> Option<Waiting<W>> {
        let queue = self.queue.get_or_insert_default();
        queue.join(priority, waiting)
    }

    /// Removes the request with this number from the queue, and keeps its place for
    /// [`PLACE_KEPT_FOR`](super::PLACE_KEPT_FOR). Returns `None` if it does not wait: it was granted,
    /// or a later request with the same lease id has replaced it.
    pub fn leave(
        &mut self,
        lease_id: LeaseId,
        number: RequestNumber,
        now: Instant,
    ) -> Option<Waiting<W>> {
        let queue = self.queue.as_mut()?;
        queue.leave(lease_id, now, |waiting| waiting.number == number)
    }

    /// Frees the memory of places whose time is over. Returns the time at which the next one is
    /// over. Calling it late only costs memory.
    pub fn forget_places(&mut self, now: Instant) -> Option<Instant> {
        let next = self.queue.as_mut()?.forget_places(now);
        self.drop_idle();
        next
    }

    /// Removes every request for which `is_gone` returns `true` from the queue.
    pub fn drop_where(&mut self, is_gone: impl FnMut(&Waiting<W>) -> bool) {
        if let Some(queue) = &mut self.queue {
            queue.drop_where(is_gone);
            self.drop_idle();
        }
    }

    /// Releases a grant whose answer could not be delivered, because the client disconnected at the
    /// moment of the grant. Then the next candidate need not wait until the lease expires.
    ///
    /// The caller knows that the request with this `number` got no answer. That does not prove that
    /// the *holder* does not know of the grant: it may have dropped that request, acquired again
    /// with the same lease id over another connection, and got the answer there. So this method
    /// releases the grant only while it is the last change of the lease. Every later change (a
    /// renewal, also by a repeated acquire, a change of the lease id, a break, the end of the term)
    /// clears `unconfirmed`, and then this method does nothing. So a holder that got an answer
    /// keeps the lease.
    ///
    /// The lease id is retired, so that a delayed copy of the request is not granted.
    pub fn give_back(&mut self, number: RequestNumber, now: Instant) -> Option<Applied> {
        let unconfirmed = self.queue.as_ref()?.unconfirmed;
        let grant = self.record.held(now)?;
        let (lease_id, owner) = (grant.lease_id, grant.owner.clone());
        if unconfirmed != Some(number) {
            return None;
        }
        let release = Operation::Release(lease_id);
        self.apply_as(owner.as_ref(), &release, now, &Rules::NATIVE)
            .ok()
    }

    /// Deletes the lease if it is free and no lock delay or reservation is running.
    /// [`Record::deleted`] is the rest of its record. Waiting requests stay in the queue.
    ///
    /// # Errors
    ///
    /// The same as those of [`deletable`].
    pub fn delete(&mut self, floor: Option<Epoch>, now: Instant) -> Result<(), Rejection> {
        deletable(&self.record, now)?;
        self.record.settle(now);
        self.restore(self.record.deleted(floor, now));
        Ok(())
    }

    /// Records a change of the lease after the last grant: that grant can no longer be given back.
    fn confirm(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.unconfirmed = None;
            self.drop_idle();
        }
    }

    /// Frees the queue when it is empty and no grant can be given back.
    fn drop_idle(&mut self) {
        drop(self.queue.take_if(|queue| queue.is_idle()));
    }
}

#[cfg(test)]
mod tests;
