//! A candidate's access to a [`MemoryStore`](super::MemoryStore).

use std::sync::Arc;
use std::time::Duration;

use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{
    Acquire, LeaseDuration, LeaseId, Metadata, Operation, RequestNumber, Waiting,
};
use tenure_core::{ElectionName, Epoch, Instant, Name};
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::MemoryStore;
use crate::backend::{BackendError, BoxFuture, LeaseBackend};
use crate::config::{Config, Strategy};
use crate::store::{LeaseView, Pong, Problem, StoreError};

/// A candidate's access to a store in memory.
#[derive(Debug)]
pub(crate) struct MemoryBackend {
    store: Arc<MemoryStore>,
    config: Config,
}

impl LeaseBackend for MemoryBackend {
    fn send(&self, request: Request, timeout: Duration) -> BoxFuture<'_, Answer> {
        Box::pin(self.send(request, timeout))
    }

    fn renew_many<'a>(
        &'a self,
        namespace: &'a Name,
        renewals: Vec<(Name, LeaseId)>,
        timeout: Duration,
    ) -> BoxFuture<'a, Vec<Answer>> {
        Box::pin(self.renew_many(namespace, renewals, timeout))
    }

    fn shares_requests_with(&self, other: &dyn LeaseBackend) -> bool {
        let other = (other as &dyn std::any::Any).downcast_ref::<Self>();
        other.is_some_and(|other| Arc::ptr_eq(&self.store, &other.store))
    }

    fn proclaim(
        &self,
        lease_id: LeaseId,
        metadata: Metadata,
    ) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async move { self.proclaim(lease_id, metadata) })
    }

    fn can_hand_over(&self) -> bool {
        // The only candidate has no other to hand its lease over to.
        !matches!(self.config.strategy, Strategy::Static)
    }

    fn lease_after<'a>(
        &'a self,
        election: &'a ElectionName,
        after: u64,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Option<LeaseView>, BackendError>> {
        Box::pin(self.lease_after(election, after, wait))
    }

    fn ping(&self) -> BoxFuture<'_, Result<Pong, BackendError>> {
        Box::pin(async move {
            if !self.store.lock().is_reachable {
                return Err(unreachable());
            }
            Ok(Pong {
                round_trip: Duration::ZERO,
                date: None,
            })
        })
    }

    fn address(&self) -> String {
        "memory".into()
    }
}

fn unreachable() -> BackendError {
    BackendError::unreachable("the store is unreachable: the test has made it so")
}

impl MemoryBackend {
    pub(super) const fn new(store: Arc<MemoryStore>, config: Config) -> Self {
        Self { store, config }
    }

    async fn send(&self, request: Request, timeout: Duration) -> Answer {
        let end = self.store.now() + timeout;
        let Some(number) = self.arrives() else {
            return self.no_answer(end).await;
        };
        let answer = match request {
            Request::Acquire {
                lease_id,
                wait,
                min_epoch,
            } => self.acquire(number, lease_id, wait, min_epoch).await,
            Request::Renew(lease_id) => self.apply(&Operation::Renew(lease_id, None), None),
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
                };
                self.apply(&hand_over, None)
            }
        };
        if self.reply_is_lost() {
            self.no_answer(end).await
        } else {
            answer
        }
    }

    async fn renew_many(
        &self,
        namespace: &Name,
        renewals: Vec<(Name, LeaseId)>,
        timeout: Duration,
    ) -> Vec<Answer> {
        let end = self.store.now() + timeout;
        let mut answers = Vec::new();
        if self.arrives().is_some() {
            for (name, lease_id) in &renewals {
                let election = ElectionName::new(namespace.clone(), name.clone());
                let renewal = Operation::Renew(*lease_id, None);
                let renewed = self.store.apply(&election, &renewal, None);
                answers.push(Answer::from(renewed));
            }
            if !self.reply_is_lost() {
                return answers;
            }
        }
        vec![self.no_answer(end).await; renewals.len()]
    }

    fn proclaim(&self, lease_id: LeaseId, metadata: Metadata) -> Result<(), BackendError> {
        if self.arrives().is_none() {
            return Err(unreachable());
        }
        let operation = Operation::SetMetadata(lease_id, metadata);
        let changed = self.store.apply(&self.config.election, &operation, None);
        let problem = |rejection| StoreError::Problem(Problem::from(&rejection));
        Ok(changed.map(|_| ()).map_err(problem)?)
    }

    async fn lease_after(
        &self,
        election: &ElectionName,
        after: u64,
        wait: Duration,
    ) -> Result<Option<LeaseView>, BackendError> {
        let mut seen = self.store.changes.subscribe();
        let end = self.store.now() + wait;
        loop {
            if !self.store.lock().is_reachable {
                return Err(unreachable());
            }
            self.store.expire(election);
            let view = self.store.view(election);
            if view.as_ref().is_none_or(|view| view.revision > after) {
                return Ok(view);
            }
            let lapse = self.next_lapse().map_or(end, |lapse| lapse.min(end));
            if !self.store.change_before(&mut seen, lapse).await && self.store.now() >= end {
                return Ok(view);
            }
        }
    }

    /// Waits in the store until the lease is granted or the time is over.
    async fn acquire(
        &self,
        number: RequestNumber,
        lease_id: LeaseId,
        wait: Duration,
        min_epoch: Option<Epoch>,
    ) -> Answer {
        let mut seen = self.store.changes.subscribe();
        let end = self.store.now() + wait;
        let request = Acquire {
            lease_id,
            holder: self.config.candidate.clone(),
            duration: LeaseDuration::Fixed(self.config.timings.lease_duration()),
            lock_delay: self.config.lock_delay,
            min_epoch,
            metadata: self.config.metadata.clone(),
        };
        let try_now = || {
            let acquire = Operation::Acquire(request.clone(), self.store.wall());
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
            reply_to,
        };
        self.store
            .join(&self.config.election, self.config.priority, waiting);
        loop {
            self.store.expire(&self.config.election);
            match reply.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Empty) => {}
                // A later request with this lease id has replaced this one.
                Err(TryRecvError::Closed) => break,
            }
            let lapse = self.next_lapse().map_or(end, |lapse| lapse.min(end));
            if !self.store.change_before(&mut seen, lapse).await && self.store.now() >= end {
                break;
            }
        }
        // From here on the store can't grant to this request.
        reply.close();
        reply.try_recv().unwrap_or_else(|_| Answer::from(try_now()))
    }

    fn next_lapse(&self) -> Option<Instant> {
        let now = self.store.now();
        self.store
            .lock()
            .leases
            .get(&self.config.election)?
            .lease
            .record()
            .next_lapse(now)
    }

    fn apply(&self, operation: &Operation, reason: Option<&str>) -> Answer {
        Answer::from(self.store.apply(&self.config.election, operation, reason))
    }

    /// The number of a request, if it reaches the store.
    fn arrives(&self) -> Option<RequestNumber> {
        let mut state = self.store.lock();
        if !state.is_reachable {
            return None;
        }
        state.requests += 1;
        Some(state.requests)
    }

    fn reply_is_lost(&self) -> bool {
        let mut state = self.store.lock();
        let lost = state.replies_to_lose > 0;
        state.replies_to_lose = state.replies_to_lose.saturating_sub(1);
        lost || !state.is_reachable
    }

    async fn no_answer(&self, end: Instant) -> Answer {
        self.store.clock.sleep_until(end).await;
        Answer::Unknown("no answer in time".into())
    }
}
