//! A candidate's access to a [`MemoryStore`](super::MemoryStore).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{
    Acquire, LeaseDuration, LeaseId, Metadata, Operation, RequestNumber, Resume, Waiting,
};
use tenure_core::{Epoch, Instant};
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::sync::watch;

use super::MemoryStore;
use crate::config::{Config, Strategy};
use crate::http::store::{LeaseView, Pong, Problem, StoreError};
use crate::service::{BackendError, BackendFuture, BackendReply, LeaseBackend, Renewal};

/// A candidate's access to a store in memory.
#[derive(Debug)]
pub(crate) struct MemoryBackend {
    pub(super) store: Arc<MemoryStore>,
    pub(super) config: Config,
}

impl LeaseBackend for MemoryBackend {
    fn send(&self, request: Request, timeout: Duration) -> BoxFuture<'_, BackendReply> {
        Box::pin(async move {
            let end = self.store.clock.now() + timeout;
            let Some(number) = self.arrives() else {
                return self.no_answer(end).await.into();
            };
            let answer = match request {
                Request::Acquire {
                    lease_id,
                    wait,
                    min_epoch,
                } => self.acquire(number, lease_id, wait, min_epoch).await,
                Request::Resume {
                    lease_id,
                    epoch,
                    without_store,
                } => {
                    let of_term = Resume {
                        epoch,
                        without_store,
                    };
                    let request = self.request(lease_id, None);
                    let wall = self.store.clock.wall();
                    self.apply(&Operation::Resume(request, of_term, wall), None)
                }
                Request::Renew(lease_id) | Request::Look(lease_id) => {
                    self.apply(&Operation::Renew(lease_id, None), None)
                }
                Request::Release { lease_id, reason } => {
                    let reason = reason.map(|reason| reason.to_string());
                    self.apply(&Operation::Release(lease_id), reason.as_deref())
                }
                Request::HandOver {
                    lease_id,
                    to,
                    within,
                } => {
                    let hand_over = Operation::HandOver {
                        lease_id,
                        to,
                        within,
                        forced: false,
                    };
                    self.apply(&hand_over, None)
                }
            };
            if self.reply_is_lost() {
                return self.no_answer(end).await.into();
            }
            answer.into()
        })
    }

    fn renew_many(
        &self,
        renewals: Vec<Renewal>,
        timeout: Duration,
    ) -> BoxFuture<'_, Vec<BackendReply>> {
        Box::pin(async move {
            let end = self.store.clock.now() + timeout;
            if self.arrives().is_some() {
                let renew = |(election, lease_id): &Renewal| {
                    let renewal = Operation::Renew(*lease_id, None);
                    Answer::from(self.store.apply(election, &renewal, None)).into()
                };
                let answers = renewals.iter().map(renew).collect();
                if !self.reply_is_lost() {
                    return answers;
                }
            }
            vec![self.no_answer(end).await.into(); renewals.len()]
        })
    }

    fn shares_requests_with(&self, other: &dyn LeaseBackend) -> bool {
        let other = (other as &dyn std::any::Any).downcast_ref::<Self>();
        other.is_some_and(|other| Arc::ptr_eq(&self.store, &other.store))
    }

    fn proclaim(&self, lease_id: LeaseId, metadata: Metadata) -> BackendFuture<'_, ()> {
        Box::pin(async move {
            self.arrives().ok_or_else(unreachable)?;
            let operation = Operation::SetMetadata(lease_id, metadata);
            let changed = self.store.apply(&self.config.election, &operation, None);
            let problem = |rejection| StoreError::Problem(Problem::from(&rejection));
            Ok(changed.map(|_| ()).map_err(problem)?)
        })
    }

    fn can_hand_over(&self) -> bool {
        // With the strategy `static` there is no other candidate that could receive the lease.
        !matches!(self.config.strategy, Strategy::Static)
    }

    fn lease_after(&self, after: u64, wait: Duration) -> BackendFuture<'_, Option<LeaseView>> {
        Box::pin(async move {
            let mut seen = self.store.changes.subscribe();
            let end = self.store.clock.now() + wait;
            loop {
                if self.store.lock().is_cut_off {
                    return Err(unreachable());
                }
                let view = self.store.lease(&self.config.election);
                if view.as_ref().is_none_or(|view| view.revision > after)
                    || self.is_over(&mut seen, end).await
                {
                    return Ok(view);
                }
            }
        })
    }

    fn ping(&self) -> BackendFuture<'_, Pong> {
        let is_reachable = !self.store.lock().is_cut_off;
        let pong = Pong {
            store: None,
            round_trip: Duration::ZERO,
            date: None,
        };
        let answer = is_reachable.then_some(pong).ok_or_else(unreachable);
        Box::pin(std::future::ready(answer))
    }

    fn address(&self) -> String {
        "memory".into()
    }
}

fn unreachable() -> BackendError {
    BackendError::Unreachable("the test has made the store unreachable".into())
}

impl MemoryBackend {
    /// Waits in the store until the lease is granted or the waiting time is over.
    async fn acquire(
        &self,
        number: RequestNumber,
        lease_id: LeaseId,
        wait: Duration,
        min_epoch: Option<Epoch>,
    ) -> Answer {
        let mut seen = self.store.changes.subscribe();
        let end = self.store.clock.now() + wait;
        let request = self.request(lease_id, min_epoch);
        let try_now = || {
            let acquire = Operation::Acquire(request.clone(), self.store.clock.wall());
            self.store.apply(&self.config.election, &acquire, None)
        };
        match try_now() {
            Err(rejection) if rejection.is_transient() && !wait.is_zero() => {}
            result => return Answer::from(result),
        }
        let (reply_to, mut reply) = oneshot::channel();
        let waiting = Waiting {
            number,
            request: request.clone(),
            owner: None,
            since: self.store.clock.now(),
            reply_to,
        };
        // The change wakes the earlier request that this one replaces, although the lease is the
        // same.
        self.store.change(&self.config.election, |lease, _, _| {
            let replaced = lease.lease.wait(self.config.priority, waiting);
            (replaced.is_some(), ())
        });
        loop {
            self.store.expire(&self.config.election);
            match reply.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Empty) => {}
                // A later request with this lease id has replaced this one.
                Err(TryRecvError::Closed) => break,
            }
            if self.is_over(&mut seen, end).await {
                break;
            }
        }
        // The store can't grant the lease to this request any more.
        reply.close();
        reply.try_recv().unwrap_or_else(|_| Answer::from(try_now()))
    }

    fn request(&self, lease_id: LeaseId, min_epoch: Option<Epoch>) -> Acquire {
        Acquire {
            lease_id,
            holder: self.config.candidate.clone(),
            duration: LeaseDuration::Fixed(self.config.timings.lease_duration()),
            lock_delay: self.config.lock_delay,
            min_epoch,
            by_operator: false,
            metadata: self.config.metadata.clone(),
        }
    }

    /// Waits for a change, for the lease to lapse, or until `end`. Returns true if `end` has
    /// passed.
    async fn is_over(&self, seen: &mut watch::Receiver<()>, end: Instant) -> bool {
        let clock = &self.store.clock;
        let lapse = {
            let state = self.store.lock();
            let lease = state.leases.get(&self.config.election);
            lease.and_then(|lease| lease.lease.record().next_lapse(clock.now()))
        };
        tokio::select! {
            _ = seen.changed() => false,
            () = clock.sleep_until(lapse.map_or(end, |lapse| lapse.min(end))) => clock.now() >= end,
        }
    }

    fn apply(&self, operation: &Operation, reason: Option<&str>) -> Answer {
        Answer::from(self.store.apply(&self.config.election, operation, reason))
    }

    /// Returns the number of this request if it reaches the store.
    fn arrives(&self) -> Option<RequestNumber> {
        let mut state = self.store.lock();
        if state.is_cut_off {
            return None;
        }
        state.requests += 1;
        Some(state.requests)
    }

    fn reply_is_lost(&self) -> bool {
        let mut state = self.store.lock();
        let lost = state.replies_to_lose > 0;
        state.replies_to_lose = state.replies_to_lose.saturating_sub(1);
        lost || state.is_cut_off
    }

    async fn no_answer(&self, end: Instant) -> Answer {
        self.store.clock.sleep_until(end).await;
        Answer::Unknown("no answer in time".into())
    }
}
