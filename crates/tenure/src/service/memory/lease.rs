//! A lease of a [`MemoryStore`](super::MemoryStore).

use tenure_core::lease::candidate::Answer;
use tenure_core::lease::{
    self, Acquire, Applied, Change, Due, Operation, Rejection, Rules, Running,
};
use tenure_core::{Epoch, Instant, UnixMillis};
use tokio::sync::oneshot;

use crate::base::clock::{before, rfc3339};
use crate::http::store::{TermView, WithoutStoreView};

/// One lease and its past terms.
#[derive(Debug, Default)]
pub(super) struct MemoryLease {
    pub(super) lease: lease::Lease<oneshot::Sender<Answer>>,
    /// The store's revision at the last change.
    pub(super) revision: u64,
    /// The terms, oldest first.
    pub(super) terms: Vec<TermView>,
}

impl MemoryLease {
    /// Ends the term if its time is over, and grants the lease to the first waiter. Returns whether
    /// the lease has changed.
    pub(super) fn serve(&mut self, now: Instant, wall: UnixMillis) -> bool {
        // A request has ended if its candidate no longer waits for the reply.
        self.lease
            .drop_where(|waiting| waiting.reply_to.is_closed());
        let mut has_changed = false;
        loop {
            let running = self.lease.record().running();
            let is_gone = oneshot::Sender::is_closed;
            match self.lease.poll(now, wall, &Rules::NATIVE, is_gone) {
                Some(Due::Ended(_)) => self.note_end(running, None, now, wall),
                Some(Due::Granted { to, epoch }) => {
                    self.note_grant(&to.request, epoch, wall);
                    // If the candidate has just gone away, nobody renews the lease, and it expires.
                    let _ = to.reply_to.send(Answer::Held(epoch));
                }
                None => return has_changed,
            }
            has_changed = true;
        }
    }

    pub(super) fn apply(
        &mut self,
        operation: &Operation,
        reason: Option<&str>,
        now: Instant,
        wall: UnixMillis,
    ) -> Result<Applied, Rejection> {
        let running = self.lease.record().running();
        let applied = self.lease.apply(operation, now, &Rules::NATIVE)?;
        self.note_end(running, reason, now, wall);
        match (&applied.change, operation) {
            (
                Change::Granted(epoch),
                Operation::Acquire(request, began) | Operation::Resume(request, _, began),
            ) => self.note_grant(request, *epoch, *began),
            (Change::Resumed(_), _) => self.note_continuation(),
            _ => {}
        }
        self.note_periods();
        Ok(applied)
    }

    fn note_grant(&mut self, request: &Acquire, epoch: Epoch, began: UnixMillis) {
        let mut term = TermView::new(epoch.get(), request.holder.to_string());
        term.began_at = Some(rfc3339(began));
        self.terms.push(term);
    }

    /// Removes the end of a term that continues.
    fn note_continuation(&mut self) {
        if let Some(term) = self.terms.last_mut() {
            (term.end, term.ended_at, term.reason) = (None, None, None);
        }
    }

    /// Records the periods in which the last term was led without the store.
    fn note_periods(&mut self) {
        let periods = self.without_store();
        if let Some(term) = self.terms.last_mut() {
            term.without_store = periods;
        }
    }

    /// Returns the periods in which the last term was led without the store.
    pub(super) fn without_store(&self) -> Option<Box<WithoutStoreView>> {
        let periods = self.lease.record().last_grant()?.without_store.as_deref()?;
        Some(WithoutStoreView::of(periods, |wall| Some(rfc3339(wall))).into())
    }

    /// Records the end of the term that ran before the last step, if that step ended it.
    fn note_end(
        &mut self,
        running: Option<Running>,
        reason: Option<&str>,
        now: Instant,
        wall: UnixMillis,
    ) {
        let ended = running.and_then(|running| running.ended(self.lease.record(), now));
        if let (Some(term), Some((end, at))) = (self.terms.last_mut(), ended) {
            term.end = Some(end);
            term.ended_at = Some(rfc3339(before(wall, now.since(at))));
            term.reason = reason.map(Into::into);
        }
    }
}
