//! Acquires that may wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tenure_core::lease::{LeaseId, Operation, Rejection, RequestNumber, Rules, Waiting};
use tenure_core::wire::{Code, LeaseView, Problem, Queued};
use tokio::sync::oneshot;
use tokio::time;

use super::operate::{at, not_kept};
use super::work::{Seen, Unknown, Work};
use super::{Inner, Store, stopping};
use crate::clock;
use crate::table::{Key, Reply};

/// What came of trying to acquire.
enum Tried {
    Granted(LeaseView),
    Refused(Problem),
    Waiting(Waiter),
}

impl Store {
    /// Holds the lease, at once or when it is this request's turn.
    pub(crate) async fn acquire(&self, key: &Key, queued: &Queued) -> Result<LeaseView, Problem> {
        self.ready()?;
        let tried = self.try_acquire(key, queued, !queued.wait.is_zero());
        let waiter = match tried.await? {
            Ok(view) => return Ok(view.with_lease_id(queued.request.lease_id)),
            Err(waiter) => waiter,
        };
        self.wait(waiter, queued).await
    }

    async fn wait(&self, mut waiter: Waiter, queued: &Queued) -> Result<LeaseView, Problem> {
        let reply = tokio::select! {
            // If the grant comes at the very moment at which the time is up, it wins.
            biased;
            reply = &mut waiter.reply => reply.ok(),
            () = self.inner.stopping.cancelled() => waiter.leave(),
            () = time::sleep(queued.wait) => waiter.leave(),
        };
        match reply {
            Some(Reply::Granted(view, ticket)) => {
                if let Some(ticket) = ticket {
                    ticket.durable_next().await.map_err(not_kept)?;
                }
                Ok(view.with_lease_id(queued.request.lease_id))
            }
            Some(Reply::Replaced(problem, ticket)) => {
                if let Some(ticket) = ticket {
                    ticket.durable().await.map_err(not_kept)?;
                }
                Err(*problem)
            }
            None if self.inner.is_stopping() => Err(stopping()),
            // The time is up: the answer is as of now.
            None => {
                let tried = self.try_acquire(&waiter.key, queued, false);
                match tried.await? {
                    Ok(view) => Ok(view.with_lease_id(queued.request.lease_id)),
                    Err(_) => Err(stopping()),
                }
            }
        }
    }

    async fn try_acquire(
        &self,
        key: &Key,
        queued: &Queued,
        may_wait: bool,
    ) -> Result<Result<LeaseView, Waiter>, Problem> {
        let operation = || Operation::Acquire(queued.request.clone(), clock::wall());
        let waits = |rejection: &Rejection| may_wait && rejection.is_transient();
        let acquire = |work: &mut Work<'_>| match work.apply(&operation(), None) {
            Ok(_) => Tried::Granted(work.view()),
            Err(rejection) if waits(&rejection) => self.join(work, key, queued, &rejection),
            Err(rejection) => Tried::Refused((&rejection).into()),
        };
        let refuse = |work: &Work<'_>| {
            let rejection = work.refusal(&Rules::NATIVE, &operation())?;
            (!waits(&rejection)).then(|| Tried::Refused((&rejection).into()))
        };
        let mut is_first = true;
        let attempt = || {
            let seen = if std::mem::take(&mut is_first) {
                self.inner.work(key, Unknown::Make, acquire)?
            } else {
                self.inner.work_again(key, Unknown::Make, acquire, refuse)?
            };
            // `Unknown::Make` makes one.
            let value = seen.value.unwrap_or_else(|| Tried::Refused(stopping()));
            Ok(Seen {
                // One who waits tells nothing yet.
                ticket: seen.ticket.filter(|_| !matches!(value, Tried::Waiting(_))),
                value,
                revision: seen.revision,
                repeatable: seen.repeatable,
            })
        };
        self.answer(attempt).await?.into_result()
    }

    fn join(
        &self,
        work: &mut Work<'_>,
        key: &Key,
        queued: &Queued,
        rejection: &Rejection,
    ) -> Tried {
        let revision = work.entry.revision;
        let lease_id = queued.request.lease_id;
        let place = if work.entry.lease.is_waiting(lease_id) {
            // The same lease id keeps the place in the queue and makes no new one.
            Place::again(&self.inner)
        } else {
            let waiters = work.entry.lease.waiting();
            let most = self.inner.limits.max_waiters_per_lease;
            if waiters >= most {
                return Tried::Refused(over_limit("the lease", waiters, most));
            }
            match Place::take(&self.inner) {
                Ok(place) => place,
                Err(problem) => return Tried::Refused(problem),
            }
        };
        let number = self.inner.waited.fetch_add(1, Ordering::Relaxed);
        let (reply_to, reply) = oneshot::channel();
        let waiting = Waiting {
            number,
            request: queued.request.clone(),
            reply_to,
        };
        if let Some(replaced) = work.entry.wait(queued.priority, waiting) {
            let ticket = self.inner.journal.ticket(revision);
            let problem = Problem {
                detail: format!("{rejection}; a later request with this lease id waits instead"),
                ..Problem::from(rejection)
            };
            // If nobody listens any more, the better.
            let _ = replaced
                .reply_to
                .send(Reply::Replaced(problem.into(), ticket));
        }
        Tried::Waiting(Waiter {
            place,
            key: key.clone(),
            lease_id,
            number,
            reply,
        })
    }
}

impl Seen<Tried> {
    fn into_result(self) -> Result<Result<LeaseView, Waiter>, Problem> {
        match self.value {
            Tried::Granted(view) => Ok(Ok(at(view, self.revision))),
            Tried::Waiting(waiter) => Ok(Err(waiter)),
            Tried::Refused(problem) => Err(problem),
        }
    }
}

fn over_limit(whose: &str, waiting: usize, most: usize) -> Problem {
    Problem::new(
        Code::OverLimit,
        format!("{whose} has {waiting} requests waiting, at most {most} are taken"),
    )
}

/// One of the places for those who wait.
pub(super) struct Place {
    pub(super) inner: Arc<Inner>,
}

impl Place {
    pub(super) fn take(inner: &Arc<Inner>) -> Result<Self, Problem> {
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

    /// For one who waits already: the request that waited until now gives its own place back.
    fn again(inner: &Arc<Inner>) -> Self {
        inner.waiting.fetch_add(1, Ordering::Relaxed);
        Self {
            inner: Arc::clone(inner),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One acquire that waits. Dropped (because its client went away), it leaves the queue.
struct Waiter {
    place: Place,
    key: Key,
    lease_id: LeaseId,
    number: RequestNumber,
    reply: oneshot::Receiver<Reply>,
}

impl Waiter {
    /// Leaves the queue, unless a reply was given already: then it is that.
    fn leave(&mut self) -> Option<Reply> {
        // From here on nobody can grant to it.
        self.reply.close();
        let reply = self.reply.try_recv().ok();
        let inner = &self.place.inner;
        let mut shard = inner.table.lock(&self.key);
        if let Some(entry) = shard.get_mut(&self.key) {
            entry.lease.leave(self.lease_id, self.number);
            entry.drop_idle_interest();
            inner
                .table
                .tidy(&mut shard, &self.key, inner.journal.durable());
        }
        reply
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(Reply::Granted(..)) = self.leave() {
            // Granted at the very moment at which the client went away, and the answer was never
            // read: this request's client does not know. Whether the holder knows by another
            // request with the same lease id is for the record to say. Best effort: if the store is
            // closing, the lease expires.
            let inner = &self.place.inner;
            let number = self.number;
            let _ = inner.work(&self.key, Unknown::Refuse, |work| work.give_back(number));
        }
    }
}
