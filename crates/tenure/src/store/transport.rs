//! The keeper's requests over the store's HTTP API.

use std::time::Duration;

use reqwest::Method;
use tenure_core::lease::LeaseDuration;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{LeaseId, Metadata};
use tenure_core::wire::{
    AcquireRequest, Code, HandOverRequest, LeaseView, MetadataRequest, Problem, ReleaseRequest,
    RenewManyReply, RenewManyRequest, RenewOne, RenewRequest, RenewResult,
};
use tenure_core::{CandidateId, ElectionName, Epoch, Name};

use super::client::{REQUEST_TIMEOUT, StoreClient, StoreError, path};
use crate::config::Config;

/// Sends a candidate's requests, one attempt each, and puts the answers into the keeper's words.
#[derive(Debug)]
pub(crate) struct Transport {
    store: StoreClient,
    election: ElectionName,
    /// What every acquire says; the lease id and the wait are filled in.
    acquire: AcquireRequest,
}

impl Transport {
    pub(crate) fn new(store: StoreClient, config: &Config) -> Self {
        let duration = LeaseDuration::Fixed(config.timings.lease_duration());
        let acquire = AcquireRequest {
            holder: config.candidate.to_string(),
            duration_ms: duration.into(),
            lease_id: None,
            wait_ms: None,
            priority: Some(u64::from(config.priority).into()),
            metadata: config.metadata.clone(),
            lock_delay_ms: Some(config.lock_delay.into()),
            min_epoch: None,
        };
        Self {
            store,
            election: config.election.clone(),
            acquire,
        }
    }

    pub(crate) async fn send(&self, request: Request, timeout: Duration) -> Answer {
        match request {
            Request::Acquire {
                lease_id,
                wait,
                min_epoch,
            } => {
                let mut body = self.acquire.clone();
                body.lease_id = Some(text(lease_id));
                body.wait_ms = Some(wait.into());
                body.min_epoch = min_epoch.map(|epoch| epoch.get().into());
                held(self.post("/acquire", &body, timeout).await)
            }
            Request::Renew(lease_id) => {
                let body = RenewRequest {
                    lease_id: text(lease_id),
                    duration_ms: None,
                };
                held(self.post("/renew", &body, timeout).await)
            }
            Request::Release { lease_id, reason } => {
                let body = ReleaseRequest {
                    lease_id: text(lease_id),
                    reason: reason.map(|reason| reason.as_str().to_owned()),
                };
                let answer = self.post("/release", &body, timeout).await;
                answer.map_or_else(refused, |_| Answer::Released)
            }
            Request::HandOver {
                lease_id,
                to,
                within,
            } => {
                let body = HandOverRequest {
                    lease_id: Some(text(lease_id)),
                    to: to.to_string(),
                    within_ms: within.into(),
                };
                let answer = self.post("/handover", &body, timeout).await;
                answer.map_or_else(refused, |_| Answer::Released)
            }
        }
    }

    /// Renews several leases of one namespace.
    pub(crate) async fn renew_many(
        &self,
        namespace: &Name,
        renewals: &[(Name, LeaseId)],
        timeout: Duration,
    ) -> Vec<Answer> {
        let one = |(lease, lease_id): &(Name, LeaseId)| RenewOne {
            lease: lease.to_string(),
            lease_id: text(*lease_id),
        };
        let body = RenewManyRequest {
            leases: renewals.iter().map(one).collect(),
        };
        let path = format!("v1/namespaces/{namespace}/renew");
        let answer = self
            .store
            .ask_once(Method::POST, &path, Some(&body), timeout)
            .await;
        match answer {
            Ok(RenewManyReply { results }) if results.len() == renewals.len() => {
                let each = results.into_iter().map(|result| match result {
                    RenewResult::View(view) => held(Ok(*view)),
                    RenewResult::Problem(problem) => from_problem(&problem),
                });
                each.collect()
            }
            Ok(_) => {
                let nonsense =
                    Answer::Unknown("the store answered another number of leases".into());
                vec![nonsense; renewals.len()]
            }
            Err(error) => vec![refused(error); renewals.len()],
        }
    }

    pub(crate) async fn proclaim(
        &self,
        lease_id: LeaseId,
        metadata: Metadata,
    ) -> Result<(), StoreError> {
        let body = MetadataRequest {
            lease_id: text(lease_id),
            metadata,
        };
        let path = path(&self.election, "/metadata");
        let answer = self
            .store
            .ask_once(Method::PUT, &path, Some(&body), REQUEST_TIMEOUT)
            .await;
        answer.map(|_: LeaseView| ())
    }

    pub(crate) const fn store(&self) -> &StoreClient {
        &self.store
    }

    async fn post(
        &self,
        verb: &str,
        body: &impl serde::Serialize,
        timeout: Duration,
    ) -> Result<LeaseView, StoreError> {
        self.store
            .ask_once(
                Method::POST,
                &path(&self.election, verb),
                Some(body),
                timeout,
            )
            .await
    }
}

fn text(lease_id: LeaseId) -> String {
    lease_id.to_wire().to_string()
}

fn held(answer: Result<LeaseView, StoreError>) -> Answer {
    match answer {
        Ok(view) => match view.epoch.and_then(Epoch::new) {
            Some(epoch) => Answer::Held(epoch),
            None => Answer::Unknown("the store names no epoch".into()),
        },
        Err(error) => refused(error),
    }
}

fn refused(error: StoreError) -> Answer {
    match error {
        StoreError::Problem(problem) => from_problem(&problem),
        // Something else listens there for now (a proxy without its backend, say).
        StoreError::Unreachable { .. }
        | StoreError::NotAStore { .. }
        | StoreError::Azure(_)
        | StoreError::Malformed { .. } => Answer::Unknown(error.to_string()),
    }
}

fn from_problem(problem: &Problem) -> Answer {
    let why = || format!("{} ({})", problem.detail, problem.code.as_str());
    match problem.code {
        Code::LeaseHeld => Answer::HeldByAnother {
            holder: problem
                .holder
                .as_ref()
                .and_then(|holder| holder.parse::<CandidateId>().ok()),
            epoch: problem.epoch.and_then(Epoch::new),
        },
        Code::LeaseIdRetired => Answer::IdRetired,
        Code::LeaseBroken | Code::LeaseBreaking => Answer::Broken {
            remaining: Duration::from_millis(problem.remaining_ms.unwrap_or(0)),
        },
        Code::LeaseExpired => Answer::Expired,
        Code::LeaseIdMismatch | Code::LeaseNotHeld | Code::UnknownLease => Answer::Superseded,
        code if code.is_transient() => Answer::Unknown(why()),
        _ => Answer::Refused(why()),
    }
}
