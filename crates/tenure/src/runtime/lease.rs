//! Election by a lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::election::{ElectionMachine as _, Output, TermEvent};
use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::{LeaseCandidate, LeaseEffect, Request};
use tenure_core::{CandidateId, Instant};
use tokio::task::AbortHandle;
use tracing::{Span, debug, info, warn};

use super::command::Proclaimer;
use super::spans;
use super::strategy_io::{StrategyInput, StrategyIo};
use crate::backend::{BackendReply, RequestOutcome, SharedBackend};
use crate::config::Config;
use crate::metrics::Recorder;
use crate::random::OsRandom;

/// A candidate that competes for a lease, with its channel to the lease service.
pub(crate) struct LeaseStrategy {
    machine: LeaseCandidate,
    channel: LeaseChannel,
}

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

impl LeaseStrategy {
    pub(crate) fn new(config: Arc<Config>, backend: SharedBackend, metrics: Arc<Recorder>) -> Self {
        Self {
            machine: LeaseCandidate::new(config.timings).with_looks(backend.has_other_writers()),
            channel: LeaseChannel::new(config, backend, metrics),
        }
    }
}

impl StrategyInput for LeaseStrategy {
    fn handle_timeout(&mut self, now: Instant) {
        self.machine.handle_timeout(now, &mut OsRandom);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }

    fn channel(&mut self) -> Option<&mut LeaseChannel> {
        Some(&mut self.channel)
    }

    fn handle_reply(&mut self, now: Instant, attempt: u64, reply: BackendReply) {
        self.channel.count(now, attempt, reply.outcome);
        let message = (attempt, reply.answer);
        self.machine.handle_message(now, message, &mut OsRandom);
    }

    fn renew_early(&mut self, now: Instant) {
        self.machine.renew_early(now, &mut OsRandom);
    }
}

impl StrategyIo for LeaseStrategy {
    type Machine = LeaseCandidate;

    fn machine(&mut self) -> &mut LeaseCandidate {
        &mut self.machine
    }

    fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent> {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Effect(effect) => self.channel.execute(now, effect),
                Output::Term(event) => return Some(event),
            }
        }
        None
    }

    fn hand_over(&mut self, now: Instant, to: CandidateId) -> Result<(), &'static str> {
        if !self.channel.backend.can_hand_over() {
            return Err(
                "this strategy can't hand a lease over to a chosen candidate; the term goes on",
            );
        }
        self.machine.hand_over(now, to);
        Ok(())
    }

    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: Proclaimer) {
        self.channel
            .proclaim(self.machine.lease_id(), metadata, done);
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
