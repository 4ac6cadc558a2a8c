//! Changes of one lease under the lock of its shard.

use tenure_core::lease::{
    Applied, Change, Due, Lease, LeaseDuration, Operation, Owner, Priority, Record, Rejection,
    RequestNumber, Rules, Running, TermEnd, Waiting,
};
use tenure_core::time::millis;
use tenure_core::wire::{LeaseView, Problem};
use tenure_core::{Instant, UnixMillis};
use tokio::sync::watch;

use super::observe::{Observation, undone};
use super::wait::{Outcome, OutcomeSender};
use super::{Entry, Inner};
use crate::clock;
use crate::commit_queue::Ticket;
use crate::model::{
    Cause, ChangeSet, Content, Deleted, LeaseChange, LeaseKey, LeaseVersion, TermRecord,
};

/// One locked lease, and the changes that are made to it. [`run`](Self::run) takes the steps that
/// are due before and after the request, and queues the changes for a commit. Every change goes
/// through [`lease`](Self::lease), which saves the earlier state of the lease for an undo.
pub(super) struct LeaseTransaction<'a> {
    inner: &'a Inner,
    key: &'a LeaseKey,
    entry: &'a mut Entry,
    pub(super) now: Instant,
    /// The lease before its first change.
    before: Option<LeaseVersion>,
    changes: Vec<LeaseChange>,
    granted: Vec<WaiterGrant>,
    /// The request itself made a change, or would have made one outside a trial.
    has_changed: bool,
    /// The request joined the waiting queue, so it has no answer yet.
    has_joined: bool,
    /// A request or a client begins to wait for the end of the lease.
    arms_timer: bool,
    /// This is a trial: the lease is a copy that the caller discards.
    is_trial: bool,
    /// In a trial: a term whose time is over, and whose end no change has recorded.
    unrecorded: Option<TermRecord>,
}

/// A waiting request that was granted the lease.
struct WaiterGrant {
    reply_to: OutcomeSender,
    view: LeaseView,
    /// The position of the grant among the transaction's changes. The first change has number 1.
    change: u64,
}

impl<'a> LeaseTransaction<'a> {
    pub(super) fn begin(inner: &'a Inner, key: &'a LeaseKey, entry: &'a mut Entry) -> Self {
        Self {
            inner,
            key,
            // The clock is read under the lock, so that the changes of one lease are in the order
            // of their instants.
            now: inner.clock.now(),
            entry,
            before: None,
            changes: Vec::new(),
            granted: Vec::new(),
            has_changed: false,
            has_joined: false,
            arms_timer: false,
            is_trial: false,
            unrecorded: None,
        }
    }

    /// Takes the steps that are due, runs `request`, takes the steps that are due after it, and
    /// queues all changes.
    pub(super) fn run<T>(mut self, request: impl FnOnce(&mut Self) -> T) -> Observation<T> {
        self.settle();
        let value = Some(request(&mut self));
        let own = self.changes.len() as u64;
        self.settle();
        let (before, all) = (self.entry.revision, self.changes.len() as u64);
        let ticket = self.queue_changes();
        let last = self.entry.revision;
        Observation {
            value,
            revision: match own {
                0 => before,
                own => last - all + own,
            },
            ticket: match self.has_joined {
                true => None,
                false => ticket.or_else(|| self.in_flight()),
            },
            repeatable: !self.has_changed,
        }
    }

    /// Takes the steps that are due, and arms the timer for the next time.
    pub(super) fn run_timer(mut self) {
        self.arms_timer = true;
        self.settle();
        self.queue_changes();
    }

    /// Runs `request` on a copy of the lease, which is durable as of `revision`, at the current
    /// time. Nothing is queued. The caller restores the lease afterwards.
    pub(super) fn run_trial<T>(
        mut self,
        request: impl FnOnce(&mut Self) -> T,
        revision: u64,
    ) -> Observation<T> {
        self.is_trial = true;
        self.unrecorded = self.running_term();
        let mut ended = self.record().clone();
        ended.settle(self.now);
        self.entry.lease.restore(ended);
        let value = Some(request(&mut self));
        Observation {
            value,
            revision,
            ticket: None,
            repeatable: !self.has_changed,
        }
    }

    /// Returns whether the request may change the lease now. In a trial it may not; then the trial
    /// records that the request would change the lease.
    pub(super) const fn may_change(&mut self) -> bool {
        self.has_changed |= self.is_trial;
        !self.is_trial
    }

    /// Returns the record of the lease, without the requests that wait.
    pub(super) const fn record(&self) -> &Record {
        self.entry.lease.record()
    }

    /// Returns the lease as clients may see it now, without its revision.
    pub(super) fn view(&self) -> LeaseView {
        let record = self.record();
        let mut view = LeaseView::of(self.key.namespace(), self.key.lease(), record, self.now);
        let granted = record.held(self.now);
        view.granted_at = granted.and_then(|grant| clock::rfc3339(grant.granted_at));
        view.waiters = self.entry.waiters();
        view
    }

    /// Returns the terms that are in memory, newest first.
    pub(super) fn past_terms(&self) -> Vec<TermRecord> {
        self.entry
            .past
            .iter()
            .flat_map(|past| past.terms())
            .collect()
    }

    /// Returns the running term. Its time may be over if no change has ended it yet.
    pub(super) fn running_term(&self) -> Option<TermRecord> {
        if self.unrecorded.is_some() {
            return self.unrecorded.clone();
        }
        self.record().running()?;
        self.term_record(None, None)
    }

    /// Returns the ticket of the lease's changes that are not durable yet.
    pub(super) fn in_flight(&self) -> Option<Ticket> {
        self.inner.commit_queue.ticket(self.entry.revision)
    }

    /// Returns the lease with the requests that wait for it.
    pub(super) const fn waiting(&self) -> &Lease<OutcomeSender> {
        &self.entry.lease
    }

    /// Adds a request to the waiting queue. A request that it replaces is refused with `refusal`.
    pub(super) fn wait(
        &mut self,
        priority: Priority,
        waiting: Waiting<OutcomeSender>,
        refusal: impl FnOnce() -> Problem,
    ) {
        self.has_joined = true;
        self.arms_timer = true;
        let revision = self.entry.revision;
        if let Some(replaced) = self.entry.wait(priority, waiting) {
            deliver(self.inner, revision, replaced.reply_to, Err(refusal()));
        }
    }

    /// Returns a receiver that is notified of changes of the lease.
    pub(super) fn subscribe(&mut self) -> watch::Receiver<u64> {
        self.arms_timer = true;
        self.entry.interest().subscribe()
    }

    /// Applies an operation under these rules.
    pub(super) fn apply(
        &mut self,
        rules: &Rules,
        owner: Option<&Owner>,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<Applied, Rejection> {
        let (now, running) = (self.now, self.record().running());
        // These two operations change nothing that must be durable, so there is nothing to undo.
        // The only exception is the renewal of a term whose time is over, if the rules allow that.
        let changes_nothing = matches!(operation, Operation::Renew(_, None) | Operation::Verify(_))
            && (running.is_some() || !rules.renew_after_expiry);
        let lease = match changes_nothing {
            true => &mut self.entry.lease,
            false => self.lease(),
        };
        let applied = lease.apply_as(owner, operation, now, rules)?;
        // A break that does not change the time may be the first one with a reason, which must be
        // recorded.
        let gives_reason = reason.is_some() && matches!(applied.change, Change::Breaking(_));
        if matches!(operation, Operation::Verify(_)) || !self.may_change() {
            return Ok(applied);
        }
        if applied.durable || gives_reason {
            self.has_changed = true;
            let reason = reason.map(String::into_boxed_str);
            let cause = Cause::Requested(applied.change.clone(), reason);
            self.push(self.content(), cause, running);
        } else if matches!(applied.change, Change::Renewed(_)) {
            self.publish_renewal(&applied.change);
        }
        Ok(applied)
    }

    /// Releases the grant of a waiting request with this number whose client did not receive it,
    /// unless the lease has changed since.
    pub(super) fn give_back(&mut self, number: RequestNumber) {
        let (now, running) = (self.now, self.record().running());
        if let Some(released) = self.lease().give_back(number, now) {
            let cause = Cause::Requested(released.change, None);
            self.push(self.content(), cause, running);
        }
    }

    /// Deletes the lease, except for its greatest epoch and, for some time, the lease ids of its
    /// ended terms.
    pub(super) fn delete(&mut self) -> Result<(), Rejection> {
        let (now, last) = (self.now, self.record().last_epoch());
        let floor = self.inner.floor();
        self.lease().delete(floor, now)?;
        if !self.may_change() {
            return Ok(());
        }
        self.has_changed = true;
        self.inner.raise_floor(last);
        self.entry.past = None;
        self.inner.table.deleted.forget_old(now);
        let retired = self.record().retired().collect();
        let deleted = Content::Deleted(Deleted { last, retired });
        self.push(deleted, Cause::Deleted, None);
        Ok(())
    }

    /// Takes the steps that are due: ends a term whose time is over, and grants a free lease to the
    /// first waiting request.
    fn settle(&mut self) {
        while self.entry.lease.is_due(self.now) {
            let (now, running) = (self.now, self.record().running());
            // An abandoned request removes itself from the queue.
            let is_gone = |_: &OutcomeSender| false;
            let due = self
                .lease()
                .poll(now, clock::wall(), &Rules::NATIVE, is_gone);
            match due {
                Some(Due::Ended(lapse)) => {
                    self.push(self.content(), Cause::Lapsed(lapse), running);
                }
                Some(Due::Granted { to, epoch }) => {
                    let cause = Cause::Requested(Change::Granted(epoch), None);
                    self.push(self.content(), cause, None);
                    self.granted.push(WaiterGrant {
                        reply_to: to.reply_to,
                        view: self.view(),
                        change: self.changes.len() as u64,
                    });
                }
                None => return,
            }
        }
    }

    /// Returns the lease to be changed, and saves its current state for an undo.
    fn lease(&mut self) -> &mut Lease<OutcomeSender> {
        if self.before.is_none() {
            self.before = Some(self.entry.version());
        }
        &mut self.entry.lease
    }

    /// Sends a renewal to the watchers that asked for renewals. It is not a change.
    fn publish_renewal(&self, change: &Change) {
        // After a change in this transaction, the renewal would depend on a revision that does not
        // exist yet.
        if self.inner.events.topics.wants_renewals(self.key) && self.changes.is_empty() {
            let cause = Cause::Requested(change.clone(), None);
            let mut renewal = self.change(self.content(), cause, None);
            renewal.revision = self.entry.revision;
            self.inner.events.publish_renewal(renewal);
        }
    }

    /// Queues the changes, sends their grants to waiting requests, and arms the timer. Returns the
    /// ticket of the changes, if there are any.
    fn queue_changes(&mut self) -> Option<Ticket> {
        let changes = std::mem::take(&mut self.changes);
        let (count, has_changes) = (changes.len() as u64, !changes.is_empty());
        let mut ticket = None;
        if has_changes {
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
            for mut grant in std::mem::take(&mut self.granted) {
                grant.view.revision = last - count + grant.change;
                deliver(self.inner, last, grant.reply_to, Ok(grant.view));
            }
        }
        self.arm_timer(has_changes);
        ticket
    }

    /// Notifies long polls of changes, and arms the timer for the next step. A renewal without
    /// other changes does not arm the timer: the timer then fires too early, and is armed again.
    fn arm_timer(&mut self, has_changes: bool) {
        if !has_changes && !self.arms_timer {
            return;
        }
        let interest = &self.entry.interest;
        if let (true, Some(interest)) = (has_changes, interest) {
            interest.send_replace(self.entry.revision);
        }
        if (interest.is_some() || self.inner.needs_timer(self.key))
            && let Some(at) = self.record().next_lapse(self.now)
        {
            self.inner.timer.arm(at, self.key.clone());
        }
    }

    /// Returns the record of the term that ran before the last change. The record has the end of
    /// that term. If the term continues, it has only the reason for its coming end.
    fn term_to_record(
        &self,
        ended: Option<(TermEnd, Instant)>,
        reason: Option<Box<str>>,
    ) -> Option<TermRecord> {
        let ended = ended.map(|(end, at)| (end, clock::before(self.now.since(at))));
        match ended.is_some() || reason.is_some() {
            true => self.term_record(ended, reason),
            false => None,
        }
    }

    fn term_record(
        &self,
        ended: Option<(TermEnd, UnixMillis)>,
        reason: Option<Box<str>>,
    ) -> Option<TermRecord> {
        let grant = self.record().last_grant()?;
        Some(TermRecord {
            epoch: grant.epoch,
            holder: grant.holder.clone(),
            owner: grant.owner.clone(),
            began_at: grant.granted_at,
            ended,
            reason,
        })
    }

    /// Returns the current state of the lease, as the content of a change.
    fn content(&self) -> Content {
        Content::Lease(self.record().store(self.now).into())
    }

    /// Adds a change that was just made. `running` is the term that ran before it.
    fn push(&mut self, content: Content, cause: Cause, running: Option<Running>) {
        let reason = match &cause {
            Cause::Requested(_, reason) => reason.clone(),
            Cause::Lapsed(_) | Cause::Deleted => None,
        };
        let ended = running.and_then(|running| running.ended(self.record(), self.now));
        if let Some((_, at)) = ended {
            self.entry.recent.end(at);
        }
        if matches!(cause, Cause::Requested(Change::Granted(_), _)) {
            self.entry.recent.begin(self.now);
        }
        let mut term = running.and_then(|_| self.term_to_record(ended, reason));
        if self.inner.term_history.is_none()
            && let Some(term) = term.take()
        {
            // Terms are recorded at once, because in memory nothing is ever undone.
            let past = self.entry.past.get_or_insert_default();
            past.record(term, self.inner.limits.max_history);
        }
        let change = self.change(content, cause, term);
        self.changes.push(change);
    }

    fn change(&self, content: Content, cause: Cause, term: Option<TermRecord>) -> LeaseChange {
        let remaining = self.record().remaining(self.now);
        LeaseChange {
            key: self.key.clone(),
            revision: 0,
            content,
            term: term.map(Box::new),
            cause,
            waiters: self.entry.waiters(),
            remaining_ms: remaining.and_then(LeaseDuration::fixed).map(millis),
        }
    }
}

/// Sends the outcome of a waiting request once `revision` is durable. If the request was abandoned,
/// its own cleanup gives the grant back.
fn deliver(inner: &Inner, revision: u64, reply_to: OutcomeSender, outcome: Outcome) {
    inner.commit_queue.on_durable(revision, move |durable| {
        let _ = reply_to.send(Box::new(durable.map_err(undone).and(outcome)));
    });
}
