//! A lease service that is a `Lease` of `coordination.k8s.io/v1` in a Kubernetes cluster.
//!
//! | lease candidate | API server |
//! |---|---|
//! | acquire | read the object; replace it if it is free, or create it if it does not exist |
//! | look | read the object |
//! | renew, proclaim | replace the object; after a conflict read it, and replace it if this term still holds it |
//! | release | replace the object by one without a holder, in the same way |
//! | observe | read the object |
//!
//! The API server stores the object and does not know when a lease expires. The candidates judge
//! that by themselves, by the rules of [`tenure_core::lease::election_record`], which has the
//! argument why two of them never lead at once. Each write names the `resourceVersion` that it
//! replaces, so a late or repeated write changes nothing that its sender has not seen.

mod client;
mod election;
mod object;
mod review;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{LeaseId, Metadata};

use self::client::{ApiClient, ApiError};
use self::election::LeaseElection;
use super::admission::{Access, Admission};
use super::{
    AwaitedTerm, BackendError, BackendFuture, BackendReply, LeaseBackend, RequestOutcome,
    SharedBackend,
};
use crate::base::clock::Clock;
use crate::config::{Config, KubernetesLease};
use crate::http::builder::REQUEST_TIMEOUT;
use crate::http::client::HttpClients;
use crate::http::store::{LeaseView, Pong};
use crate::service::StartError;

#[derive(Debug)]
struct KubernetesBackend {
    election: LeaseElection,
    /// A successful write admits the candidate.
    admission: Admission,
}

pub(super) fn open(
    config: &Config,
    lease: &KubernetesLease,
    clients: &HttpClients,
    clock: &Clock,
) -> Result<SharedBackend, StartError> {
    lease.check(&config.timings, config.lock_delay)?;
    let http = clients.get(&lease.roots, None, [lease.server.url()])?;
    let client = ApiClient::new(http, lease.clone());
    Ok(Arc::new(KubernetesBackend {
        election: LeaseElection::new(client, config, clock.clone()),
        admission: Admission::default(),
    }))
}

impl LeaseBackend for KubernetesBackend {
    fn send(&self, request: Request, timeout: Duration) -> BoxFuture<'_, BackendReply> {
        Box::pin(async move {
            let until = Instant::now() + timeout;
            let is_release = matches!(request, Request::Release { .. } | Request::HandOver { .. });
            let is_acquire = matches!(request, Request::Acquire { .. });
            let sent = match request {
                // The API server has no waiting queue: the candidate sends an acquire repeatedly.
                Request::Acquire {
                    lease_id,
                    wait,
                    min_epoch,
                } => {
                    let timeout = timeout.saturating_sub(wait);
                    self.election.acquire(lease_id, min_epoch, timeout).await
                }
                Request::Look(lease_id) => self.election.look(lease_id, until).await,
                Request::Renew(lease_id) => self.election.renew(lease_id, until).await,
                // The object can't be reserved for a candidate, so callers never hand over.
                Request::Release { lease_id, .. } | Request::HandOver { lease_id, .. } => {
                    self.election.release(lease_id, until).await
                }
                // Only members with a fallback ask for it, and a configuration can't have both.
                Request::Resume { .. } => Ok(Answer::Superseded),
            };
            let was_refused =
                matches!(&sent, Err(ApiError::Refused(refusal)) if refusal.is_forbidden());
            let reply = sent.map_or_else(|error| reply_to(&error, is_release), BackendReply::from);
            let reply = self.review(reply, was_refused).await;
            let has_answered = reply.outcome != RequestOutcome::NoAnswer;
            let access = |answer: &Answer| match answer {
                Answer::Held(_) => Access::Admitted,
                // A release of a campaign needs no right to write.
                _ if is_acquire && has_answered => Access::Now,
                _ => Access::Unknown,
            };
            let origin = || self.election.client.origin();
            self.admission.settle(reply, access, origin)
        })
    }

    fn proclaim(&self, lease_id: LeaseId, metadata: Metadata) -> BackendFuture<'_, ()> {
        Box::pin(async move {
            let until = Instant::now() + REQUEST_TIMEOUT;
            Ok(self.election.proclaim(lease_id, &metadata, until).await?)
        })
    }

    fn can_hand_over(&self) -> bool {
        false
    }

    fn has_other_writers(&self) -> bool {
        true
    }

    fn missing_right(&self) -> BackendFuture<'_, Option<String>> {
        Box::pin(async move {
            let (client, until) = (&self.election.client, Instant::now() + REQUEST_TIMEOUT);
            // An object that can't be read may not exist, so this asks for the right to create it, too.
            let read = client.read(until).await;
            let exists = read.is_ok_and(|read| read.object.is_some());
            Ok(client.missing_right(exists, until).await?)
        })
    }

    fn awaited(&self) -> BackendFuture<'_, Option<AwaitedTerm>> {
        Box::pin(async move { Ok(self.election.awaited().await?) })
    }

    fn lease_after(&self, _: u64, _: Duration) -> BackendFuture<'_, Option<LeaseView>> {
        Box::pin(async move { Ok(self.election.view().await?) })
    }

    fn ping(&self) -> BackendFuture<'_, Pong> {
        Box::pin(async move {
            let sent = Instant::now();
            let read = self.election.client.read(sent + REQUEST_TIMEOUT).await?;
            Ok(Pong {
                store: None,
                round_trip: sent.elapsed(),
                date: read.date,
            })
        })
    }

    fn address(&self) -> String {
        self.election.client.url().into()
    }

    fn kind(&self) -> &'static str {
        "API server"
    }
}

impl KubernetesBackend {
    /// Denies a candidate that has never written and lacks a right, also while it waits for another
    /// holder. All other refusals may be temporary, and so may a missing right after the first write.
    async fn review(&self, reply: BackendReply, was_refused: bool) -> BackendReply {
        let is_waiting = matches!(reply.answer, Answer::HeldByAnother(_));
        if !(is_waiting || was_refused) {
            return reply;
        }
        match self.election.missing_right(was_refused).await {
            Some(right) => Answer::Denied(right).into(),
            None => reply,
        }
    }
}

/// Returns the reply of a request that has failed.
fn reply_to(error: &ApiError, is_release: bool) -> BackendReply {
    let why = error.to_string();
    let (answer, outcome) = match error {
        ApiError::MissingRight(_) => (Answer::Denied(why), RequestOutcome::Unauthorized),
        ApiError::Refused(refusal) if refusal.is_of_token() => {
            (Answer::Denied(why), RequestOutcome::Unauthorized)
        }
        ApiError::Refused(refusal) if refusal.is_of_credential() => {
            (Answer::Unknown(why), RequestOutcome::Unauthorized)
        }
        // A policy that refuses each release must not keep this candidate from the next campaign.
        ApiError::Refused(refusal) if is_release && !refusal.is_transient() => {
            (Answer::Refused(why), RequestOutcome::Refused)
        }
        // Quotas, policies and webhooks choose the status, and they change.
        ApiError::Refused(_) => (Answer::Unknown(why), RequestOutcome::Refused),
        ApiError::Unreachable { .. } => (Answer::Unknown(why), RequestOutcome::NoAnswer),
        ApiError::Busy { .. }
        | ApiError::AskedToWait { .. }
        | ApiError::Conflicts { .. }
        | ApiError::Malformed { .. }
        | ApiError::NotAnApiServer { .. } => (Answer::Unknown(why), RequestOutcome::Refused),
    };
    BackendReply { answer, outcome }
}

impl From<ApiError> for BackendError {
    fn from(error: ApiError) -> Self {
        match &error {
            // Without an answer of an API server, something before it has answered.
            ApiError::Unreachable { .. } | ApiError::NotAnApiServer { .. } => {
                Self::Unreachable(error.into())
            }
            ApiError::Refused(refusal) if !refusal.is_transient() => Self::Definite(error.into()),
            ApiError::Malformed { .. } | ApiError::MissingRight(_) => Self::Definite(error.into()),
            ApiError::Refused(_)
            | ApiError::Busy { .. }
            | ApiError::AskedToWait { .. }
            | ApiError::Conflicts { .. } => Self::Transient(error.into()),
        }
    }
}
