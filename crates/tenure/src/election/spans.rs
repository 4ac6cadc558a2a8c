//! The spans of a candidate: see [`trace`].

use std::sync::Arc;

use tenure_core::election::EndReason;
use tenure_core::{Epoch, Instant};
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::base::trace;
use crate::config::Config;
use crate::election::term::TermState;

/// Begins the span of one request for the lease.
pub(super) fn campaign(config: &Config, attempt: u64) -> Span {
    let (election, candidate) = (&config.election, &config.candidate);
    let attempt = attempt.cast_signed();
    info_span!(parent: None, "tenure.campaign", %election, %candidate, attempt, epoch = Empty)
}

/// Begins the span from the grant until the task runs.
pub(super) fn term_begin(config: &Config, epoch: Epoch, campaign: &Span) -> Span {
    let epoch = number(epoch);
    campaign.record("epoch", epoch);
    let (election, candidate) = (&config.election, &config.candidate);
    info_span!(parent: campaign, "tenure.term.begin", %election, %candidate, epoch)
}

/// Begins the span in which renewals fail.
pub(super) fn at_risk(term: &TermState) -> Span {
    let Config {
        election,
        candidate,
        ..
    } = &*term.config;
    let epoch = number(term.epoch);
    let span = info_span!(parent: None, "tenure.at_risk", %election, %candidate, epoch);
    trace::link(&span, term.traceparent.as_deref());
    span
}

/// The span from the first reason for the end of a term until its lease is released.
#[derive(Debug)]
pub(super) struct TermEnd {
    pub(super) span: Span,
    pub(super) began: Instant,
    overrun: bool,
}

impl TermEnd {
    pub(super) fn begin(term: &TermState, reason: EndReason, now: Instant) -> Self {
        let config: &Arc<Config> = &term.config;
        let (election, candidate, epoch) =
            (&config.election, &config.candidate, number(term.epoch));
        let span = info_span!(parent: None, "tenure.term.end", %election, %candidate, epoch, %reason,
            stop_ms = Empty, overrun = Empty);
        trace::link(&span, term.traceparent.as_deref());
        Self {
            span,
            began: now,
            overrun: false,
        }
    }

    /// Records how long the task has taken to stop.
    pub(super) fn record_stop(&self, now: Instant) {
        let stop = now.since(self.began).as_millis();
        self.span
            .record("stop_ms", i64::try_from(stop).unwrap_or(i64::MAX));
    }

    /// Returns whether this is the first overrun of the term.
    pub(super) fn record_overrun(&mut self) -> bool {
        !std::mem::replace(&mut self.overrun, true)
    }

    pub(super) fn trace_id(&self) -> Option<String> {
        let traceparent = trace::traceparent(&self.span)?;
        trace::trace_id(&traceparent).map(str::to_owned)
    }
}

impl Drop for TermEnd {
    fn drop(&mut self) {
        self.span.record("overrun", self.overrun);
    }
}

/// Returns the epoch as tracing systems have it: OpenTelemetry has no unsigned numbers, and the
/// export would convert one to text.
const fn number(epoch: Epoch) -> i64 {
    epoch.get().cast_signed()
}
