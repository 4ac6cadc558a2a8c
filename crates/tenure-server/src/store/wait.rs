//! Acquires that may wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tenure_core::lease::{LeaseId, Operation, Owner, Rejection, RequestNumber, Rules, Waiting};
use tenure_core::wire::{Code, LeaseView, Problem, Queued};
use tokio::sync::oneshot;
use tokio::time;

use super::observe::IfMissing;
use super::operate::{at, not_kept};
use super::transaction::LeaseTransaction;
use super::{Inner, Store, stopping};
use crate::clock;
use crate::commit_queue::CommitFailure;
use crate::model::LeaseKey;

/// The outcome of a waiting request, sent once it is durable.
#[derive(Debug)]
pub(super) enum WaitOutcome {
    /// It holds the lease.
    Granted(Box<LeaseView>),
    /// A later request with the same lease id waits instead.
    Replaced(Box<Problem>),
}

/// Where the outcome of a waiting request is sent.
pub(super) type OutcomeSender = oneshot::Sender<Result<WaitOutcome, CommitFailure>>;

/// The outcome of an attempt to acquire.
enum Attempt {
    Granted(LeaseView),
    Refused(Problem),
    Waiting(Waiter),
}

impl Store {
    /// Holds the lease for this principal, at once or when it is this request's turn.
    pub(crate) async fn acquire_as(
        &self,
        owner: Option<&Owner>,
        key: &LeaseKey,
        queued: &Queued,
    ) -> Result<LeaseView, Problem> {
        self.ready()?;
        let view = match self
            .try_acquire(owner, key, queued, !queued.wait.is_zero())
            .await?
        {
            Attempt::Granted(view) => view,
            Attempt::Refused(problem) => return Err(problem),
            Attempt::Waiting(waiter) => self.wait(owner, waiter, queued).await?,
        };
        Ok(view.with_lease_id(queued.request.lease_id))
    }

    async fn wait(
        &self,
        owner: Option<&Owner>,
        mut waiter: Waiter,
        queued: &Queued,
    ) -> Result<LeaseView, Problem> {
        let outcome = tokio::select! {
            // If the grant comes at the very moment at which the time is up, it wins.
            biased;
            outcome = waiter.outcome() => outcome,
            () = self.inner.stopping.cancelled() => waiter.give_up().await,
            () = time::sleep(queued.wait) => waiter.give_up().await,
        };
        match outcome {
            Some(Ok(WaitOutcome::Granted(view))) => Ok(*view),
            Some(Ok(WaitOutcome::Replaced(problem))) => Err(*problem),
            Some(Err(failure)) => Err(not_kept(failure)),
            None if self.inner.is_stopping() => Err(stopping()),
            // The time is up: the answer is as of now.
            None => match self.try_acquire(owner, &waiter.key, queued, false).await? {
                Attempt::Granted(view) => Ok(view),
                Attempt::Refused(problem) => Err(problem),
                Attempt::Waiting(_) => Err(stopping()),
            },
        }
    }

    async fn try_acquire(
        &self,
        owner: Option<&Owner>,
        key: &LeaseKey,
        queued: &Queued,
        may_wait: bool,
    ) -> Result<Attempt, Problem> {
        let operation = || Operation::Acquire(queued.request.clone(), clock::wall());
        let waits = |rejection: &Rejection| may_wait && rejection.is_transient();
        let acquire = |transaction: &mut LeaseTransaction<'_>| match transaction.apply(
            owner,
            &operation(),
            None,
        ) {
            Ok(_) => Attempt::Granted(transaction.view()),
            Err(rejection) if waits(&rejection) => {
                self.join(transaction, (key, owner), queued, &rejection)
            }
            Err(rejection) => Attempt::Refused((&rejection).into()),
        };
        let refuse = |transaction: &LeaseTransaction<'_>| {
            let rejection = transaction.refusal(&Rules::NATIVE, owner, &operation())?;
            (!waits(&rejection)).then(|| Attempt::Refused((&rejection).into()))
        };
        let mut is_first = true;
        let attempt = || {
            let seen = if std::mem::take(&mut is_first) {
                self.inner.transact(key, IfMissing::Create, acquire)?
            } else {
                self.inner.retry(key, IfMissing::Create, acquire, refuse)?
            };
            // The lease was made if it was missing.
            let mut seen = seen.map(|value| value.unwrap_or_else(|| Attempt::Refused(stopping())));
            // A request that waits answers nothing yet.
            seen.ticket = seen
                .ticket
                .filter(|_| !matches!(seen.value, Attempt::Waiting(_)));
            Ok(seen)
        };
        let seen = self.answer(attempt).await?;
        Ok(match seen.value {
            Attempt::Granted(view) => Attempt::Granted(at(view, seen.revision)),
            other => other,
        })
    }

    fn join(
        &self,
        transaction: &mut LeaseTransaction<'_>,
        (key, owner): (&LeaseKey, Option<&Owner>),
        queued: &Queued,
        rejection: &Rejection,
    ) -> Attempt {
        let lease_id = queued.request.lease_id;
        let permit = if transaction.waiting().is_waiting(lease_id, owner) {
            // The same lease id keeps its place in the queue and makes no new one.
            WaitPermit::replacing(&self.inner)
        } else {
            let waiters = transaction.waiting().waiting();
            let most = self.inner.limits.max_waiters_per_lease;
            if waiters >= most {
                return Attempt::Refused(over_limit("the lease", waiters, most));
            }
            match WaitPermit::acquire(&self.inner) {
                Ok(permit) => permit,
                Err(problem) => return Attempt::Refused(problem),
            }
        };
        let number = self.inner.waited.fetch_add(1, Ordering::Relaxed);
        let (reply_to, outcome) = oneshot::channel();
        let waiting = Waiting {
            number,
            request: queued.request.clone(),
            owner: owner.cloned(),
            reply_to,
        };
        transaction.wait(queued.priority, waiting, || {
            let problem = Problem {
                detail: format!("{rejection}; a later request with this lease id waits instead"),
                ..Problem::from(rejection)
            };
            WaitOutcome::Replaced(problem.into())
        });
        Attempt::Waiting(Waiter {
            permit,
            key: key.clone(),
            lease_id,
            number,
            outcome,
            has_outcome: false,
        })
    }
}

fn over_limit(whose: &str, waiting: usize, most: usize) -> Problem {
    Problem::new(
        Code::OverLimit,
        format!("{whose} has {waiting} requests waiting, at most {most} are allowed"),
    )
}

/// The right to wait: the store has a limited number of them.
pub(super) struct WaitPermit {
    pub(super) inner: Arc<Inner>,
}

impl WaitPermit {
    pub(super) fn acquire(inner: &Arc<Inner>) -> Result<Self, Problem> {
        let most = inner.limits.max_waiting;
        let one_more = |waiting| (waiting < most).then_some(waiting + 1);
        let waiting = &inner.waiting;
        match waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Self {
                inner: Arc::clone(inner),
            }),
            Err(waiting) => Err(over_limit("the store", waiting, most)),
        }
    }

    /// For a request that replaces a waiting one, which then gives its own permit back.
    fn replacing(inner: &Arc<Inner>) -> Self {
        inner.waiting.fetch_add(1, Ordering::Relaxed);
        Self {
            inner: Arc::clone(inner),
        }
    }
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        self.inner.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One acquire that waits. If it is dropped because its client went away, it leaves the queue, or gives the
/// lease back.
struct Waiter {
    permit: WaitPermit,
    key: LeaseKey,
    lease_id: LeaseId,
    number: RequestNumber,
    outcome: oneshot::Receiver<Result<WaitOutcome, CommitFailure>>,
    has_outcome: bool,
}

impl Waiter {
    /// Waits for the outcome; `None` if the store was dropped.
    async fn outcome(&mut self) -> Option<Result<WaitOutcome, CommitFailure>> {
        let outcome = (&mut self.outcome).await;
        self.has_outcome = true;
        outcome.ok()
    }

    /// Leaves the queue. If the request has left it already because it was granted or replaced, waits until
    /// that is durable and returns it.
    async fn give_up(&mut self) -> Option<Result<WaitOutcome, CommitFailure>> {
        if self.leave() {
            self.has_outcome = true;
            return None;
        }
        self.outcome().await
    }

    /// Leaves the queue. Returns whether the request was in it: if not, an outcome is on its way.
    fn leave(&self) -> bool {
        let inner = &self.permit.inner;
        let mut shard = inner.table.lock(&self.key);
        let Some(entry) = shard.get_mut(&self.key) else {
            return false;
        };
        let has_left = entry.lease.leave(self.lease_id, self.number).is_some();
        entry.drop_idle_interest();
        let durable = inner.commit_queue.durable();
        inner.table.tidy(&mut shard, &self.key, durable);
        has_left
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.has_outcome && !self.leave() {
            // Granted at the very moment at which the client went away: this request did not learn of it.
            // Whether the holder knows from another request with the same lease id is for the record to say.
            // If the store is closing, the lease expires.
            let inner = &self.permit.inner;
            let _ = inner.transact(&self.key, IfMissing::Refuse, |transaction| {
                transaction.give_back(self.number);
            });
        }
    }
}
