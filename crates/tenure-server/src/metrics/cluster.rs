//! The numbers of a server of a cluster.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::histogram::Histogram;
use super::store::LATENCIES;
use super::{CounterSet, Exposition, Label, Sample};

/// The counters and the histogram of a server of a cluster, since its start.
#[derive(Debug)]
pub(crate) struct ClusterMetrics {
    take_overs: AtomicU64,
    lapses: AtomicU64,
    base_failures: AtomicU64,
    appends: CounterSet<AppendResult>,
    append_duration: Histogram,
}

/// The result of one attempt of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendResult {
    /// It was applied.
    Done,
    /// Another head stands in the log.
    Refused,
    /// It was not applied for another reason.
    NotApplied,
    /// There was no answer, or one that proves nothing.
    Unknown,
}

impl Label for AppendResult {
    const ALL: &'static [Self] = &[Self::Done, Self::Refused, Self::NotApplied, Self::Unknown];

    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::NotApplied => "not_applied",
            Self::Unknown => "unknown",
        }
    }
}

impl Default for ClusterMetrics {
    fn default() -> Self {
        Self {
            take_overs: AtomicU64::default(),
            lapses: AtomicU64::default(),
            base_failures: AtomicU64::default(),
            appends: CounterSet::default(),
            append_duration: Histogram::new(&LATENCIES),
        }
    }
}

impl ClusterMetrics {
    /// Counts a take-over by this server.
    pub(crate) fn took_over(&self) {
        self.take_overs.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a time at which this server began to answer nobody, because its appends failed.
    pub(crate) fn lapsed(&self) {
        self.lapses.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a segment or a snapshot that this server could not write.
    pub(crate) fn base_failed(&self) {
        self.base_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one attempt of an append, which took this long.
    pub(crate) fn appended(&self, result: AppendResult, took: Duration) {
        self.appends.add(result);
        if result == AppendResult::Done {
            self.append_duration.observe(took.as_secs_f64());
        }
    }

    pub(crate) fn expose(&self, out: &mut Exposition) {
        let count = |counter: &AtomicU64| [Sample::count(counter.load(Ordering::Relaxed))];
        out.counter(
            "tenure_cluster_take_overs_total",
            "Take-overs by this server.",
            count(&self.take_overs),
        );
        out.counter(
            "tenure_cluster_lapses_total",
            "Times at which this server was active and began to answer nobody, because its appends \
             failed.",
            count(&self.lapses),
        );
        out.counter(
            "tenure_cluster_base_failures_total",
            "Segments and snapshots of the log that this server could not write.",
            count(&self.base_failures),
        );
        out.counters(
            "tenure_cluster_appends_total",
            "Attempts of appends to the log, by their results.",
            "result",
            &self.appends,
        );
        out.family(
            "histogram",
            "tenure_cluster_append_duration_seconds",
            "The time of an append that was applied.",
            self.append_duration.samples(None),
        );
    }
}
