//! What is done to one lease under its shard's lock.

use tenure_core::lease::{
    Applied, Change as LeaseChange, Due, Operation, Record, Rejection, Remaining, RequestNumber,
    Rules, Running, Stored, Waiting, apply,
};
use tenure_core::time::millis;
use tenure_core::wire::{Code, LeaseView, Problem};
use tenure_core::{Epoch, Instant, UnixMillis};
use tokio::sync::oneshot;

use super::{Event, Inner};
use crate::clock;
use crate::config::Limits;
use crate::engine::{Content, Deleted, Retired, Term, Write};
use crate::journal::{Before, Change, Step, Ticket};
use crate::table::{Entry, Full, Key, Reply};

/// What was seen or done, and what to wait for before it may be told.
pub(super) struct Seen<T> {
    pub(super) value: T,
    /// The lease's revision as it was seen.
    pub(super) revision: u64,
    pub(super) ticket: Option<Ticket>,
    /// Whether it did nothing that must be durable: then it may be done again if what it rested on
    /// was undone.
    pub(super) repeatable: bool,
}

impl<T> Seen<Option<T>> {
    const NOTHING: Self = Self {
        value: None,
        revision: 0,
        ticket: None,
        repeatable: true,
    };
}

/// What to do with a lease that nobody acquired.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// Make it.
    Make,
    /// Tell that it is not there.
    Refuse,
}

/// One lease, locked, and the steps it takes.
pub(super) struct Work<'a> {
    inner: &'a Inner,
    key: &'a Key,
    pub(super) entry: &'a mut Entry,
    pub(super) now: Instant,
    before: Option<Before>,
    steps: Vec<Step>,
    granted: Vec<ToTell>,
    /// Whether a step is the request's own doing.
    asked: bool,
    /// Whether the timer looks, and not a request.
    timed: bool,
    /// The term whose end by time is shown but is no step.
    unwritten: Option<Term>,
}

/// A request that waited and was granted the lease.
struct ToTell {
    number: RequestNumber,
    reply_to: oneshot::Sender<Reply>,
    view: Box<LeaseView>,
    step: usize,
}

impl Inner {
    /// Locks the lease and lets `work` be done on it, or returns `None` if there is no lease. Requests
    /// that wait are served before and after.
    pub(super) fn work<T>(
        &self,
        key: &Key,
        unknown: Unknown,
        work: impl FnOnce(&mut Work<'_>) -> T,
    ) -> Result<Seen<Option<T>>, Problem> {
        let mut shard = self.table.lock(key);
        self.check_open()?;
        if unknown == Unknown::Make && shard.get(key).is_none() {
            check_names(key, self.limits.max_name_bytes)?;
            let (floor, now) = (self.floor(), self.clock.now());
            let entry = |left: Option<Record>| {
                let left = left.unwrap_or_default();
                Entry::new(left.deleted(floor, now), 0)
            };
            let made = self.table.make(&mut shard, key, &self.limits, entry);
            made.map_err(|full| over_limit(key, full, &self.limits))?;
        }
        let Some(entry) = shard.get_mut(key) else {
            return Ok(Seen::NOTHING);
        };
        let mut seen = Seen {
            value: None,
            revision: entry.revision,
            ticket: None,
            repeatable: true,
        };
        if entry.is_known() || unknown == Unknown::Make {
            let mut step = Work::new(self, key, entry);
            step.serve();
            seen.value = Some(work(&mut step));
            seen.repeatable = !step.asked;
            let steps_seen = step.steps.len();
            step.serve();
            let first = step.finish();
            if steps_seen > 0 {
                seen.revision = first + steps_seen as u64 - 1;
            }
        }
        seen.ticket = self.journal.ticket(entry.revision);
        entry.drop_idle_interest();
        if entry.is_vacant(self.journal.durable()) {
            self.table.tidy(&mut shard, key, self.journal.durable());
        }
        Ok(seen)
    }

    /// Locks the lease and lets `look` look at what is durable of it, as time has it, without a step. The
    /// answer need not wait: it is for those whose steps, or others' that they rested on, were undone.
    ///
    /// Steps that are not durable yet are passed over. They may become durable or be undone; nobody was
    /// told of them, so the answer is that of the moment before them.
    ///
    /// A term that time has ended is shown as ended though no disk knows of it. That grants nothing:
    /// a grant is a step, and the lease stays as it was. The answer carries the revision of the last
    /// durable step, because the end has none yet; a poll for a later one goes on waiting. If the
    /// store restarts before the end is written, the lease counts as renewed, as ever: the same
    /// term may be seen again, under the same epoch, and nobody else had it meanwhile.
    pub(super) fn look_at<T>(
        &self,
        key: &Key,
        look: impl FnOnce(&mut Work<'_>) -> T,
    ) -> Result<Seen<Option<T>>, Problem> {
        let mut shard = self.table.lock(key);
        self.check_open()?;
        let Some(entry) = shard.get_mut(key) else {
            return Ok(Seen::NOTHING);
        };
        let durable = self.journal.last_durable(key);
        let durable = durable.unwrap_or_else(|| Before::of(entry));
        let as_it_is = entry.lease.record().clone();
        entry.lease.restore(durable.record);
        let mut value = None;
        if entry.is_known() {
            let mut work = Work::new(self, key, entry);
            work.unwritten = work.running_term();
            let mut ended = work.entry.lease.record().clone();
            ended.settle(work.now);
            work.entry.lease.restore(ended);
            value = Some(look(&mut work));
        }
        entry.lease.restore(as_it_is);
        entry.drop_idle_interest();
        Ok(Seen {
            value,
            revision: durable.revision,
            ticket: None,
            repeatable: true,
        })
    }

    /// Does `work` again, because what it rested on was undone; but if `refuse` refuses it by what is
    /// durable, that is the answer, and no step is tried.
    ///
    /// Such a refusal stays true whatever becomes of the steps that are not durable yet: it is of the
    /// moment before them. The end of a term by time may be unwritten and be forgotten by a restart, but
    /// then the lease counts as renewed for the same holder: the refusal took nothing from anybody else.
    pub(super) fn work_again<T>(
        &self,
        key: &Key,
        unknown: Unknown,
        work: impl FnOnce(&mut Work<'_>) -> T,
        refuse: impl FnOnce(&Work<'_>) -> Option<T>,
    ) -> Result<Seen<Option<T>>, Problem> {
        let seen = self.look_at(key, |work| refuse(work))?;
        match (seen.value, unknown) {
            (Some(None), _) | (None, Unknown::Make) => self.work(key, unknown, work),
            (refused, _) => Ok(Seen {
                value: refused.flatten(),
                revision: seen.revision,
                ticket: None,
                repeatable: true,
            }),
        }
    }

    /// Looks at a lease because time may have changed it, or nobody may wait for it any more; and says
    /// when to look again, if somebody waits for it or watches it.
    pub(super) fn look(&self, key: &Key) {
        let mut shard = self.table.lock(key);
        if let Some(entry) = shard.get_mut(key) {
            entry.drop_idle_interest();
            let needs_timer = entry.interest.is_some() || self.needs_timer(key);
            if self.check_open().is_ok() && needs_timer {
                if let Some(interest) = &mut entry.interest {
                    interest.armed = None;
                }
                let mut step = Work::new(self, key, entry);
                step.timed = true;
                step.serve();
                step.finish();
                entry.drop_idle_interest();
            }
            self.table.tidy(&mut shard, key, self.journal.durable());
        }
    }
}

impl<'a> Work<'a> {
    fn new(inner: &'a Inner, key: &'a Key, entry: &'a mut Entry) -> Self {
        Self {
            inner,
            key,
            // Read under the lock: what is done to one lease is in order of its instants.
            now: inner.clock.now(),
            entry,
            before: None,
            steps: Vec::new(),
            granted: Vec::new(),
            asked: false,
            timed: false,
            unwritten: None,
        }
    }

    /// Does all that is due: ends a term that time has ended, and grants a free lease to the first
    /// request that waits.
    fn serve(&mut self) {
        while self.entry.lease.is_due(self.now) {
            self.remember();
            let running = self.entry.lease.record().running();
            let is_gone = oneshot::Sender::is_closed;
            let lease = &mut self.entry.lease;
            match lease.poll(self.now, clock::wall(), &Rules::NATIVE, is_gone) {
                Some(Due::Ended(lapse)) => {
                    let term = self.to_note(running, None);
                    self.push(Event::Lapsed(lapse), term);
                }
                Some(Due::Granted { to, epoch }) => self.hand_to(to, epoch),
                None => return,
            }
        }
    }

    /// Does what is asked for.
    pub(super) fn apply(
        &mut self,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<Applied, Rejection> {
        self.apply_by(&Rules::NATIVE, operation, reason)
    }

    /// Does what is asked for, by these rules.
    pub(super) fn apply_by(
        &mut self,
        rules: &Rules,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<Applied, Rejection> {
        let running = self.entry.lease.record().running();
        // These two never change anything that must be durable, so there is nothing to undo; but for
        // a renewal that brings a term back which time has ended, where the rules have that.
        let changes_nothing = matches!(operation, Operation::Renew(_, None) | Operation::Verify(_))
            && (running.is_some() || !rules.renew_after_expiry);
        if !changes_nothing {
            self.remember();
        }
        let applied = self.entry.lease.apply(operation, self.now, rules)?;
        // A break that moves nothing may be the first to say why: that is kept, too.
        let says_why = reason.is_some() && matches!(applied.change, LeaseChange::Breaking(_));
        if applied.durable || says_why {
            self.asked = true;
            self.push_asked(&applied, running, reason.map(String::into_boxed_str));
        } else if matches!(applied.change, LeaseChange::Renewed(_)) {
            self.tell_renewal(&applied.change);
        }
        Ok(applied)
    }

    /// Gives a grant back that the waiting request of this number never heard of, if nothing has
    /// happened to the lease since.
    pub(super) fn give_back(&mut self, number: RequestNumber) {
        self.remember();
        let running = self.entry.lease.record().running();
        if let Some(released) = self.entry.lease.give_back(number, self.now) {
            self.push_asked(&released, running, None);
        }
    }

    fn push_asked(
        &mut self,
        applied: &Applied,
        running: Option<Running>,
        reason: Option<Box<str>>,
    ) {
        let term = self.to_note(running, reason.clone());
        self.push(Event::Asked(applied.change.clone(), reason), term);
    }

    /// Why this operation would be refused now, if it would be. Nothing changes.
    pub(super) fn refusal(&self, rules: &Rules, operation: &Operation) -> Option<Rejection> {
        let mut record = self.entry.lease.record().clone();
        apply(&mut record, operation, self.now, rules).err()
    }

    /// What the steps of the lease wait for that are not durable yet.
    pub(super) fn in_flight(&self) -> Option<Ticket> {
        self.inner.journal.ticket(self.entry.revision)
    }

    /// A renewal is no step, and told only to those who asked for it.
    fn tell_renewal(&self, change: &LeaseChange) {
        // With a step before it, it rests on what has no revision yet.
        if self.inner.events.wants_renewals(self.key) && self.steps.is_empty() {
            let stored = self.entry.lease.record().store(self.now);
            let content = Content::Lease(stored.into());
            let mut step = self.step(content, Event::Asked(change.clone(), None), None);
            step.write.revision = self.entry.revision;
            self.inner.events.publish_renewal(step);
        }
    }

    /// Forgets the lease, but for the greatest epoch and, for a while, the ids of its ended terms.
    pub(super) fn delete(&mut self) -> Result<(), Rejection> {
        self.remember();
        let last = self.entry.lease.record().last_epoch();
        self.entry.lease.delete(self.inner.floor(), self.now)?;
        self.asked = true;
        let above = last.map_or(0, |last| last.get() + 1);
        self.inner
            .floor
            .fetch_max(above, std::sync::atomic::Ordering::Relaxed);
        self.entry.past = None;
        self.inner.table.forget_old(self.now);
        let retired = self.entry.lease.record().retired().collect();
        let deleted = Content::Deleted(Deleted { last, retired });
        self.push_content(deleted, None, Event::Deleted, None);
        Ok(())
    }

    fn hand_to(&mut self, waiting: Waiting<oneshot::Sender<Reply>>, epoch: Epoch) {
        let step = self.steps.len();
        self.push(Event::Asked(LeaseChange::Granted(epoch), None), None);
        self.granted.push(ToTell {
            number: waiting.number,
            reply_to: waiting.reply_to,
            view: view(self.key, self.entry, self.now).into(),
            step,
        });
    }

    /// The lease as everybody may see it now. Its revision is told with what was [`Seen`].
    pub(super) fn view(&self) -> LeaseView {
        view(self.key, self.entry, self.now)
    }

    /// Puts the steps into the journal and tells those who wait. Returns the first step's revision.
    fn finish(mut self) -> u64 {
        let mut first_of_all = None;
        while !self.steps.is_empty() {
            let steps = std::mem::take(&mut self.steps);
            let count = steps.len() as u64;
            let before = self.before.take();
            let before = before.unwrap_or_else(|| Before::of(self.entry));
            let key = self.key.clone();
            // A release and the grant to the next are one change: one commit, or undone together.
            let last = self.inner.journal.append(Change { key, before, steps });
            let first = last + 1 - count;
            first_of_all.get_or_insert(first);
            self.entry.revision = last;
            for number in self.tell_granted(first) {
                // Its client went away at this very moment. The next request is served at once.
                self.give_back(number);
                self.serve();
            }
        }
        let revision = self.entry.revision;
        let Entry {
            lease, interest, ..
        } = self.entry;
        let next = || lease.record().next_lapse(self.now);
        if let Some(interest) = interest {
            if first_of_all.is_some() {
                interest.changed.send_replace(revision);
            }
            if let Some(at) = next()
                && interest.armed.is_none_or(|armed| at < armed)
            {
                interest.armed = Some(at);
                self.inner.timer.arm(at, self.key.clone());
            }
        }
        // Not at renewals: the timer then looks too early, and arms itself again.
        if (first_of_all.is_some() || self.timed)
            && self.inner.needs_timer(self.key)
            && let Some(at) = next()
        {
            self.inner.timer.arm(at, self.key.clone());
        }
        first_of_all.unwrap_or(revision)
    }

    /// Answers the requests that were granted. Returns the numbers of those that were given up.
    fn tell_granted(&mut self, first_revision: u64) -> Vec<RequestNumber> {
        let ticket = self.inner.journal.ticket(self.entry.revision);
        let mut gone = Vec::new();
        for mut told in self.granted.drain(..) {
            told.view.revision = first_revision + told.step as u64;
            let reply = Reply::Granted(told.view, ticket.clone());
            if told.reply_to.send(reply).is_err() {
                gone.push(told.number);
            }
        }
        gone
    }

    /// Keeps the lease as it is before its first step, for undoing.
    fn remember(&mut self) {
        if self.before.is_none() {
            self.before = Some(Before::of(self.entry));
        }
    }

    /// The term that no step has ended; its time may be over.
    pub(super) fn running_term(&self) -> Option<Term> {
        if self.unwritten.is_some() {
            return self.unwritten.clone();
        }
        self.entry.lease.record().running()?;
        let grant = self.entry.lease.record().last_grant()?;
        Some(Term {
            epoch: grant.epoch,
            holder: grant.holder.clone(),
            began_at: grant.granted_at,
            ended: None,
            reason: None,
        })
    }

    /// What the last step leaves to be noted of the term that was running before it: its end. If it
    /// goes on, only what somebody has said of why it is to end.
    fn to_note(&self, running: Option<Running>, reason: Option<Box<str>>) -> Option<Term> {
        let ended = running?.ended(self.entry.lease.record(), self.now);
        if ended.is_none() && reason.is_none() {
            return None;
        }
        let ended = ended.map(|(end, at)| {
            let ago = millis(self.now.since(at));
            (
                end,
                UnixMillis::new(clock::wall().get().saturating_sub(ago)),
            )
        });
        let grant = self.entry.lease.record().last_grant()?;
        Some(Term {
            epoch: grant.epoch,
            holder: grant.holder.clone(),
            began_at: grant.granted_at,
            ended,
            reason,
        })
    }

    fn push(&mut self, event: Event, term: Option<Term>) {
        let stored = self.entry.lease.record().store(self.now);
        let retired = self.newly_retired(&stored);
        self.push_content(Content::Lease(stored.into()), retired, event, term);
    }

    /// How the last step changed the retired ids, for an engine if there is one.
    fn newly_retired(&self, stored: &Stored) -> Option<Retired> {
        self.inner.archive.as_ref()?;
        match self.steps.last().map(|step| &step.write.content) {
            Some(Content::Lease(before)) => {
                Retired::between(before.retired.iter().copied(), &stored.retired)
            }
            Some(Content::Deleted(_)) => None,
            None => {
                let before = &self.before.as_ref()?.record;
                // A lease that is made has no list yet, whatever is left of one that was deleted.
                before.last_grant()?;
                Retired::between(before.retired(), &stored.retired)
            }
        }
    }

    fn push_content(
        &mut self,
        content: Content,
        retired: Option<Retired>,
        event: Event,
        mut term: Option<Term>,
    ) {
        if self.inner.archive.is_none()
            && let Some(term) = term.take()
        {
            // Nothing is ever undone that no engine keeps.
            let past = self.entry.past.get_or_insert_default();
            past.note(term, self.inner.limits.max_history);
        }
        let mut step = self.step(content, event, term);
        step.write.retired = retired;
        self.steps.push(step);
    }

    fn step(&self, content: Content, event: Event, term: Option<Term>) -> Step {
        let remaining_ms = match self.entry.lease.record().remaining(self.now) {
            Some(Remaining::Time(time)) => u64::try_from(time.as_millis()).ok(),
            Some(Remaining::Forever) | None => None,
        };
        Step {
            write: Write {
                key: self.key.clone(),
                revision: 0,
                content,
                retired: None,
                term: term.map(Box::new),
            },
            event,
            waiters: self.entry.waiters(),
            remaining_ms,
        }
    }
}

fn check_names(key: &Key, most: usize) -> Result<(), Problem> {
    let names = [("namespace", key.namespace()), ("lease", key.lease())];
    match names.into_iter().find(|(_, name)| name.len() > most) {
        None => Ok(()),
        Some((what, name)) => Err(Problem::new(
            Code::InvalidName,
            format!(
                "the name of {what} {name} has {} bytes, at most {most} are taken",
                name.len()
            ),
        )),
    }
}

fn over_limit(key: &Key, full: Full, limits: &Limits) -> Problem {
    let namespace = key.namespace();
    let detail = match full {
        Full::Leases(count) => {
            let most = limits.max_leases_per_namespace;
            format!("namespace {namespace} has {count} leases, at most {most} are taken")
        }
        Full::Namespaces(count) => {
            let most = limits.max_namespaces;
            format!(
                "the store has {count} namespaces, at most {most} are taken, and {namespace} is none of them"
            )
        }
    };
    Problem::new(Code::OverLimit, detail)
}

fn view(key: &Key, entry: &Entry, now: Instant) -> LeaseView {
    let mut view = LeaseView::of(key.namespace(), key.lease(), entry.lease.record(), now);
    let granted = entry.lease.record().held(now);
    view.granted_at = granted.and_then(|grant| clock::rfc3339(grant.granted_at));
    view.waiters = entry.waiters();
    view
}
