//! One lease and the acquires that wait for it: who is granted next, and when a grant may be taken
//! back.

use alloc::boxed::Box;

use super::queue::Queue;
use super::{
    Applied, Change, Lapse, LeaseId, Operation, Priority, Record, Rejection, Rules, Waiting, apply,
    deletable,
};
use crate::{Epoch, Instant, UnixMillis};

/// Tells waiting requests apart: the caller gives each one a number that no other request of the same
/// process has, whatever their lease ids are.
pub type RequestNumber = u64;

/// A lease's [`Record`], and the acquires that wait for it.
///
/// `W` is the way back to a request that waits: the core only keeps it and hands it out again.
///
/// # Order of calls
///
/// 1. [`poll`](Self::poll) until it returns `None`: requests that wait go before the one that comes now.
/// 2. One command: [`apply`](Self::apply), [`wait`](Self::wait), [`leave`](Self::leave),
///    [`give_back`](Self::give_back) or [`delete`](Self::delete).
/// 3. [`poll`](Self::poll) again until it returns `None`: a release grants the lease to the next request.
///
/// [`next_lapse`](Record::next_lapse) of the record says when to call `poll` without any command.
#[derive(Clone, Debug)]
pub struct Lease<W> {
    record: Record,
    /// Most leases have no request waiting: a pointer's room for those that do.
    contention: Option<Box<Contention<W>>>,
}

#[derive(Clone, Debug)]
struct Contention<W> {
    queue: Queue<W>,
    /// The waiting request that was granted, while nothing has happened to the lease since.
    unconfirmed: Option<RequestNumber>,
}

impl<W> Default for Contention<W> {
    fn default() -> Self {
        Self {
            queue: Queue::default(),
            unconfirmed: None,
        }
    }
}

/// What [`Lease::poll`] did.
#[derive(Debug)]
pub enum Due<W> {
    /// Time has ended the term.
    Ended(Lapse),
    /// The first request that waits and may have the lease was granted it.
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
            contention: None,
        }
    }
}

impl<W> Default for Lease<W> {
    fn default() -> Self {
        Self::from(Record::default())
    }
}

impl<W> Lease<W> {
    /// The lease without the requests that wait.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Makes the record what it was before. A store does so when it undoes changes that it could not
    /// write. Requests that wait go on waiting.
    pub fn restore(&mut self, record: Record) {
        self.record = record;
        // Whatever was granted to a waiting request is undone with the rest: nothing is left of it
        // that could be given back.
        self.confirm();
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.contention.as_ref().map_or(0, |it| it.queue.len())
    }

    /// Whether a request waits under this lease id.
    #[must_use]
    pub fn is_waiting(&self, lease_id: LeaseId) -> bool {
        let contention = self.contention.as_ref();
        contention.is_some_and(|it| it.queue.has(lease_id))
    }

    /// Whether [`poll`](Self::poll) may have something to do at `now`. It is cheap, for callers that
    /// must copy the record before it changes.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.record.has_lapsed(now) || (self.waiting() > 0 && self.record.held(now).is_none())
    }

    /// Does the next thing that is due: ends a term that time has ended, or grants a free lease to the
    /// first request in the queue that may have it. `None` if nothing is due.
    ///
    /// A request for which `is_gone` holds is passed over: nobody would hear of its grant. That saves
    /// a grant that would be given back, and decides nothing else.
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
        let contention = self.contention.as_mut()?;
        if self.record.held(now).is_some() {
            return None;
        }
        let (mut granted, mut is_barred) = (None, false);
        let record = &mut self.record;
        let to = contention.queue.take_first(|waiting| {
            if is_barred || is_gone(&waiting.reply_to) {
                return false;
            }
            let acquire = Operation::Acquire(waiting.request.clone(), wall);
            match apply(record, &acquire, now, rules) {
                Ok(Applied {
                    change: Change::Granted(epoch),
                    ..
                }) => granted = Some(epoch),
                // It can't be a renewal: nobody held the lease.
                Ok(_) => {}
                // A lock delay keeps every request waiting. Other refusals are this request's own.
                Err(rejection) => is_barred = matches!(rejection, Rejection::LockDelay { .. }),
            }
            granted.is_some()
        })?;
        contention.unconfirmed = Some(to.number);
        granted.map(|epoch| Due::Granted { to, epoch })
    }

    /// Applies one operation, as [`apply`] does.
    ///
    /// # Errors
    ///
    /// [`Rejection`]. One that [is transient](Rejection::is_transient) can be waited for.
    pub fn apply(
        &mut self,
        operation: &Operation,
        now: Instant,
        rules: &Rules,
    ) -> Result<Applied, Rejection> {
        let applied = apply(&mut self.record, operation, now, rules)?;
        // To verify an epoch changes nothing and tells the holder nothing.
        if !matches!(operation, Operation::Verify(_)) {
            self.confirm();
        }
        Ok(applied)
    }

    /// Adds a request at the end of its priority. Returns the request that it replaces if the same
    /// lease id waits already; the place is kept while the priority stays the same.
    pub fn wait(&mut self, priority: Priority, waiting: Waiting<W>) -> Option<Waiting<W>> {
        let contention = self.contention.get_or_insert_default();
        contention.queue.join(priority, waiting)
    }

    /// Takes the request of this number out of the queue. `None` if it does not wait: it was granted
    /// the lease, or a later request with the same lease id has taken its place.
    pub fn leave(&mut self, lease_id: LeaseId, number: RequestNumber) -> Option<Waiting<W>> {
        let contention = self.contention.as_mut()?;
        let left = contention
            .queue
            .leave(lease_id, |waiting| waiting.number == number);
        self.drop_idle();
        left
    }

    /// Takes every request for which `is_gone` holds out of the queue.
    pub fn drop_where(&mut self, is_gone: impl FnMut(&Waiting<W>) -> bool) {
        if let Some(contention) = &mut self.contention {
            contention.queue.drop_where(is_gone);
            self.drop_idle();
        }
    }

    /// Releases a grant that its waiting request did not hear of: the client went away at the very
    /// moment of the grant, so the others need not wait until the lease expires.
    ///
    /// That the request of this `number` was told nothing is for the caller to know. It does not
    /// follow that the *holder* knows nothing: it may have given up that request, asked again with
    /// the same lease id over another connection, and been told that it holds the lease. So the
    /// grant is released only while it is the last thing that happened to the lease. Anything later
    /// (a renewal, also by acquiring again, a change of the lease id, a break, the end of the term)
    /// has cleared `unconfirmed`, and then this does nothing: whoever was answered keeps the lease.
    ///
    /// The lease id is retired: a late copy of the same request is granted nothing.
    pub fn give_back(&mut self, number: RequestNumber, now: Instant) -> Option<Applied> {
        let unconfirmed = self.contention.as_ref()?.unconfirmed;
        let lease_id = self.record.held(now)?.lease_id;
        if unconfirmed != Some(number) {
            return None;
        }
        let release = Operation::Release(lease_id);
        self.apply(&release, now, &Rules::NATIVE).ok()
    }

    /// Deletes the lease, if nobody holds it and no lock delay or reservation is left: what is left of its
    /// record is told by [`Record::deleted`]. Requests that wait go on waiting.
    ///
    /// # Errors
    ///
    /// As [`deletable`].
    pub fn delete(&mut self, floor: Option<Epoch>, now: Instant) -> Result<(), Rejection> {
        deletable(&self.record, now)?;
        self.record.settle(now);
        self.restore(self.record.deleted(floor, now));
        Ok(())
    }

    /// Something happened to the lease after the last grant: that grant can't be given back any more.
    fn confirm(&mut self) {
        if let Some(contention) = &mut self.contention {
            contention.unconfirmed = None;
            self.drop_idle();
        }
    }

    /// Gives the room of the queue back once it has no use.
    fn drop_idle(&mut self) {
        let is_idle = |it: &mut Box<Contention<W>>| it.queue.is_empty() && it.unconfirmed.is_none();
        drop(self.contention.take_if(is_idle));
    }
}

#[cfg(test)]
mod tests;
