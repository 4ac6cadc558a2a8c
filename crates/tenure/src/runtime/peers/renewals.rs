//! Counts the rounds of renewals of a leader with a quorum.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::election::Standing;

use crate::backend::RequestOutcome;
use crate::metrics::Recorder;

/// The rounds of renewals, for the metrics. The machine does not need it.
pub(super) struct Rounds {
    metrics: Arc<Recorder>,
    /// The number of the last round, and the time of its first message, until a majority confirms
    /// the round.
    pending: Option<(u64, Instant)>,
    /// The end of the term without another renewal, at the last turn.
    until: Option<Instant>,
}

impl Rounds {
    pub(super) const fn new(metrics: Arc<Recorder>) -> Self {
        Self {
            metrics,
            pending: None,
            until: None,
        }
    }

    /// Handles a message of this round. The round before it has failed if it is still pending.
    pub(super) fn begin(&mut self, now: Instant, round: u64) {
        if self.pending.is_some_and(|(pending, _)| pending == round) {
            return;
        }
        if self.pending.replace((round, now)).is_some() {
            let outcome = RequestOutcome::NoAnswer;
            self.metrics.renewal(outcome, Duration::ZERO);
        }
    }

    /// Counts the round if a majority has confirmed it, which extends the term.
    pub(super) fn confirm(&mut self, now: Instant, standing: Standing) {
        let until = match standing {
            Standing::Leading { until, .. } => Some(until),
            Standing::Idle | Standing::Campaigning | Standing::Ending => None,
        };
        // The beginning of a term is not a renewal.
        let is_extended = self.until.is_some() && until > self.until;
        self.until = until;
        match self.pending {
            Some((_, sent)) if is_extended => {
                self.pending = None;
                let duration = now.since(sent);
                self.metrics.renewal(RequestOutcome::Ok, duration);
            }
            // A round of a term that is over counts for nothing.
            Some(_) if until.is_none() => self.pending = None,
            _ => {}
        }
    }
}
