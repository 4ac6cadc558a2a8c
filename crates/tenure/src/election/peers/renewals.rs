//! Counts the rounds of renewals of a leader with a quorum.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::election::Standing;

use crate::election::metrics::Recorder;
use crate::service::RequestOutcome;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use crate::config::Config;
    use tenure_core::Epoch;

    #[test]
    fn a_round_counts_once_when_a_majority_extends_the_term_or_the_next_round_begins() {
        let config = Arc::new(Config::new("tests/job".parse().unwrap()));
        let metrics = Arc::new(Recorder::new(config, Clock::system().unwrap()));
        let counts = || {
            let metrics = metrics.snapshot(&tokio::sync::watch::channel(None).1);
            let renewals = metrics.renewals;
            (
                renewals.ok,
                renewals.no_answer,
                metrics.renewal_duration.count,
            )
        };
        let at = |millis| Instant::default() + Duration::from_millis(millis);
        let leading = |until| Standing::Leading {
            epoch: Epoch::new(1).unwrap(),
            until: at(until),
        };
        let mut rounds = Rounds::new(metrics.clone());

        // The beginning of a term is no renewal, and the messages of a round are one renewal.
        rounds.begin(at(0), 1);
        rounds.begin(at(0), 1);
        rounds.confirm(at(0), leading(10));
        assert_eq!(counts(), (0, 0, 0));
        rounds.confirm(at(2), leading(12));
        rounds.confirm(at(3), leading(12));
        assert_eq!(counts(), (1, 0, 1));

        rounds.begin(at(5), 2);
        rounds.begin(at(10), 3);
        assert_eq!(counts(), (1, 1, 1));
        rounds.confirm(at(11), leading(20));
        assert_eq!(counts(), (2, 1, 2));

        // A term that ends takes its last round with it.
        rounds.begin(at(15), 4);
        rounds.confirm(at(16), Standing::Ending);
        rounds.begin(at(20), 1);
        assert_eq!(counts(), (2, 1, 2));
    }
}
