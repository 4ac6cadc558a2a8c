//! The counters behind a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::lease::candidate::EndReason;
use tenure_core::time::millis;
use tenure_core::{Epoch, Instant};
use tokio::sync::watch;

#[cfg(feature = "peers")]
use super::FallbackMetrics;
use super::histogram::AtomicHistogram;
use super::{Metrics, RenewalCounts};
use crate::base::clock::Clock;
use crate::config::Config;
use crate::election::term::TermState;
#[cfg(feature = "peers")]
use crate::peers::transport::PeerEndpoint;
use crate::service::RequestOutcome;

#[cfg(feature = "metrics")]
use super::facade::Durations;

/// The upper bounds of the durations of renewals: from a store on the same machine to one that
/// answers at the last moment.
const RENEWAL_BOUNDS_MS: [u32; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000];

/// The upper bounds of the durations of stops. The longest stop grace is that of a long lease.
const STOP_BOUNDS_MS: [u32; 12] = [
    10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
];

/// The numbers of a candidate. The thread that renews writes them, and any thread reads them. They
/// are atomic, so a reader never delays a renewal.
#[derive(Debug)]
pub(crate) struct Recorder {
    config: Arc<Config>,
    clock: Clock,
    /// The shared part of a member of a group, which has the counters of its messages.
    #[cfg(feature = "peers")]
    member: Option<Arc<PeerEndpoint>>,
    /// The epoch of the last term; 0 if there was none.
    epoch: AtomicU64,
    /// The renew deadline on the candidate's clock; 0 if the candidate does not lead.
    deadline: AtomicU64,
    /// The same by the wall clock.
    deadline_ms: AtomicU64,
    last_renewal_ms: AtomicU64,
    renewals_ok: AtomicU64,
    renewals_refused: AtomicU64,
    renewals_no_answer: AtomicU64,
    /// In the order of [`EndReason::ALL`].
    terms_ended: [AtomicU64; EndReason::ALL.len()],
    at_risk: AtomicU64,
    overruns: AtomicU64,
    suspensions: AtomicU64,
    auth_failures: AtomicU64,
    renewal_duration: AtomicHistogram,
    stop_duration: AtomicHistogram,
    /// The single durations, for the facade.
    #[cfg(feature = "metrics")]
    pub(super) durations: Durations,
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

/// Returns the number, or `None` if it is 0.
fn some(number: &AtomicU64) -> Option<u64> {
    Some(read(number)).filter(|number| *number > 0)
}

impl Recorder {
    pub(crate) fn new(config: Arc<Config>, clock: Clock) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            config,
            clock,
            #[cfg(feature = "peers")]
            member: None,
            epoch: zero(),
            deadline: zero(),
            deadline_ms: zero(),
            last_renewal_ms: zero(),
            renewals_ok: zero(),
            renewals_refused: zero(),
            renewals_no_answer: zero(),
            terms_ended: EndReason::ALL.map(|_| zero()),
            at_risk: zero(),
            overruns: zero(),
            suspensions: zero(),
            auth_failures: zero(),
            renewal_duration: AtomicHistogram::new(&RENEWAL_BOUNDS_MS),
            stop_duration: AtomicHistogram::new(&STOP_BOUNDS_MS),
            #[cfg(feature = "metrics")]
            durations: Durations::default(),
        }
    }

    /// Adds the counters of a member of a group.
    #[cfg(feature = "peers")]
    pub(crate) fn with_member(self, member: Option<Arc<PeerEndpoint>>) -> Self {
        Self { member, ..self }
    }

    pub(crate) fn began(&self, epoch: Epoch) {
        self.epoch.store(epoch.get(), Ordering::Relaxed);
    }

    /// Records until when the term is valid without a renewal; `None` if the candidate does not
    /// lead. The wall clock is read at the change, so a gauge is constant between two renewals.
    pub(crate) fn set_deadline(&self, until: Option<Instant>) {
        let nanos = until.map_or(0, Instant::as_nanos);
        if self.deadline.swap(nanos, Ordering::Relaxed) == nanos {
            return;
        }
        let Some(until) = until else {
            return self.deadline_ms.store(0, Ordering::Relaxed);
        };
        let left = until.since(self.clock.now());
        let deadline_ms = self.clock.wall().get() + millis(left);
        let sent_ms = deadline_ms.saturating_sub(millis(self.config.timings.renew_deadline()));
        self.deadline_ms.store(deadline_ms, Ordering::Relaxed);
        self.last_renewal_ms.store(sent_ms, Ordering::Relaxed);
    }

    /// Records the result of a renewal, and its duration if it succeeded.
    pub(crate) fn renewal(&self, outcome: RequestOutcome, duration: Duration) {
        add_one(match outcome {
            RequestOutcome::Ok => &self.renewals_ok,
            RequestOutcome::Refused | RequestOutcome::Unauthorized => &self.renewals_refused,
            RequestOutcome::NoAnswer => &self.renewals_no_answer,
        });
        if outcome == RequestOutcome::Ok {
            self.renewal_duration.record(duration);
            #[cfg(feature = "metrics")]
            self.durations.add_renewal(duration);
        }
    }

    /// Records the time that the task took to stop after it was asked to stop.
    pub(crate) fn stopped(&self, duration: Duration) {
        self.stop_duration.record(duration);
        #[cfg(feature = "metrics")]
        self.durations.add_stop(duration);
    }

    pub(crate) fn ended(&self, reason: EndReason) {
        let known = EndReason::ALL.iter().zip(&self.terms_ended);
        known
            .filter(|(known, _)| **known == reason)
            .for_each(|(_, ended)| add_one(ended));
    }

    pub(crate) fn at_risk(&self) {
        add_one(&self.at_risk);
    }

    pub(crate) fn overrun(&self) {
        add_one(&self.overruns);
    }

    pub(crate) fn suspended(&self) {
        add_one(&self.suspensions);
    }

    pub(crate) fn auth_failure(&self) {
        add_one(&self.auth_failures);
    }

    /// Returns all numbers. `terms` has the current term.
    pub(crate) fn snapshot(&self, terms: &watch::Receiver<Option<Arc<TermState>>>) -> Metrics {
        let term = terms.borrow().clone();
        #[cfg(feature = "peers")]
        let fallback = self.fallback(term.as_deref());
        let ended = EndReason::ALL.into_iter().zip(&self.terms_ended);
        Metrics {
            election: self.config.election.clone(),
            candidate: self.config.candidate.clone(),
            leads: term.is_some_and(|term| !term.until(&term.valid_until).is_zero()),
            epoch: some(&self.epoch),
            last_renewal_unix_ms: some(&self.last_renewal_ms),
            deadline_unix_ms: some(&self.deadline_ms),
            renewals: RenewalCounts {
                ok: read(&self.renewals_ok),
                refused: read(&self.renewals_refused),
                no_answer: read(&self.renewals_no_answer),
            },
            terms_ended: ended.map(|(reason, ended)| (reason, read(ended))).collect(),
            at_risk: read(&self.at_risk),
            overruns: read(&self.overruns),
            suspensions: read(&self.suspensions),
            auth_failures: read(&self.auth_failures),
            renewal_duration: self.renewal_duration.snapshot(),
            stop_duration: self.stop_duration.snapshot(),
            #[cfg(feature = "peers")]
            fallback,
            #[cfg(feature = "peers")]
            peers: self.member.as_deref().map(PeerEndpoint::metrics),
        }
    }

    /// Returns the voters of this term, if the candidate has a fallback.
    #[cfg(feature = "peers")]
    fn fallback(&self, term: Option<&TermState>) -> Option<FallbackMetrics> {
        self.config.fallback()?;
        let Some(quorum) = term.and_then(|term| *term.quorum.borrow()) else {
            return Some(FallbackMetrics::default());
        };
        let now = self.clock.wall().get();
        let silent = quorum
            .store_silent_since
            .map_or(0, |since| now.saturating_sub(since.get()));
        Some(FallbackMetrics {
            kind: Some(quorum.kind),
            store_silent: Duration::from_millis(silent),
        })
    }
}
