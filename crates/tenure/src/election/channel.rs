//! The channel to a lease service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::{LeaseEffect, Request};
use tokio::task::AbortHandle;
use tracing::{Span, debug, info, warn};

use super::spans;
use super::term::Proclaimer;
use crate::config::Config;
use crate::election::metrics::Recorder;
use crate::service::{RequestOutcome, SharedBackend};

/// The channel for a candidate's requests to its lease service.
pub(crate) struct LeaseChannel {
    pub(super) config: Arc<Config>,
    pub(super) backend: SharedBackend,
    /// Requests of the machine that have not been sent.
    pub(super) outbox: Vec<OutgoingRequest>,
    /// The span of a request for the lease, of a term at risk, or of the end of a term. There is
    /// none while renewals succeed.
    pub(super) span: Span,
    /// The request in flight, if it can be aborted.
    in_flight: Option<AbortHandle>,
    /// The attempt of the last renewal, and the time at which it was sent.
    renewal: Option<(u64, Instant)>,
    metrics: Arc<Recorder>,
    /// Whether the last request got no answer.
    is_silent: bool,
    /// The reasons of failed requests, and when each was last given.
    reasons: BTreeMap<String, Instant>,
}

/// A reason that has not occurred for this time is logged again.
const QUIET: Duration = Duration::from_secs(60);

/// The number of reasons that are remembered. A service that gives another one each time must not
/// fill the memory.
const MAX_REASONS: usize = 16;

/// A request to send: the attempt, the request, and its timeout.
pub(super) type OutgoingRequest = (u64, Request, Duration);

impl LeaseChannel {
    pub(crate) fn new(config: Arc<Config>, backend: SharedBackend, metrics: Arc<Recorder>) -> Self {
        Self {
            config,
            backend,
            outbox: Vec::new(),
            span: Span::none(),
            in_flight: None,
            renewal: None,
            metrics,
            is_silent: false,
            reasons: BTreeMap::new(),
        }
    }

    /// Returns whether a renewal is waiting to be sent.
    pub(super) fn renews(&self) -> bool {
        let mut requests = self.outbox.iter().map(|(_, request, _)| request);
        requests.any(|request| matches!(request, Request::Renew(_)))
    }

    /// Records the request in flight, and aborts the previous one.
    pub(super) fn set_in_flight(&mut self, request: Option<AbortHandle>) {
        if let Some(last) = std::mem::replace(&mut self.in_flight, request) {
            last.abort();
        }
    }

    pub(super) fn execute(&mut self, now: Instant, effect: LeaseEffect) {
        let config = self.config.clone();
        let (election, candidate) = (&config.election, &config.candidate);
        match effect {
            LeaseEffect::Send {
                attempt,
                request,
                timeout,
            } => {
                debug!(%election, %candidate, attempt, operation = name(&request), "request");
                if let Request::Renew(_) = request {
                    self.renewal = Some((attempt, now));
                }
                if matches!(request, Request::Acquire { .. }) {
                    self.span = spans::campaign(&self.config, attempt);
                }
                self.outbox.push((attempt, request, timeout));
            }
            LeaseEffect::Retrying(why, delay) => {
                let error = match delay {
                    Some(delay) => format!("{why}; trying again in {delay:.1?}"),
                    None => why.clone(),
                };
                // A service may be away or refuse for days.
                match self.is_new_reason(now, why) {
                    true => warn!(parent: &self.span, %election, %candidate, error, "retrying"),
                    false => debug!(parent: &self.span, %election, %candidate, error, "retrying"),
                }
            }
        }
    }

    fn is_new_reason(&mut self, now: Instant, why: String) -> bool {
        self.reasons.retain(|_, last| now.since(*last) < QUIET);
        if self.reasons.len() >= MAX_REASONS {
            self.reasons.pop_first();
        }
        self.reasons.insert(why, now).is_none()
    }

    /// Counts a reply of the lease service.
    pub(super) fn count(&mut self, now: Instant, attempt: u64, outcome: RequestOutcome) {
        let is_silent = outcome == RequestOutcome::NoAnswer;
        if std::mem::replace(&mut self.is_silent, is_silent) && !is_silent {
            let (election, candidate) = (&self.config.election, &self.config.candidate);
            info!(%election, %candidate, "the {} answers again", self.backend.kind());
        }
        if outcome == RequestOutcome::Unauthorized {
            self.metrics.auth_failure();
        }
        if let Some((_, sent)) = self.renewal.take_if(|(renewal, _)| *renewal == attempt) {
            self.metrics.renewal(outcome, now.since(sent));
        }
    }

    /// Publishes these metadata if this candidate holds the lease.
    pub(super) fn proclaim(
        &self,
        lease_id: Option<LeaseId>,
        metadata: BTreeMap<String, String>,
        done: Proclaimer,
    ) {
        // Without a lease the term is over. Dropping `done` reports that.
        let Some(lease_id) = lease_id else { return };
        let backend = self.backend.clone();
        tokio::spawn(async move {
            let proclaimed = backend.proclaim(lease_id, metadata).await;
            let _ = done.send(proclaimed.map_err(Into::into));
        });
    }
}

const fn name(request: &Request) -> &'static str {
    match request {
        Request::Acquire { .. } => "acquire",
        Request::Renew(_) => "renew",
        Request::Look(_) => "look",
        Request::Resume { .. } => "resume",
        Request::Release { .. } => "release",
        Request::HandOver { .. } => "handover",
    }
}
