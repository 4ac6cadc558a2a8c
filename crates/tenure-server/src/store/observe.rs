//! The execution of a request on one lease: the request reads or changes the locked lease, and its
//! answer waits until the state that it saw is durable.

use tenure_core::lease::Record;
use tenure_core::wire::{Code, LeaseView, Problem};

use super::transaction::LeaseTransaction;
use super::wait::OutcomeSender;
use super::{Entry, Inner, Store, failed};
use crate::commit_queue::{CommitFailure, Ticket};
use crate::config::Limits;
use crate::model::LeaseKey;
use crate::table::{Full, Shard};
use crate::timer::Turn;

/// The maximum number of attempts of a request whose answer depends on changes of other requests
/// that are undone. Each attempt waits for one of their commits, so this is not a busy loop. The
/// number is far above the attempts that a renewal needs while dozens of clients try to change the
/// same lease on a full disk; `request_time` ends the request before.
const ATTEMPTS: u32 = 1_000;

/// The result of a request, with the ticket that its answer must wait for.
pub(super) struct Observation<T> {
    /// The result of the request; `None` if the lease does not exist.
    pub(super) value: Option<T>,
    /// The revision of the lease that the request saw.
    pub(super) revision: u64,
    pub(super) ticket: Option<Ticket>,
    /// Whether the request may run again if the state that it saw was undone: the request itself
    /// changed nothing that must be durable.
    pub(super) repeatable: bool,
}

/// The behaviour if the lease does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// Create the lease.
    Create,
    /// Answer that it does not exist.
    Refuse,
}

impl<T> Observation<T> {
    /// Creates the observation of a lease that does not exist. The absence of the lease is durable
    /// unless there is a ticket.
    const fn of_missing(revision: u64, ticket: Option<Ticket>) -> Self {
        Self {
            value: None,
            revision,
            ticket,
            repeatable: true,
        }
    }
}

impl Observation<Result<LeaseView, Problem>> {
    /// Returns the view of a lease that must exist, with its revision.
    pub(super) fn into_view(self, key: &LeaseKey) -> Result<LeaseView, Problem> {
        let mut view = self.value.ok_or_else(|| unknown(key))??;
        view.revision = self.revision;
        Ok(view)
    }
}

impl Store {
    /// Runs `request` with a lease immediately. The returned future waits until the state that the
    /// request saw is durable. If that state was undone, it runs the request again: see
    /// [`Inner::retry`].
    pub(super) fn execute<T>(
        &self,
        key: &LeaseKey,
        if_missing: IfMissing,
        mut request: impl FnMut(&mut LeaseTransaction<'_>) -> T,
    ) -> impl Future<Output = Result<Observation<T>, Problem>> {
        let first = self.inner.transact(key, if_missing, &mut request);
        self.answer(first, move || {
            self.inner.retry(key, if_missing, &mut request)
        })
    }

    /// Returns the observation of an attempt once its state is durable. If that state was undone,
    /// it calls `again` for another attempt.
    pub(super) async fn answer<T>(
        &self,
        first: Result<Observation<T>, Problem>,
        mut again: impl FnMut() -> Result<Observation<T>, Problem>,
    ) -> Result<Observation<T>, Problem> {
        let mut seen = first?;
        let mut attempts = 1;
        while let Some(ticket) = self.inner.ticket(&mut seen) {
            // Boxed, because most calls don't wait, and each of them would hold the memory for this
            // future.
            match Box::pin(ticket.durable()).await {
                Ok(()) => break,
                // The attempt saw a change of another request, which was undone. Try again.
                Err(CommitFailure::DiskFull | CommitFailure::Busy)
                    if seen.repeatable && attempts < ATTEMPTS =>
                {
                    attempts += 1;
                    seen = again()?;
                }
                Err(failure) => return Err(undone(failure)),
            }
        }
        // After the look: see `Serving`. A confirmed answer needs no clock.
        if !self.inner.confirms() {
            self.inner.check_serving()?;
        }
        Ok(seen)
    }
}

impl Inner {
    /// Returns the ticket that the answer must wait for. If every answer of this server must be
    /// confirmed, it is the ticket of an append that begins after the look.
    fn ticket<T>(&self, seen: &mut Observation<T>) -> Option<Ticket> {
        match self.confirms() && seen.repeatable {
            true => Some(self.commit_queue.confirm()),
            false => seen.ticket.take(),
        }
    }

    /// Locks the lease and runs `request` with it. The value is `None` if the lease does not exist.
    /// Before and after `request` it takes all due steps: it ends terms, and grants the lease to
    /// waiting requests.
    pub(super) fn transact<T>(
        &self,
        key: &LeaseKey,
        if_missing: IfMissing,
        request: impl FnOnce(&mut LeaseTransaction<'_>) -> T,
    ) -> Result<Observation<T>, Problem> {
        let mut shard = self.table.lock(key);
        self.check_open()?;
        if if_missing == IfMissing::Create && shard.get(key).is_none() {
            check_names(key, self.limits.max_name_bytes)?;
            let floor = self.floors().of_new(key.namespace());
            let now = self.clock.now();
            let entry = |left: Option<Record>| {
                let left = left.unwrap_or_default();
                Entry::new(left.deleted(floor, now), 0)
            };
            let made = self.table.make(&mut shard, key, &self.limits, entry);
            made.map_err(|full| over_limit(key, full, &self.limits))?;
        }
        let Some(entry) = shard.get_mut(key) else {
            return Ok(Observation::of_missing(0, None));
        };
        let seen = if entry.is_known() || if_missing == IfMissing::Create {
            LeaseTransaction::begin(self, key, entry).run(request)
        } else {
            let ticket = self.commit_queue.ticket(entry.revision);
            Observation::of_missing(entry.revision, ticket)
        };
        entry.drop_idle_interest();
        if entry.is_vacant(self.commit_queue.durable()) {
            self.tidy(&mut shard, key);
        }
        Ok(seen)
    }

    /// Locks the lease and runs `request` with a copy of its durable state at the current time. It
    /// is for requests that depended on changes that were undone. The result does not need to wait
    /// for a commit. It is an answer only if it is `repeatable`: otherwise the request would change
    /// the lease.
    ///
    /// Changes that are not durable yet are skipped. They may become durable or be undone; no
    /// client has received them, so the answer is that of the moment before them.
    ///
    /// A term whose time is over is shown as ended, although its end is not on disk. This grants
    /// nothing: a grant is a change, and the lease itself does not change. The answer has the
    /// revision of the last durable change, because the end has no revision yet; a poll for a later
    /// revision continues to wait. If the store restarts before the end is written, the lease
    /// counts as renewed, as after every restart. The same term may then be seen again under the
    /// same epoch, and no other candidate held the lease meanwhile.
    pub(super) fn read_durable<T>(
        &self,
        key: &LeaseKey,
        request: impl FnOnce(&mut LeaseTransaction<'_>) -> T,
    ) -> Result<Observation<T>, Problem> {
        let mut shard = self.table.lock(key);
        self.check_open()?;
        let Some(entry) = shard.get_mut(key) else {
            return Ok(Observation::of_missing(0, None));
        };
        let durable = self.commit_queue.last_durable(key);
        let durable = durable.unwrap_or_else(|| entry.version());
        let current = entry.lease.record().clone();
        entry.lease.restore(durable.record);
        let seen = match entry.is_known() {
            true => LeaseTransaction::begin(self, key, entry).run_trial(request, durable.revision),
            false => Observation::of_missing(durable.revision, None),
        };
        entry.lease.restore(current);
        entry.drop_idle_interest();
        Ok(seen)
    }

    /// Runs `request` again, because the state that it saw was undone. If the request only reads,
    /// or the durable state refuses it, the result is the answer, and no change is tried.
    ///
    /// Such a refusal stays correct even if the changes that are not durable yet become durable: it
    /// is the answer at the moment before them. A refusal may depend on the end of a term whose
    /// time is over. That end may not be on disk, and a restart then forgets it. But then the lease
    /// counts as renewed for the same holder, so the refusal took nothing from another candidate.
    pub(super) fn retry<T>(
        &self,
        key: &LeaseKey,
        if_missing: IfMissing,
        mut request: impl FnMut(&mut LeaseTransaction<'_>) -> T,
    ) -> Result<Observation<T>, Problem> {
        let tried = self.read_durable(key, &mut request)?;
        let is_missing = tried.value.is_none() && if_missing == IfMissing::Create;
        match tried.repeatable && !is_missing {
            true => Ok(tried),
            false => self.transact(key, if_missing, request),
        }
    }

    /// Takes the steps of a lease that is due. An end for which no request waits first needs a turn.
    pub(super) fn tick(&self, hash: u64, turn: Option<Turn>) {
        let mut shard = self.table.lock_hash(hash);
        // The lease may have been removed meanwhile.
        let Some((key, entry)) = shard.get_by_hash(hash) else {
            return;
        };
        #[cfg(test)]
        super::tests::panic_if_planted(&key);
        let now = self.clock.now();
        entry.drop_idle_interest();
        if let Some(at) = entry.lease.record().lapsed_at(now)
            && entry.interest.is_none()
            && turn.is_none()
        {
            return self.timer.postpone(&mut entry.armed, hash, at);
        }
        if self.check_open().is_ok() {
            LeaseTransaction::begin(self, &key, entry).run_timer(turn);
        }
        let over = entry.lease.forget_places(now);
        for at in over.into_iter().chain(entry.lease.record().next_lapse(now)) {
            self.timer.arm(&mut entry.armed, hash, at, now);
        }
        self.tidy(&mut shard, &key);
    }

    /// Frees memory that a lease no longer needs after a request or a client has left it.
    pub(super) fn tidy(&self, shard: &mut Shard<OutcomeSender>, key: &LeaseKey) {
        let Some(entry) = shard.get_mut(key) else {
            return;
        };
        entry.drop_idle_interest();
        let armed = entry.armed;
        if self.table.tidy(shard, key, self.commit_queue.durable()) {
            self.timer.forget(armed, key.hash());
        }
    }
}

fn check_names(key: &LeaseKey, most: usize) -> Result<(), Problem> {
    for (what, name) in [("namespace", key.namespace()), ("lease", key.lease())] {
        let bytes = name.len();
        if bytes > most {
            let detail =
                format!("the name of {what} {name} has {bytes} bytes, at most {most} are allowed");
            return Err(Problem::new(Code::InvalidName, detail));
        }
    }
    Ok(())
}

fn over_limit(key: &LeaseKey, full: Full, limits: &Limits) -> Problem {
    let namespace = key.namespace();
    let detail = match full {
        Full::Leases(count) => format!(
            "namespace {namespace} has {count} leases, at most {} are allowed",
            limits.max_leases_per_namespace
        ),
        Full::Namespaces(count) => format!(
            "the store has {count} namespaces, at most {} are allowed, and {namespace} is not one of them",
            limits.max_namespaces
        ),
    };
    Problem::new(Code::OverLimit, detail)
}

pub(super) fn unknown(key: &LeaseKey) -> Problem {
    Problem::new(
        Code::UnknownLease,
        format!("namespace {} has no lease {}", key.namespace(), key.lease()),
    )
}

/// Returns the problem for a request whose change was undone.
pub(super) fn undone(failure: CommitFailure) -> Problem {
    match failure {
        CommitFailure::DiskFull => Problem::new(
            Code::DiskFull,
            "the store's disk is full, so the change was undone; renewals still work",
        ),
        CommitFailure::Busy => Problem::new(
            Code::HomeUnavailable,
            "the store could not write the change now, so it was undone; the log of the store names the \
             cause",
        ),
        CommitFailure::NotOwner => Problem::new(
            Code::NotActive,
            "another server of the cluster is active; it may have the change",
        ),
        CommitFailure::Failed => failed(),
    }
}
