//! Changes of one lease under the lock of its shard.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::lease::{
    Applied, Change, Due, Lease, LeaseDuration, Operation, Owner, Priority, Record, Rejection,
    RequestNumber, Rules, Running, TermEnd, Waiting, deletable,
};
use tenure_core::time::millis;
use tenure_core::wire::{Code, LeaseView, Problem};
use tenure_core::{Epoch, Instant, UnixMillis};
use tokio::sync::watch;

use super::observe::{Observation, undone};
use super::wait::{Outcome, OutcomeSender};
use super::{Entry, Inner};
use crate::clock;
use crate::commit_queue::Ticket;
use crate::model::{
    Cause, ChangeSet, Content, Deleted, GrantPath, LeaseChange, LeaseKey, LeaseVersion,
    NAMESPACE_FLOORS_LIMIT, TermRecord, TraceId,
};
use crate::timer::Turn;

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
    /// This is a trial: the lease is a copy that the caller discards.
    is_trial: bool,
    /// The end of the last term that ended in this transaction.
    ended: Option<(TermEnd, Instant)>,
    /// In a trial: a term whose time is over, and whose end no change has recorded.
    unrecorded: Option<TermRecord>,
}

/// A waiting request that was granted the lease.
struct WaiterGrant {
    reply_to: OutcomeSender,
    view: LeaseView,
    /// The position of the grant among the transaction's changes. The first change has number 1.
    change: u64,
    /// The end of the term before, if that term ended in the same transaction.
    after: Option<(TermEnd, Instant)>,
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
            is_trial: false,
            ended: None,
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

    /// Takes the steps that are due, and deletes a lease that is to be forgotten. The turn ends when
    /// they are durable or undone.
    pub(super) fn run_timer(mut self, turn: Option<Turn>) {
        self.settle();
        let forget_at = self.inner.forget_at(self.entry);
        let is_wanted =
            || self.entry.interest.is_some() || self.inner.events.topics.is_lease_watched(self.key);
        if forget_at.is_some_and(|at| at <= self.now) && !is_wanted() {
            // A refused deletion is tried again later.
            let _ = self.delete();
        }
        self.queue_changes();
        if turn.is_some() {
            let (queue, revision) = (&self.inner.commit_queue, self.entry.revision);
            queue.on_durable(revision, |_| drop(turn));
        }
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
        let (namespace, lease) = self.key.names();
        let mut view = LeaseView::of(namespace, lease, record, self.now);
        let granted = record.held(self.now);
        view.granted_at = granted.and_then(|grant| clock::rfc3339(grant.granted_at));
        view.without_store = granted.and_then(clock::without_store);
        view.waiters = self.entry.waiters();
        view
    }

    /// Returns the operation with a time without the store that begins at the last request of the
    /// holder at the earliest, if that request came since the start of the store. A leader may lack
    /// only the answers to its requests.
    pub(super) fn bounded(&self, operation: Operation) -> Operation {
        let Operation::Resume(request, mut of_term, wall) = operation else {
            return operation;
        };
        if let Some(age) = self.last_contact(of_term.epoch) {
            of_term.without_store = of_term.without_store.min(age);
        }
        Operation::Resume(request, of_term, wall)
    }

    /// Returns the time since the last renewal or grant of the term with this epoch. Returns `None`
    /// if it is not known: a store that starts counts all held leases as renewed.
    fn last_contact(&self, epoch: Epoch) -> Option<Duration> {
        let grant = self.record().last_grant()?;
        let duration = grant.duration.fixed()?;
        let age = match self.record().remaining(self.now) {
            Some(remaining) => duration.saturating_sub(remaining.fixed()?),
            None => duration + self.now.since(self.entry.recent.ended()?),
        };
        let is_known = grant.epoch == epoch && age < self.now.since(self.inner.opened_at);
        is_known.then_some(age)
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
        let revision = self.entry.revision;
        if let Some(replaced) = self.entry.wait(priority, waiting) {
            deliver(self.inner, revision, replaced.reply_to, Err(refusal()));
        }
    }

    /// Returns a receiver that is notified of changes of the lease.
    pub(super) fn subscribe(&mut self) -> watch::Receiver<u64> {
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
        let path = self.grant_path(GrantPath::AtOnce);
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
            let is_grant = matches!(applied.change, Change::Granted(_));
            self.push_grant(
                self.content(),
                cause,
                running,
                TraceId::current(),
                is_grant.then_some(path),
            );
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
            self.push(self.content(), cause, running, TraceId::current());
        }
    }

    /// Deletes the lease, except for its greatest epoch and, for some time, the lease ids of its
    /// ended terms.
    pub(super) fn delete(&mut self) -> Result<(), Problem> {
        let (now, last) = (self.now, self.record().last_epoch());
        let (inner, namespace) = (self.inner, self.key.namespace());
        let refused = |rejection| Problem::from(&rejection);
        deletable(self.record(), now).map_err(refused)?;
        let (mut floors, wall) = (inner.floors(), clock::wall());
        floors.merge_passed(wall);
        if !floors.have_room(namespace, last, wall) {
            return Err(too_many_floors(last, wall));
        }
        let floor = floors.of_new(namespace);
        self.lease().delete(floor, now).map_err(refused)?;
        if !self.may_change() {
            return Ok(());
        }
        self.has_changed = true;
        floors.raise(namespace, last);
        drop(floors);
        self.inner.table.deleted.forget_old(now);
        let retired = self.record().retired().collect();
        let deleted = Content::Deleted(Deleted { last, retired });
        self.push(deleted, Cause::Deleted, None, TraceId::current());
        Ok(())
    }

    /// Takes the steps that are due: ends a term whose time is over, and grants a free lease to the
    /// first waiting request.
    fn settle(&mut self) {
        while self.entry.lease.is_due(self.now) {
            let (now, running) = (self.now, self.record().running());
            let path = self.grant_path(GrantPath::Waited);
            // An abandoned request removes itself from the queue.
            let is_gone = |_: &OutcomeSender| false;
            let due = self
                .lease()
                .poll(now, clock::wall(), &Rules::NATIVE, is_gone);
            match due {
                Some(Due::Ended(lapse)) => {
                    self.push(self.content(), Cause::Lapsed(lapse), running, None);
                }
                Some(Due::Granted { to, epoch }) => {
                    let cause = Cause::Requested(Change::Granted(epoch), None);
                    // The grant belongs to the request that waited, not to the request that ended
                    // the term before.
                    let trace = to.reply_to.trace;
                    self.push_grant(self.content(), cause, None, trace, Some(path));
                    self.granted.push(WaiterGrant {
                        reply_to: to.reply_to,
                        view: self.view(),
                        change: self.changes.len() as u64,
                        after: self.ended.take(),
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
            let mut renewal = self.change(self.content(), cause, None, None);
            renewal.revision = self.entry.revision;
            self.inner.events.publish_renewal(renewal);
        }
    }

    /// Queues the changes, sends their grants to waiting requests, and arms the timer. Returns the
    /// ticket of the changes, if there are any.
    fn queue_changes(&mut self) -> Option<Ticket> {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return None;
        }
        let count = changes.len() as u64;
        let before = self.before.take().unwrap_or_else(|| self.entry.version());
        // A release and the grant that follows it are committed together, or undone together.
        let set = ChangeSet {
            before,
            changes,
            ..ChangeSet::default()
        };
        let (last, ticket) = self.inner.commit_queue.append(set);
        self.entry.revision = last;
        for mut grant in std::mem::take(&mut self.granted) {
            grant.view.revision = last - count + grant.change;
            if let Some((end, at)) = grant.after {
                measure_grant(self.inner, last, end, at);
            }
            deliver(self.inner, last, grant.reply_to, Ok(grant.view));
        }
        if let Some(interest) = &self.entry.interest {
            interest.send_replace(last);
        }
        // A renewal that is not a change makes the next step later. The timer then fires too early,
        // and is armed again.
        if let Some(at) = self.inner.next_due(self.entry, self.now) {
            let (timer, hash) = (&self.inner.timer, self.key.hash());
            timer.arm(&mut self.entry.armed, hash, at, self.now);
        }
        ticket
    }

    /// Returns the record of the term that ran before the last change. The record has the end of
    /// that term. If the term continues, it has only the reason for its coming end. If an ended term
    /// continues, the record has no end.
    fn term_to_record(
        &mut self,
        running: Option<Running>,
        reason: Option<Box<str>>,
        is_grant: bool,
    ) -> Option<TermRecord> {
        let Some(running) = running else {
            // A term that continues after its end was recorded replaces that record. A new term has
            // none yet.
            return match is_grant || self.record().running().is_none() {
                true => None,
                false => self.term_record(None, None),
            };
        };
        let ended = running.ended(self.record(), self.now);
        self.ended = ended.or(self.ended);
        if let Some((_, at)) = ended {
            self.entry.recent.end(at);
        }
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
            without_store: grant.without_store.clone(),
        })
    }

    /// Returns the current state of the lease, as the content of a change.
    fn content(&self) -> Content {
        Content::Lease(self.record().store(self.now).into())
    }

    /// Returns the way to a grant to the candidate that asks for the lease now. `usual` is the way
    /// if the lease is not reserved.
    fn grant_path(&self, usual: GrantPath) -> GrantPath {
        match self.record().reserved(self.now) {
            Some(_) => GrantPath::HandedOver,
            None => usual,
        }
    }

    /// Adds a change that was just made. `running` is the term that ran before it, and `trace` the
    /// trace of the request that made it.
    fn push(
        &mut self,
        content: Content,
        cause: Cause,
        running: Option<Running>,
        trace: Option<TraceId>,
    ) {
        self.push_grant(content, cause, running, trace, None);
    }

    /// Adds a change, which began a term if it has a way to a grant.
    fn push_grant(
        &mut self,
        content: Content,
        cause: Cause,
        running: Option<Running>,
        trace: Option<TraceId>,
        grant_path: Option<GrantPath>,
    ) {
        let reason = match &cause {
            Cause::Requested(_, reason) => reason.clone(),
            Cause::Lapsed(_) | Cause::Deleted => None,
        };
        let term = self.term_to_record(running, reason, grant_path.is_some());
        if grant_path.is_some() {
            self.entry.terms += 1;
            self.entry.recent.begin(self.now);
        }
        let mut change = self.change(content, cause, term, trace);
        change.grant_path = grant_path;
        self.changes.push(change);
    }

    fn change(
        &self,
        content: Content,
        cause: Cause,
        term: Option<TermRecord>,
        trace: Option<TraceId>,
    ) -> LeaseChange {
        let remaining = self.record().remaining(self.now);
        LeaseChange {
            key: self.key.clone(),
            revision: 0,
            content,
            term: term.map(Box::new),
            cause,
            grant_path: None,
            waiters: self.entry.waiters(),
            remaining_ms: remaining.and_then(LeaseDuration::fixed).map(millis),
            trace,
        }
    }
}

/// Returns the problem of a deletion for which there is no room.
fn too_many_floors(last: Option<Epoch>, wall: UnixMillis) -> Problem {
    let ahead = last.map_or(0, Epoch::get).saturating_sub(wall.get());
    let detail = format!(
        "the last epoch of the lease is {ahead} ms ahead of the store's clock, and the store already \
         remembers such epochs of deleted leases for {NAMESPACE_FLOORS_LIMIT} namespaces; it can be \
         deleted once the clock has passed one of them"
    );
    Problem::new(Code::OverLimit, detail)
}

/// Records the time from the end of a term until the grant after it is durable.
fn measure_grant(inner: &Inner, revision: u64, end: TermEnd, at: Instant) {
    let (metrics, clock) = (Arc::clone(&inner.metrics), inner.clock);
    inner.commit_queue.on_durable(revision, move |durable| {
        if durable.is_ok() {
            metrics.granted_after(end, clock.now().since(at));
        }
    });
}

/// Sends the outcome of a waiting request once `revision` is durable.
fn deliver(inner: &Inner, revision: u64, reply_to: OutcomeSender, outcome: Outcome) {
    inner.commit_queue.on_durable(revision, move |durable| {
        reply_to.send(durable.map_err(undone).and(outcome));
    });
}
