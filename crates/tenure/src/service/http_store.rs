//! A lease service that is a lease store with an HTTP API.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Method;
use tenure_core::lease::LeaseDuration;
use tenure_core::lease::candidate::{Answer, Request, Timings};
use tenure_core::lease::{LeaseId, Metadata};
use tenure_core::time::millis;
use tenure_core::wire::{
    AcquireRequest, Code, HandOverRequest, LeaseView, MetadataRequest, Problem, ReleaseRequest,
    RenewManyReply, RenewManyRequest, RenewOne, RenewRequest, RenewResult, ResumeRequest,
};
use tenure_core::{CandidateId, ElectionName, Epoch};

use super::admission::{Access, Admission};
use super::{
    BackendError, BackendFuture, BackendReply, LeaseBackend, Renewal, RequestOutcome, SharedBackend,
};
use crate::base::http_error::HttpClientError;
use crate::config::Config;
use crate::http::client::HttpClients;
use crate::http::store::{Call, CheckStore, Endpoint, Pong, StoreClient, StoreError, path};

#[derive(Debug)]
struct HttpStore {
    store: StoreClient,
    election: ElectionName,
    /// The common part of every acquire, without the lease id and the waiting time.
    acquire: AcquireRequest,
    admission: Admission,
    timings: Timings,
    /// Whether the store alone decides: with a fallback, its absence ends no term.
    is_alone: bool,
    /// The longest ownership duration, in milliseconds, that was compared with the timings.
    compared_ms: AtomicU64,
}

pub(super) fn open(
    config: &Config,
    clients: &HttpClients,
    check: Option<Arc<dyn CheckStore>>,
) -> Result<SharedBackend, HttpClientError> {
    let urls = config.servers.iter().map(Endpoint::url);
    let http = clients.get(&config.roots, config.credentials.certificate(), urls)?;
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
        resume: None,
    };
    Ok(Arc::new(HttpStore {
        timings: config.timings,
        is_alone: check.is_none(),
        compared_ms: AtomicU64::new(0),
        store: StoreClient::with_http(
            http,
            &config.servers,
            &config.roots,
            config.credentials.clone(),
        )?
        .with_check(check),
        election: config.election.clone(),
        acquire,
        admission: Admission::default(),
    }))
}

impl LeaseBackend for HttpStore {
    fn send(&self, request: Request, timeout: Duration) -> BoxFuture<'_, BackendReply> {
        Box::pin(async move {
            let wait = match request {
                Request::Acquire { wait, .. } => wait,
                _ => Duration::ZERO,
            };
            let is_promise = matches!(request, Request::Acquire { .. } | Request::Resume { .. });
            let releases = matches!(request, Request::Release { .. } | Request::HandOver { .. });
            let path = |verb| path(&self.election, verb);
            let call = match request {
                Request::Acquire {
                    lease_id,
                    wait,
                    min_epoch,
                } => {
                    let body = AcquireRequest {
                        lease_id: Some(wire_id(lease_id)),
                        wait_ms: Some(wait.into()),
                        min_epoch: min_epoch.map(|epoch| epoch.get().into()),
                        ..self.acquire.clone()
                    };
                    Call::post(path("/acquire"), &body)
                }
                Request::Resume {
                    lease_id,
                    epoch,
                    without_store,
                } => {
                    let body = AcquireRequest {
                        lease_id: Some(wire_id(lease_id)),
                        resume: Some(ResumeRequest {
                            epoch: epoch.get().into(),
                            without_store_ms: without_store.into(),
                        }),
                        ..self.acquire.clone()
                    };
                    Call::post(path("/acquire"), &body)
                }
                Request::Renew(lease_id) | Request::Look(lease_id) => {
                    let body = RenewRequest {
                        lease_id: wire_id(lease_id),
                        duration_ms: None,
                    };
                    Call::post(path("/renew"), &body)
                }
                Request::Release { lease_id, reason } => {
                    let body = ReleaseRequest {
                        lease_id: wire_id(lease_id),
                        reason: reason.map(|reason| reason.to_string()),
                    };
                    Call::post(path("/release"), &body)
                }
                Request::HandOver {
                    lease_id,
                    to,
                    within,
                } => {
                    let body = HandOverRequest {
                        lease_id: Some(wire_id(lease_id)),
                        to: to.to_string(),
                        within_ms: Some(within.into()),
                        force: None,
                        reason: None,
                    };
                    Call::post(path("/handover"), &body)
                }
            };
            let call = Call {
                timeout,
                wait,
                is_promise,
                ..call
            };
            let answer = self.store.ask_once(&call).await;
            self.compare_timings();
            self.settle(match answer {
                Ok(_) if releases => Answer::Released.into(),
                answer => reply_to(answer),
            })
        })
    }

    fn renew_many(
        &self,
        renewals: Vec<Renewal>,
        timeout: Duration,
    ) -> BoxFuture<'_, Vec<BackendReply>> {
        Box::pin(async move {
            let Some((election, _)) = renewals.first() else {
                return Vec::new();
            };
            let path = format!("v1/namespaces/{}/renew", election.namespace);
            let one = |(election, lease_id): &Renewal| RenewOne {
                lease: election.name.to_string(),
                lease_id: wire_id(*lease_id),
            };
            let leases = renewals.iter().map(one).collect();
            let call = Call::post(path, &RenewManyRequest { leases });
            match self.store.ask_once(&Call { timeout, ..call }).await {
                Ok(RenewManyReply { results }) if results.len() == renewals.len() => {
                    let each = results.into_iter().map(|result| match result {
                        RenewResult::View(view) => self.settle(reply_to(Ok(*view))),
                        RenewResult::Problem(problem) => self.settle(reply_to_problem(&problem)),
                    });
                    each.collect()
                }
                Ok(_) => {
                    let mismatch = "the store answered with a different number of leases".into();
                    vec![Answer::Unknown(mismatch).into(); renewals.len()]
                }
                Err(error) => vec![self.settle(reply_to(Err(error))); renewals.len()],
            }
        })
    }

    fn shares_requests_with(&self, other: &dyn LeaseBackend) -> bool {
        let other = (other as &dyn std::any::Any).downcast_ref::<Self>();
        other.is_some_and(|other| self.store.is_same(&other.store))
    }

    fn proclaim(&self, lease_id: LeaseId, metadata: Metadata) -> BackendFuture<'_, ()> {
        Box::pin(async move {
            let lease_id = wire_id(lease_id);
            let body = MetadataRequest { lease_id, metadata };
            let call = Call {
                method: Method::PUT,
                ..Call::post(path(&self.election, "/metadata"), &body)
            };
            let _: LeaseView = self.store.ask_once(&call).await?;
            Ok(())
        })
    }

    fn lease_after(&self, after: u64, wait: Duration) -> BackendFuture<'_, Option<LeaseView>> {
        Box::pin(async move { Ok(self.store.lease_after(&self.election, after, wait).await?) })
    }

    fn ping(&self) -> BackendFuture<'_, Pong> {
        Box::pin(async move { Ok(self.store.ping().await?) })
    }

    fn address(&self) -> String {
        let servers = self.store.endpoints.iter().map(ToString::to_string);
        servers.collect::<Vec<_>>().join(", ")
    }
}

impl HttpStore {
    /// Warns once if a leader would lose its term while another server of the store takes over.
    fn compare_timings(&self) {
        let Some(ownership) = self.store.ownership().filter(|_| self.is_alone) else {
            return;
        };
        let millis = millis(ownership);
        if self.compared_ms.fetch_max(millis, Ordering::Relaxed) < millis
            && let Some(warning) = self.timings.take_over_warning(ownership)
        {
            tracing::warn!(election = %self.election, "{warning}");
        }
    }

    /// Adds the request and the origin of the credential to the refusal of a candidate that the
    /// store has never accepted.
    fn settle(&self, reply: BackendReply) -> BackendReply {
        // Only a store that accepts the credential executes a request or tells the holder.
        let access = |answer: &Answer| match answer {
            Answer::Unknown(_) | Answer::Refused(_) => Access::Unknown,
            _ => Access::Admitted,
        };
        self.admission.settle(reply, access, || {
            let origin = self.store.credentials.origin();
            let refused = path(&self.election, "/acquire");
            format!("it refused POST {refused}; {origin}")
        })
    }
}

impl From<StoreError> for BackendError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unreachable { .. } => Self::Unreachable(error.into()),
            StoreError::Problem(problem) if !problem.code.is_transient() => {
                Self::Definite(error.into())
            }
            StoreError::AnotherStore { .. } => Self::Definite(error.into()),
            StoreError::Problem(_) | StoreError::NotAStore { .. } => Self::Transient(error.into()),
        }
    }
}

fn wire_id(lease_id: LeaseId) -> String {
    lease_id.to_wire().to_string()
}

fn reply_to(answer: Result<LeaseView, StoreError>) -> BackendReply {
    let answer = match answer {
        Ok(view) => match view.epoch.and_then(Epoch::new) {
            Some(epoch) => Answer::Held(epoch),
            None => Answer::Unknown("the store's answer has no epoch".into()),
        },
        Err(StoreError::Problem(problem)) => return reply_to_problem(&problem),
        // The request failed on the network, or another server answers at this address for now,
        // such as a proxy whose backend is down.
        Err(error) => Answer::Unknown(error.to_string()),
    };
    answer.into()
}

/// Returns the reply to a problem that the store has answered with, even if the same request may
/// succeed later.
fn reply_to_problem(problem: &Problem) -> BackendReply {
    let answer = answer_to_problem(problem);
    let outcome = match answer {
        Answer::Denied(_) => RequestOutcome::Unauthorized,
        _ => RequestOutcome::Refused,
    };
    BackendReply { answer, outcome }
}

fn answer_to_problem(problem: &Problem) -> Answer {
    let why = || format!("{} ({})", problem.detail, problem.code.as_str());
    match problem.code {
        Code::LeaseHeld => {
            let holder = problem.holder.as_ref();
            let holder = holder.and_then(|holder| holder.parse::<CandidateId>().ok());
            Answer::HeldByAnother(holder.zip(problem.epoch.and_then(Epoch::new)))
        }
        Code::LeaseIdRetired => Answer::IdRetired,
        Code::LeaseBroken | Code::LeaseBreaking => Answer::Broken {
            remaining: Duration::from_millis(problem.remaining_ms.unwrap_or(0)),
        },
        Code::LeaseExpired => Answer::Expired,
        Code::LeaseIdMismatch | Code::LeaseNotHeld | Code::UnknownLease | Code::EpochPassed => {
            Answer::Superseded
        }
        Code::Unauthenticated | Code::Forbidden => Answer::Denied(why()),
        code if code.is_transient() => Answer::Unknown(why()),
        _ => Answer::Refused(why()),
    }
}
