//! The numbers that the store counts.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::election::EndReason;
use tenure_core::lease::TermEnd;

use super::counters::StripedCounter;
use super::histogram::Histogram;
use super::{CounterSet, Exposition, Label, Sample};
use crate::model::{GrantPath, LeaseChange, Sink, TermRecord};

/// The counters and histograms of a store.
#[derive(Debug)]
pub(crate) struct StoreMetrics {
    grants: CounterSet<GrantPath>,
    /// The ended terms, by end and then by reason.
    ended: Box<[AtomicU64]>,
    renewals: [StripedCounter; 2],
    release_to_grant: Histogram,
    expiry_to_grant: Histogram,
    commit_duration: Histogram,
    commit_changes: Histogram,
    tidy_duration: Histogram,
    pub(crate) is_disk_full: AtomicBool,
    event_resets: AtomicU64,
}

impl Label for GrantPath {
    const ALL: &'static [Self] = &[Self::AtOnce, Self::Waited, Self::HandedOver];

    fn as_str(self) -> &'static str {
        match self {
            Self::AtOnce => "at_once",
            Self::Waited => "waited",
            Self::HandedOver => "handed_over",
        }
    }
}

/// The kind of request that renewed a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewalKind {
    /// A request for one lease.
    One,
    /// A request for many leases.
    Many,
}

/// The values of the label `end`.
const ENDS: [TermEnd; 4] = [
    TermEnd::Released,
    TermEnd::Expired,
    TermEnd::Broken,
    TermEnd::HandedOver,
];

/// The values of the label `reason`: the reasons that candidates give, a term without a reason, and
/// all other reasons.
static REASONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let known = EndReason::ALL.iter().map(ToString::to_string);
    known.chain(["none".into(), "other".into()]).collect()
});

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            grants: CounterSet::default(),
            ended: ENDS
                .iter()
                .flat_map(|_| REASONS.iter().map(|_| AtomicU64::default()))
                .collect(),
            renewals: [StripedCounter::default(), StripedCounter::default()],
            release_to_grant: Histogram::new(&LATENCIES),
            expiry_to_grant: Histogram::new(&LATENCIES),
            commit_duration: Histogram::new(&LATENCIES),
            commit_changes: Histogram::new(&COUNTS),
            tidy_duration: Histogram::new(&LATENCIES),
            is_disk_full: AtomicBool::default(),
            event_resets: AtomicU64::default(),
        }
    }
}

/// The upper bounds of the buckets for times, in seconds.
pub(super) const LATENCIES: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

const COUNTS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 2000.0];

impl StoreMetrics {
    /// Counts successful renewals. Nearly all requests are renewals, so this costs one addition.
    pub(crate) fn renewed(&self, kind: RenewalKind) {
        let [one, many] = &self.renewals;
        match kind {
            RenewalKind::One => one.add(1),
            RenewalKind::Many => many.add(1),
        }
    }

    /// Records the time from the end of a term to a grant to a waiter.
    pub(crate) fn granted_after(&self, end: TermEnd, time: Duration) {
        let histogram = match end {
            TermEnd::Expired => &self.expiry_to_grant,
            TermEnd::Released | TermEnd::Broken | TermEnd::HandedOver => &self.release_to_grant,
        };
        histogram.observe(time.as_secs_f64());
    }

    /// Records a successful commit.
    pub(crate) fn commit(&self, time: Duration, changes: usize) {
        self.commit_duration.observe(time.as_secs_f64());
        #[allow(clippy::cast_precision_loss)] // A commit has far less than 2^52 changes.
        self.commit_changes.observe(changes as f64);
        self.is_disk_full.store(false, Ordering::Relaxed);
    }

    pub(crate) fn upkeep(&self, time: Duration) {
        self.tidy_duration.observe(time.as_secs_f64());
    }

    pub(crate) fn event_reset(&self) {
        self.event_resets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn expose(&self, out: &mut Exposition) {
        out.counters(
            "tenure_grants_total",
            "Terms that began: at once, after the candidate had waited, or for the candidate to which \
             the lease was handed over.",
            "how",
            &self.grants,
        );
        let labels = ENDS
            .iter()
            .flat_map(|end| REASONS.iter().map(move |reason| (end, reason)));
        let ended = self.ended.iter().zip(labels).map(|(count, (end, reason))| {
            let sample = Sample::count(count.load(Ordering::Relaxed));
            sample.with("end", &end.to_string()).with("reason", reason)
        });
        out.counter(
            "tenure_terms_ended_total",
            "Terms that ended, with the reason that the holder gave.",
            ended,
        );
        let [one, many] = &self.renewals;
        let renewals = [("one", one), ("many", many)];
        out.counter(
            "tenure_renewals_total",
            "Successful renewals, by requests for one lease and for many leases.",
            renewals.map(|(way, count)| Sample::count(count.get()).with("way", way)),
        );
        for (histogram, name, help) in [
            (
                &self.release_to_grant,
                "tenure_release_to_grant_seconds",
                "The time from the end of a term by a request to the grant to a waiter, on disk.",
            ),
            (
                &self.expiry_to_grant,
                "tenure_expiry_to_grant_seconds",
                "The time from the expiry of a term to the grant to a waiter, on disk.",
            ),
            (
                &self.commit_duration,
                "tenure_commit_duration_seconds",
                "The time of a commit, with its sync.",
            ),
            (
                &self.commit_changes,
                "tenure_commit_changes",
                "The number of changes in a commit.",
            ),
            (
                &self.tidy_duration,
                "tenure_tidy_duration_seconds",
                "The time of the upkeep: the work after a commit that keeps the log short.",
            ),
        ] {
            out.family("histogram", name, help, histogram.samples(None));
        }
        let resets = self.event_resets.load(Ordering::Relaxed);
        out.counter(
            "tenure_event_resets_total",
            "Watchers that had missed events and must read the leases again.",
            [Sample::count(resets)],
        );
    }
}

impl Sink for StoreMetrics {
    /// Counts the grants and the ends of terms.
    fn committed(&self, changes: &[LeaseChange]) {
        for change in changes {
            if let Some(path) = change.grant_path {
                self.grants.add(path);
            }
            let ended = change.term.as_deref().and_then(place_of);
            if let Some(counter) = ended.and_then(|place| self.ended.get(place)) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Returns the place of the counter of an ended term; `None` if the term continues.
fn place_of(term: &TermRecord) -> Option<usize> {
    let (end, _) = term.ended?;
    let end = ENDS.iter().position(|known| *known == end)?;
    let reason = term.reason.as_deref().unwrap_or("none");
    let known = REASONS.iter().position(|known| known == reason);
    Some(end * REASONS.len() + known.unwrap_or(REASONS.len() - 1))
}
