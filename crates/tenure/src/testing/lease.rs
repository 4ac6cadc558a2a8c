//! A lease of a [`TestStore`](super::TestStore).

use std::time::{Duration, SystemTime};

use tenure_core::lease::keeper::Answer;
use tenure_core::lease::{
    self, Applied, Change, Operation, Queue, Record, Rejection, Rules, Running,
};
use tenure_core::{Instant, UnixMillis};
use tokio::sync::oneshot;

use crate::store::TermView;

/// One lease, who waits for it, and the terms that it has had.
#[derive(Debug, Default)]
pub(super) struct Lease {
    pub(super) record: Record,
    /// The store's, when it last changed.
    pub(super) revision: u64,
    pub(super) waiting: Queue<oneshot::Sender<Answer>>,
    /// Oldest first.
    pub(super) terms: Vec<TermView>,
}

impl Lease {
    /// Ends a term that time has ended, and grants the lease to the first who waits and may have it.
    /// Whether that has changed anything.
    pub(super) fn settle(&mut self, now: Instant) -> bool {
        let running = self.record.running();
        let has_lapsed = self.record.settle(now).is_some();
        self.note_end(running, None, now);
        self.grant_next(now) || has_lapsed
    }

    fn grant_next(&mut self, now: Instant) -> bool {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.drop_where(|one| one.reply_to.is_closed());
        let mut granted = None;
        let next = waiting.take_first(|one| {
            let acquire = Operation::Acquire(one.request.clone(), wall(now));
            granted = self.apply(&acquire, None, now).ok();
            granted.is_some()
        });
        self.waiting = waiting;
        let (Some(next), Some(granted)) = (next, granted) else {
            return false;
        };
        // Who has gone just now does not renew.
        let _ = next.reply_to.send(Answer::from(Ok(granted.change)));
        true
    }

    pub(super) fn apply(
        &mut self,
        operation: &Operation,
        reason: Option<&str>,
        now: Instant,
    ) -> Result<Applied, Rejection> {
        let running = self.record.running();
        let applied = lease::apply(&mut self.record, operation, now, &Rules::NATIVE)?;
        self.note_end(running, reason, now);
        if let (Change::Granted(epoch), Operation::Acquire(request, began)) =
            (&applied.change, operation)
        {
            self.terms.push(TermView {
                epoch: epoch.get(),
                holder: request.holder.to_string(),
                began_at: Some(rfc3339(*began)),
                ended_at: None,
                end: None,
                reason: None,
            });
        }
        Ok(applied)
    }

    /// Notes how the last step ended the term that was running before it, if it did.
    fn note_end(&mut self, running: Option<Running>, reason: Option<&str>, now: Instant) {
        let ended = running.and_then(|running| running.ended(&self.record, now));
        if let (Some(term), Some((end, at))) = (self.terms.last_mut(), ended) {
            term.end = Some(end);
            term.ended_at = Some(rfc3339(wall(at)));
            term.reason = reason.map(Into::into);
        }
    }
}

/// A wall clock that goes along with the test's time.
pub(super) const fn wall(now: Instant) -> UnixMillis {
    UnixMillis::new(now.as_nanos() / 1_000_000)
}

fn rfc3339(wall: UnixMillis) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(wall.get());
    humantime::format_rfc3339_millis(time).to_string()
}
