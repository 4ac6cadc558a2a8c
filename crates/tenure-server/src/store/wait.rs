//! Acquires that may wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tenure_core::lease::{LeaseId, Operation, Rejection, RequestNumber, Rules, Waiting};
use tenure_core::wire::{Code, LeaseView, Problem, Queued};
use tokio::sync::oneshot;
use tokio::time;

use super::observe::IfMissing;
use super::permit::Permit;
use super::transaction::LeaseTransaction;
use super::{Inner, Store, stopping};
use crate::clock;
use crate::model::LeaseKey;

/// The outcome of a waiting request: a grant, or the refusal of a request that another one replaces.
pub(super) type Outcome = Result<LeaseView, Problem>;

/// Where the outcome of a waiting request is sent, once it is durable.
pub(super) type OutcomeSender = oneshot::Sender<Box<Outcome>>;

/// The outcome of an attempt to acquire.
enum Attempt {
    Granted(LeaseView),
    Waiting(Waiter),
}

impl Store {
    /// Holds the lease, at once or when it is this request's turn.
    pub(crate) async fn acquire(
        &self,
        key: &LeaseKey,
        queued: &Queued,
    ) -> Result<LeaseView, Problem> {
        self.ready()?;
        let may_wait = !queued.wait.is_zero();
        let view = match self.try_acquire(key, queued, may_wait).await? {
            Attempt::Granted(view) => view,
            Attempt::Waiting(waiter) => self.wait(waiter, queued).await?,
        };
        Ok(view.with_lease_id(queued.request.lease_id))
    }

    async fn wait(&self, mut waiter: Waiter, queued: &Queued) -> Outcome {
        let outcome = tokio::select! {
            // If the grant comes at the very moment at which the time is up, it wins.
            biased;
            outcome = waiter.outcome() => outcome,
            () = self.inner.stopping.cancelled() => waiter.give_up().await,
            () = time::sleep(queued.wait) => waiter.give_up().await,
        };
        match outcome {
            Some(outcome) => *outcome,
            None if self.inner.stopping.is_cancelled() => Err(stopping()),
            // The time is up: the answer is as of now.
            None => match self.try_acquire(&waiter.key, queued, false).await? {
                Attempt::Granted(view) => Ok(view),
                Attempt::Waiting(_) => Err(stopping()),
            },
        }
    }

    async fn try_acquire(
        &self,
        key: &LeaseKey,
        queued: &Queued,
        may_wait: bool,
    ) -> Result<Attempt, Problem> {
        let acquire = |transaction: &mut LeaseTransaction<'_>| {
            let operation = Operation::Acquire(queued.request.clone(), clock::wall());
            match transaction.apply(&Rules::NATIVE, &operation, None) {
                Ok(_) => Ok(Attempt::Granted(transaction.view())),
                Err(rejection)
                    if may_wait && rejection.is_transient() && transaction.may_change() =>
                {
                    self.join(transaction, key, queued, &rejection)
                }
                Err(rejection) => Err(Problem::from(&rejection)),
            }
        };
        let seen = self.execute(key, IfMissing::Create, acquire).await?;
        let mut attempt = seen.value.ok_or_else(stopping)??;
        if let Attempt::Granted(view) = &mut attempt {
            view.revision = seen.revision;
        }
        Ok(attempt)
    }

    fn join(
        &self,
        transaction: &mut LeaseTransaction<'_>,
        key: &LeaseKey,
        queued: &Queued,
        rejection: &Rejection,
    ) -> Result<Attempt, Problem> {
        let inner = &self.inner;
        let lease_id = queued.request.lease_id;
        let most = if transaction.waiting().is_waiting(lease_id) {
            // It keeps the position in the queue of the request with this lease id, which gives its
            // own permit back.
            usize::MAX
        } else {
            let (waiters, most) = (
                transaction.waiting().waiting(),
                inner.limits.max_waiters_per_lease,
            );
            if waiters >= most {
                return Err(over_limit("the lease", waiters, most));
            }
            inner.limits.max_waiting
        };
        let permit = Permit::acquire(&inner.waiting, most)
            .map_err(|waiting| over_limit("the store", waiting, most))?;
        let number = inner.waited.fetch_add(1, Ordering::Relaxed);
        let (reply_to, outcome) = oneshot::channel();
        let waiting = Waiting {
            number,
            request: queued.request.clone(),
            reply_to,
        };
        transaction.wait(queued.priority, waiting, || Problem {
            detail: format!("{rejection}; a later request with this lease id waits instead"),
            ..Problem::from(rejection)
        });
        Ok(Attempt::Waiting(Waiter {
            inner: Arc::clone(inner),
            _permit: permit,
            key: key.clone(),
            lease_id,
            number,
            outcome,
            has_outcome: false,
        }))
    }
}

pub(super) fn over_limit(whose: &str, waiting: usize, most: usize) -> Problem {
    Problem::new(
        Code::OverLimit,
        format!("{whose} has {waiting} requests waiting, at most {most} are allowed"),
    )
}

/// One acquire that waits. If it is dropped because its client went away, it leaves the queue, or gives the
/// lease back.
struct Waiter {
    inner: Arc<Inner>,
    _permit: Permit,
    key: LeaseKey,
    lease_id: LeaseId,
    number: RequestNumber,
    outcome: oneshot::Receiver<Box<Outcome>>,
    has_outcome: bool,
}

impl Waiter {
    /// Waits for the outcome; `None` if the store was dropped.
    async fn outcome(&mut self) -> Option<Box<Outcome>> {
        let outcome = (&mut self.outcome).await;
        self.has_outcome = true;
        outcome.ok()
    }

    /// Leaves the queue. If the request has left it already because it was granted or replaced, waits until
    /// that is durable and returns it.
    async fn give_up(&mut self) -> Option<Box<Outcome>> {
        if self.leave() {
            self.has_outcome = true;
            return None;
        }
        self.outcome().await
    }

    /// Leaves the queue. Returns whether the request was in it: if not, an outcome is on its way.
    fn leave(&self) -> bool {
        let mut shard = self.inner.table.lock(&self.key);
        let entry = shard.get_mut(&self.key);
        let left = entry.and_then(|entry| entry.lease.leave(self.lease_id, self.number));
        self.inner.tidy(&mut shard, &self.key);
        left.is_some()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.has_outcome && !self.leave() {
            // Granted at the very moment at which the client went away: this request did not learn of it.
            // Whether the holder knows from another request with the same lease id is for the record to say.
            // If the store is closing, the lease expires.
            let give_back =
                |transaction: &mut LeaseTransaction<'_>| transaction.give_back(self.number);
            let _ = self.inner.transact(&self.key, IfMissing::Refuse, give_back);
        }
    }
}
