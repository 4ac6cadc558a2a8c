//! Acquires, which may wait.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_core::lease::{
    LeaseId, Owner, PLACE_KEPT_FOR, Rejection, RequestNumber, Rules, Waiting,
};
use tenure_core::wire::{LeaseView, Problem, Queued};
use tokio::sync::oneshot;
use tokio::time;

use super::observe::IfMissing;
use super::transaction::LeaseTransaction;
use super::{Inner, Store, stopping};
use crate::clock;
use crate::metrics::waiting;
use crate::model::{LeaseKey, TraceId};
use crate::shares::{self, Share, Tenant};

/// The outcome of a waiting request: either a grant, or the refusal of a request that was replaced
/// by another one.
pub(super) type Outcome = Result<LeaseView, Problem>;

/// The channel to which the outcome of a waiting request is sent, once the outcome is durable.
#[derive(Debug)]
pub(super) struct OutcomeSender {
    channel: oneshot::Sender<Box<Outcome>>,
    /// The trace of the waiting request.
    pub(super) trace: Option<TraceId>,
    /// The client whose share the request uses.
    tenant: Tenant,
}

impl OutcomeSender {
    /// Sends the outcome. If the request was abandoned, its own cleanup gives the grant back.
    pub(super) fn send(self, outcome: Outcome) {
        let _ = self.channel.send(Box::new(outcome));
    }
}

/// The outcome of an attempt to acquire.
enum Attempt {
    Granted(Box<LeaseView>),
    Waiting(Waiter),
}

impl Store {
    /// Acquires the lease for this principal, at once or when the request is first in the queue.
    /// The request stops waiting when `refused` completes, and then holds nothing.
    ///
    /// A request that was granted the lease at once is not refused while its grant is written. The
    /// store could not take the grant back, because the holder may know of the grant from another
    /// request.
    pub(crate) async fn acquire_as(
        &self,
        (owner, tenant): (Option<&Owner>, &Tenant),
        key: &LeaseKey,
        queued: &Queued,
        refused: impl Future<Output = Problem>,
    ) -> Result<LeaseView, Problem> {
        self.ready()?;
        let mut refused = pin!(refused);
        let mut may_wait = !queued.wait.is_zero();
        loop {
            let acquire = |transaction: &mut LeaseTransaction<'_>| {
                let operation = transaction.bounded(queued.operation(clock::wall()));
                match transaction.apply(&Rules::NATIVE, owner, &operation, None) {
                    Ok(_) => Ok(Attempt::Granted(transaction.view().into())),
                    Err(rejection)
                        if may_wait && rejection.is_transient() && transaction.may_change() =>
                    {
                        self.join(transaction, (key, owner, tenant), queued, &rejection)
                    }
                    Err(rejection) => Err(Problem::from(&rejection)),
                }
            };
            let seen = self.execute(key, IfMissing::Create, acquire).await?;
            let view = match seen.value.ok_or_else(stopping)?? {
                Attempt::Granted(mut view) => {
                    view.revision = seen.revision;
                    *view
                }
                Attempt::Waiting(mut waiter) => {
                    let waited = tokio::select! {
                        // The refusal is polled first: a lease that is granted at this moment is
                        // given back.
                        biased;
                        refusal = &mut refused => return Err(refusal),
                        waited = waiting(waiter.wait(queued.wait)) => waited,
                    };
                    match waited {
                        Some(outcome) => (*outcome)?,
                        None if self.inner.stopping.is_cancelled() => {
                            return Err(self.inner.refusal());
                        }
                        // The time of the wait is over, so the answer shows the current state.
                        None => {
                            may_wait = false;
                            continue;
                        }
                    }
                }
            };
            return Ok(view.with_lease_id(queued.request.lease_id));
        }
    }

    fn join(
        &self,
        transaction: &mut LeaseTransaction<'_>,
        (key, owner, tenant): (&LeaseKey, Option<&Owner>, &Tenant),
        queued: &Queued,
        rejection: &Rejection,
    ) -> Result<Attempt, Problem> {
        let inner = &self.inner;
        let lease_id = queued.request.lease_id;
        let permit = if transaction.waiting().waiter(lease_id, owner).is_some() {
            // The request takes the position in the queue of an earlier request with this lease id,
            // which gives back its own permit.
            inner.waiting.take_beyond(tenant)
        } else {
            let (lease, most) = (transaction.waiting(), inner.limits.max_waiters_per_lease);
            let own = || {
                let waiters = lease.waiters();
                let own = waiters.filter(|(_, waiting)| waiting.reply_to.tenant == *tenant);
                own.count()
            };
            let (of, what) = ("the lease", "requests waiting for the lease");
            shares::check(most, usize::MAX, lease.waiting(), own)
                .map_err(|full| full.problem(tenant, of, what, most))?;
            inner.wait_permit(tenant)?
        };
        let number = inner.waited.fetch_add(1, Ordering::Relaxed);
        let (channel, outcome) = oneshot::channel();
        let reply_to = OutcomeSender {
            channel,
            trace: TraceId::current(),
            tenant: tenant.clone(),
        };
        let waiting = Waiting {
            number,
            request: queued.request.clone(),
            owner: owner.cloned(),
            since: transaction.now,
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

impl Inner {
    /// Takes a permit for an acquire or a long poll that must wait.
    pub(super) fn wait_permit(&self, tenant: &Tenant) -> Result<Share<Tenant>, Problem> {
        self.waiting.admit(tenant, "requests waiting")
    }
}

/// One waiting acquire. If it is dropped because its client disconnected or lost its right, it
/// leaves the queue, or gives the lease back.
struct Waiter {
    inner: Arc<Inner>,
    _permit: Share<Tenant>,
    key: LeaseKey,
    lease_id: LeaseId,
    number: RequestNumber,
    outcome: oneshot::Receiver<Box<Outcome>>,
    has_outcome: bool,
}

impl Waiter {
    /// Waits for the outcome, at most for `most` and only until the store stops. Then the request
    /// leaves the queue, and this returns `None`. If the request is no longer in the queue, because
    /// it was granted the lease or was replaced, this returns its outcome once that is durable.
    async fn wait(&mut self, most: Duration) -> Option<Box<Outcome>> {
        let inner = Arc::clone(&self.inner);
        tokio::select! {
            // If the grant arrives at the moment at which the time is up, the grant wins.
            biased;
            outcome = &mut self.outcome => {
                self.has_outcome = true;
                return outcome.ok();
            }
            () = inner.stopping.cancelled() => {}
            () = inner.interruption.notified() => {}
            () = time::sleep(most) => {}
        }
        let outcome = match self.leave() {
            true => None,
            false => (&mut self.outcome).await.ok(),
        };
        self.has_outcome = true;
        outcome
    }

    /// Leaves the queue. Returns whether the request was in it: if not, its outcome will arrive.
    fn leave(&self) -> bool {
        let mut shard = self.inner.table.lock(&self.key);
        let now = self.inner.clock.now();
        let mut has_left = false;
        if let Some(entry) = shard.get_mut(&self.key)
            && entry.lease.leave(self.lease_id, self.number, now).is_some()
        {
            has_left = true;
            // The place is kept for a while, and then its memory is freed.
            let over = now + PLACE_KEPT_FOR;
            let timer = &self.inner.timer;
            timer.arm(&mut entry.armed, self.key.hash(), over, now);
        }
        self.inner.tidy(&mut shard, &self.key);
        has_left
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.has_outcome && !self.leave() {
            // The request was granted the lease at the moment at which its client disconnected, and
            // did not receive the grant. The record shows whether the holder received the grant
            // through another request with the same lease id. If the store is closing, the lease
            // expires.
            let give_back =
                |transaction: &mut LeaseTransaction<'_>| transaction.give_back(self.number);
            let _ = self.inner.transact(&self.key, IfMissing::Refuse, give_back);
        }
    }
}
