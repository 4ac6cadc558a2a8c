//! A candidate's way to a [`TestStore`](super::TestStore).

use std::sync::Arc;
use std::time::Duration;

use tenure_core::lease::candidate::{Answer, EndReason, Request};
use tenure_core::lease::{
    Acquire, LeaseDuration, LeaseId, Metadata, Operation, RequestNumber, Waiting,
};
use tenure_core::{ElectionName, Epoch, Instant, Name};
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::Shared;
use super::lease::wall;
use crate::config::Config;
use crate::store::{Code, LeaseView, Problem, StoreError};

/// A candidate's way to a [`TestStore`](super::TestStore).
#[derive(Clone, Debug)]
pub(crate) struct TestLink {
    pub(super) shared: Arc<Shared>,
    pub(super) of: Arc<Config>,
}

impl TestLink {
    pub(crate) fn is_same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) async fn send(&self, request: Request, timeout: Duration) -> Answer {
        let end = self.shared.now() + timeout;
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
                self.apply(&Operation::Release(lease_id), reason.map(EndReason::as_str))
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

    pub(crate) async fn renew_many(
        &self,
        namespace: &Name,
        renewals: &[(Name, LeaseId)],
        timeout: Duration,
    ) -> Vec<Answer> {
        let end = self.shared.now() + timeout;
        let mut answers = Vec::new();
        if self.arrives().is_some() {
            for (name, lease_id) in renewals {
                let election = ElectionName::new(namespace.clone(), name.clone());
                let renewal = Operation::Renew(*lease_id, None);
                let renewed = self.shared.apply(&election, &renewal, None);
                answers.push(Answer::from(renewed));
            }
            if !self.reply_is_lost() {
                return answers;
            }
        }
        vec![self.no_answer(end).await; renewals.len()]
    }

    pub(crate) fn proclaim(&self, lease_id: LeaseId, metadata: Metadata) -> Result<(), StoreError> {
        let unreachable = || StoreError::Unreachable {
            endpoint: self.of.servers[0].clone(),
            reason: "the test has made it so".into(),
        };
        if self.arrives().is_none() {
            return Err(unreachable());
        }
        let operation = Operation::SetMetadata(lease_id, metadata);
        let changed = self.shared.apply(&self.of.election, &operation, None);
        changed
            .map(|_| ())
            .map_err(|rejection| StoreError::Problem(Problem::from(&rejection)))
    }

    pub(crate) async fn lease_after(
        &self,
        election: &ElectionName,
        after: u64,
        wait: Duration,
    ) -> Result<Option<LeaseView>, StoreError> {
        let mut seen = self.shared.changes.subscribe();
        let end = self.shared.now() + wait;
        loop {
            if !self.shared.lock().is_reachable {
                let detail = "the test has made the store unreachable";
                return Err(StoreError::Problem(Problem::new(
                    Code::EngineUnavailable,
                    detail,
                )));
            }
            self.shared.settle(election);
            let view = self.shared.view(election);
            if view.as_ref().is_none_or(|view| view.revision > after) {
                return Ok(view);
            }
            let lapse = self.next_lapse().map_or(end, |lapse| lapse.min(end));
            if !self.shared.change_before(&mut seen, lapse).await && self.shared.now() >= end {
                return Ok(view);
            }
        }
    }

    /// Waits in the store until the lease is granted or the time is up.
    async fn acquire(
        &self,
        number: RequestNumber,
        lease_id: LeaseId,
        wait: Duration,
        min_epoch: Option<Epoch>,
    ) -> Answer {
        let mut seen = self.shared.changes.subscribe();
        let end = self.shared.now() + wait;
        let request = Acquire {
            lease_id,
            holder: self.of.candidate.clone(),
            duration: LeaseDuration::Fixed(self.of.timings.lease_duration()),
            lock_delay: self.of.lock_delay,
            min_epoch,
            metadata: self.of.metadata.clone(),
        };
        let try_now = || {
            let acquire = Operation::Acquire(request.clone(), wall(self.shared.now()));
            self.shared.apply(&self.of.election, &acquire, None)
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
        self.shared
            .join(&self.of.election, self.of.priority, waiting);
        loop {
            self.shared.settle(&self.of.election);
            match reply.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Empty) => {}
                // A later request with this lease id waits instead.
                Err(TryRecvError::Closed) => break,
            }
            let lapse = self.next_lapse().map_or(end, |lapse| lapse.min(end));
            if !self.shared.change_before(&mut seen, lapse).await && self.shared.now() >= end {
                break;
            }
        }
        // From here on nobody can grant to it.
        reply.close();
        reply.try_recv().unwrap_or_else(|_| Answer::from(try_now()))
    }

    fn next_lapse(&self) -> Option<Instant> {
        let now = self.shared.now();
        self.shared
            .lock()
            .leases
            .get(&self.of.election)?
            .lease
            .record()
            .next_lapse(now)
    }

    fn apply(&self, operation: &Operation, reason: Option<&str>) -> Answer {
        Answer::from(self.shared.apply(&self.of.election, operation, reason))
    }

    /// The number of a request that reaches the store.
    fn arrives(&self) -> Option<RequestNumber> {
        let mut state = self.shared.lock();
        if !state.is_reachable {
            return None;
        }
        state.requests += 1;
        Some(state.requests)
    }

    fn reply_is_lost(&self) -> bool {
        let mut state = self.shared.lock();
        let lost = state.replies_to_lose > 0;
        state.replies_to_lose = state.replies_to_lose.saturating_sub(1);
        lost || !state.is_reachable
    }

    async fn no_answer(&self, end: Instant) -> Answer {
        self.shared.clock.sleep_until(end).await;
        Answer::Unknown("no answer in time".into())
    }
}
