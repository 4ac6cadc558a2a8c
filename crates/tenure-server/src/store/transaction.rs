//! Changes of one lease, under the lock of its shard.

use tenure_core::lease::{
    Applied, Change, Due, Lease, Operation, Priority, Record, Rejection, Remaining, RequestNumber,
    Rules, Running, Waiting, apply,
};
use tenure_core::time::millis;
use tenure_core::wire::LeaseView;
use tenure_core::{Epoch, Instant, UnixMillis};
use tokio::sync::watch;

use super::wait::{OutcomeSender, WaitOutcome};
use super::{Entry, Inner};
use crate::clock;
use crate::commit_queue::Ticket;
use crate::model::{
    Cause, ChangeSet, Content, Deleted, LeaseChange, LeaseKey, LeaseVersion, TermRecord,
};

/// One lease, locked, and the changes that are made to it.
///
/// [`run`](Self::run) does what is due before and after the request, and queues the changes for a commit.
/// Every change goes through [`lease`](Self::lease), which keeps the lease as it was, for an undo.
pub(super) struct LeaseTransaction<'a> {
    inner: &'a Inner,
    key: &'a LeaseKey,
    entry: &'a mut Entry,
    now: Instant,
    /// The lease before its first change.
    before: Option<LeaseVersion>,
    changes: Vec<LeaseChange>,
    granted: Vec<WaiterGrant>,
    /// The request itself made a change.
    requested: bool,
    /// A term that time has ended, which no change has recorded.
    unrecorded: Option<TermRecord>,
}

/// The result of a transaction.
pub(super) struct Done {
    /// The revision of the lease that the request saw or made.
    pub(super) revision: u64,
    /// The request itself made a change.
    pub(super) requested: bool,
    /// The ticket that the answer must wait for, if there were changes.
    pub(super) ticket: Option<Ticket>,
}

/// A request that waited and was granted the lease.
struct WaiterGrant {
    reply_to: OutcomeSender,
    view: Box<LeaseView>,
    /// The index of the change that is the grant.
    change: usize,
}

impl<'a> LeaseTransaction<'a> {
    pub(super) fn begin(inner: &'a Inner, key: &'a LeaseKey, entry: &'a mut Entry) -> Self {
        Self {
            inner,
            key,
            // Read under the lock: the changes of one lease are in the order of their instants.
            now: inner.clock.now(),
            entry,
            before: None,
            changes: Vec::new(),
            granted: Vec::new(),
            requested: false,
            unrecorded: None,
        }
    }

    /// Does what is due, then `work`, then what is due after it; and queues all changes.
    pub(super) fn run<T>(mut self, work: impl FnOnce(&mut Self) -> T) -> (T, Done) {
        self.settle();
        let value = work(&mut self);
        let (seen, requested) = (self.changes.len() as u64, self.requested);
        self.settle();
        let before = self.entry.revision;
        let (first, ticket) = self.finish(false);
        let revision = match seen {
            0 => before,
            seen => first + seen - 1,
        };
        let done = Done {
            revision,
            requested,
            ticket,
        };
        (value, done)
    }

    /// Does what is due, and arms the timer for the next time.
    pub(super) fn run_timer(mut self) {
        self.settle();
        self.finish(true);
    }

    /// Lets `read` read the lease at the current time. It is not changed for good: the caller restores it.
    pub(super) fn read_at_now<T>(mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.unrecorded = self.running_term();
        let mut ended = self.record().clone();
        ended.settle(self.now);
        self.entry.lease.restore(ended);
        read(&mut self)
    }

    /// The instant of the transaction.
    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    /// The lease without the requests that wait.
    pub(super) const fn record(&self) -> &Record {
        self.entry.lease.record()
    }

    /// The lease as clients may see it now, without its revision.
    pub(super) fn view(&self) -> LeaseView {
        let record = self.record();
        let mut view = LeaseView::of(self.key.namespace(), self.key.lease(), record, self.now);
        let granted = record.held(self.now);
        view.granted_at = granted.and_then(|grant| clock::rfc3339(grant.granted_at));
        view.waiters = self.entry.waiters();
        view
    }

    /// The terms that memory has, newest first.
    pub(super) fn past_terms(&self) -> Vec<TermRecord> {
        self.entry
            .past
            .iter()
            .flat_map(|past| past.terms())
            .collect()
    }

    /// The running term. Its time may be over if no change has ended it.
    pub(super) fn running_term(&self) -> Option<TermRecord> {
        if self.unrecorded.is_some() {
            return self.unrecorded.clone();
        }
        self.record().running()?;
        let grant = self.record().last_grant()?;
        Some(TermRecord {
            epoch: grant.epoch,
            holder: grant.holder.clone(),
            began_at: grant.granted_at,
            ended: None,
            reason: None,
        })
    }

    /// Why this operation would be refused now, if it would be. Nothing changes.
    pub(super) fn refusal(&self, rules: &Rules, operation: &Operation) -> Option<Rejection> {
        let mut record = self.record().clone();
        apply(&mut record, operation, self.now, rules).err()
    }

    /// The ticket of the lease's changes that are not durable yet.
    pub(super) fn in_flight(&self) -> Option<Ticket> {
        self.inner.commit_queue.ticket(self.entry.revision)
    }

    /// The lease's requests that wait.
    pub(super) const fn waiting(&self) -> &Lease<OutcomeSender> {
        &self.entry.lease
    }

    /// Lets a request wait. The request that it replaces is refused with `refusal`.
    pub(super) fn wait(
        &mut self,
        priority: Priority,
        waiting: Waiting<OutcomeSender>,
        refusal: impl FnOnce() -> WaitOutcome,
    ) {
        let revision = self.entry.revision;
        if let Some(replaced) = self.entry.wait(priority, waiting) {
            deliver(self.inner, revision, replaced.reply_to, refusal());
        }
    }

    /// A receiver that learns of changes of the lease.
    pub(super) fn subscribe(&mut self) -> watch::Receiver<u64> {
        self.entry.interest().changed.subscribe()
    }

    /// Applies an operation by the rules of the store.
    pub(super) fn apply(
        &mut self,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<Applied, Rejection> {
        self.apply_by(&Rules::NATIVE, operation, reason)
    }

    /// Applies an operation by these rules.
    pub(super) fn apply_by(
        &mut self,
        rules: &Rules,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<Applied, Rejection> {
        let (now, running) = (self.now, self.record().running());
        // These two never change anything that must be durable, so there is nothing to undo; except for a
        // renewal that brings a term back which time has ended, if the rules allow that.
        let changes_nothing = matches!(operation, Operation::Renew(_, None) | Operation::Verify(_))
            && (running.is_some() || !rules.renew_after_expiry);
        let lease = match changes_nothing {
            true => &mut self.entry.lease,
            false => self.lease(),
        };
        let applied = lease.apply(operation, now, rules)?;
        // A break that moves nothing may be the first to give a reason, which is recorded too.
        let gives_reason = reason.is_some() && matches!(applied.change, Change::Breaking(_));
        if applied.durable || gives_reason {
            self.requested = true;
            self.push_requested(&applied, running, reason.map(String::into_boxed_str));
        } else if matches!(applied.change, Change::Renewed(_)) {
            self.publish_renewal(&applied.change);
        }
        Ok(applied)
    }

    /// Releases a grant that the waiting request of this number did not learn of, unless the lease has
    /// changed since.
    pub(super) fn give_back(&mut self, number: RequestNumber) {
        let (now, running) = (self.now, self.record().running());
        if let Some(released) = self.lease().give_back(number, now) {
            self.push_requested(&released, running, None);
        }
    }

    /// Deletes the lease, except for its greatest epoch and, for a while, the lease ids of its ended terms.
    pub(super) fn delete(&mut self) -> Result<(), Rejection> {
        let (now, last) = (self.now, self.record().last_epoch());
        let floor = self.inner.floor();
        self.lease().delete(floor, now)?;
        self.requested = true;
        self.inner.raise_floor(last);
        self.entry.past = None;
        self.inner.table.forget_old(now);
        let retired = self.record().retired().collect();
        let deleted = Content::Deleted(Deleted { last, retired });
        self.push_content(deleted, Cause::Deleted, None);
        Ok(())
    }

    /// Does what is due: ends a term that time has ended, and grants a free lease to the first waiting
    /// request.
    fn settle(&mut self) {
        while self.entry.lease.is_due(self.now) {
            let (now, running) = (self.now, self.record().running());
            // A request that is given up leaves the queue by itself.
            let is_gone = |_: &OutcomeSender| false;
            match self
                .lease()
                .poll(now, clock::wall(), &Rules::NATIVE, is_gone)
            {
                Some(Due::Ended(lapse)) => {
                    let term = self.term_to_record(running, None);
                    self.push(Cause::Lapsed(lapse), term);
                }
                Some(Due::Granted { to, epoch }) => self.grant_to(to, epoch),
                None => return,
            }
        }
    }

    fn grant_to(&mut self, waiting: Waiting<OutcomeSender>, epoch: Epoch) {
        let change = self.changes.len();
        self.push(Cause::Requested(Change::Granted(epoch), None), None);
        self.granted.push(WaiterGrant {
            reply_to: waiting.reply_to,
            view: self.view().into(),
            change,
        });
    }

    /// The lease, to be changed. It is kept as it was, for an undo.
    fn lease(&mut self) -> &mut Lease<OutcomeSender> {
        if self.before.is_none() {
            self.before = Some(self.entry.version());
        }
        &mut self.entry.lease
    }

    /// Sends a renewal to the watchers that asked for renewals. It is not a change.
    fn publish_renewal(&self, change: &Change) {
        // After a change in this transaction the renewal rests on a revision that does not exist yet.
        if self.inner.events.wants_renewals(self.key) && self.changes.is_empty() {
            let stored = self.record().store(self.now);
            let cause = Cause::Requested(change.clone(), None);
            let mut renewal = self.change(Content::Lease(stored.into()), cause, None);
            renewal.revision = self.entry.revision;
            self.inner.events.publish_renewal(renewal);
        }
    }

    /// Queues the changes, tells the requests that wait, and arms the timer. Returns the revision of the
    /// first change, and what an answer must wait for.
    fn finish(mut self, always_arm: bool) -> (u64, Option<Ticket>) {
        let changes = std::mem::take(&mut self.changes);
        let (count, has_changed) = (changes.len() as u64, !changes.is_empty());
        let (mut first, mut ticket) = (self.entry.revision, None);
        if has_changed {
            let before = self.before.take().unwrap_or_else(|| self.entry.version());
            // A release and the grant that follows it are committed together, or undone together.
            let set = ChangeSet {
                before,
                changes,
                ..ChangeSet::default()
            };
            let (last, appended) = self.inner.commit_queue.append(set);
            ticket = appended;
            self.entry.revision = last;
            first = last + 1 - count;
            for WaiterGrant {
                reply_to,
                mut view,
                change,
            } in std::mem::take(&mut self.granted)
            {
                view.revision = first + change as u64;
                deliver(self.inner, last, reply_to, WaitOutcome::Granted(view));
            }
        }
        self.arm_timer(has_changed, always_arm);
        (first, ticket)
    }

    fn arm_timer(&mut self, has_changed: bool, always: bool) {
        let Entry {
            lease,
            interest,
            revision,
            ..
        } = &mut *self.entry;
        let next = || lease.record().next_lapse(self.now);
        if let Some(interest) = interest {
            if has_changed {
                interest.changed.send_replace(*revision);
            }
            if let Some(at) = next()
                && interest.armed.is_none_or(|armed| at < armed)
            {
                interest.armed = Some(at);
                self.inner.timer.arm(at, self.key.clone());
            }
        }
        // Not at renewals: the timer then fires too early, and arms itself again.
        if (has_changed || always)
            && self.inner.needs_timer(self.key)
            && let Some(at) = next()
        {
            self.inner.timer.arm(at, self.key.clone());
        }
    }

    /// The record of the term that ran before the last change: its end, or, if the term goes on, only
    /// the reason for its coming end.
    fn term_to_record(
        &self,
        running: Option<Running>,
        reason: Option<Box<str>>,
    ) -> Option<TermRecord> {
        let ended = running?.ended(self.record(), self.now);
        if ended.is_none() && reason.is_none() {
            return None;
        }
        let ended = ended.map(|(end, at)| {
            let ago = millis(self.now.since(at));
            let at = clock::wall().get().saturating_sub(ago);
            (end, UnixMillis::new(at))
        });
        let grant = self.record().last_grant()?;
        Some(TermRecord {
            epoch: grant.epoch,
            holder: grant.holder.clone(),
            began_at: grant.granted_at,
            ended,
            reason,
        })
    }

    fn push_requested(
        &mut self,
        applied: &Applied,
        running: Option<Running>,
        reason: Option<Box<str>>,
    ) {
        let term = self.term_to_record(running, reason.clone());
        self.push(Cause::Requested(applied.change.clone(), reason), term);
    }

    fn push(&mut self, cause: Cause, term: Option<TermRecord>) {
        let stored = self.record().store(self.now);
        self.push_content(Content::Lease(stored.into()), cause, term);
    }

    fn push_content(&mut self, content: Content, cause: Cause, mut term: Option<TermRecord>) {
        if self.inner.term_history.is_none()
            && let Some(term) = term.take()
        {
            // In memory nothing is ever undone.
            let past = self.entry.past.get_or_insert_default();
            past.record(term, self.inner.limits.max_history);
        }
        let change = self.change(content, cause, term);
        self.changes.push(change);
    }

    fn change(&self, content: Content, cause: Cause, term: Option<TermRecord>) -> LeaseChange {
        let remaining_ms = match self.record().remaining(self.now) {
            Some(Remaining::Time(time)) => u64::try_from(time.as_millis()).ok(),
            Some(Remaining::Forever) | None => None,
        };
        LeaseChange {
            key: self.key.clone(),
            revision: 0,
            content,
            term: term.map(Box::new),
            cause,
            waiters: self.entry.waiters(),
            remaining_ms,
        }
    }
}

/// Sends the outcome of a request that waited, once `revision` is durable. If the request was given up, it
/// gives a grant back by itself.
fn deliver(inner: &Inner, revision: u64, reply_to: OutcomeSender, outcome: WaitOutcome) {
    inner.commit_queue.on_durable(revision, move |durable| {
        let _ = reply_to.send(durable.map(|()| outcome));
    });
}
