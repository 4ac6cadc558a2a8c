//! Metrics of a candidate: a snapshot of plain numbers.
//!
//! [`Candidate::metrics`](crate::Candidate::metrics) returns the snapshot. With the feature
//! `metrics`, each candidate also publishes the same numbers through the facade of the crate
//! [`metrics`](https://docs.rs/metrics), for the exporter of the application. `tenure run
//! --status-listen` serves them in the text format of Prometheus.
//!
//! # The facade
//!
//! Install the exporter before you start candidates: the facade drops what it receives before.
//! Counters and gauges are published at the beginning and at the end of each term, and every two
//! seconds. A task on the runtime that started the candidate publishes them, so a slow exporter
//! can't delay renewals. Gauges without a value are 0. The names, the units and the labels are those
//! of `docs/metrics.md`.

mod histogram;
mod recorder;

#[cfg(feature = "metrics")]
mod facade;
#[cfg(any(feature = "metrics", feature = "config-file"))]
mod families;

use tenure_core::lease::candidate::EndReason;
use tenure_core::{CandidateId, ElectionName};

#[cfg(feature = "metrics")]
pub(crate) use facade::publish;
#[cfg(any(feature = "metrics", feature = "config-file"))]
#[doc(hidden)]
pub use families::{MetricFamily, MetricSample, MetricValue};
pub use histogram::{DurationBucket, DurationHistogram};
pub(crate) use recorder::Recorder;

#[cfg(feature = "peers")]
pub use crate::peers::wire::PeerMetrics;

/// The numbers of a candidate at one moment. Counters begin at zero when the candidate starts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// The election in which the candidate competes.
    pub election: ElectionName,
    /// The candidate.
    pub candidate: CandidateId,
    /// Whether the candidate leads at this moment, by its own clock.
    pub leads: bool,
    /// The epoch of the current term, or of the last term of this candidate; `None` before its first
    /// term.
    pub epoch: Option<u64>,
    /// When the last successful renewal was sent, or the request that won the term: milliseconds
    /// since 1970. It stays after a term. `None` before the first term.
    pub last_renewal_unix_ms: Option<u64>,
    /// When the term ends unless a renewal succeeds before (the renew deadline): milliseconds since
    /// 1970. `None` while the candidate does not lead.
    pub deadline_unix_ms: Option<u64>,
    /// The renewals of its terms, by their results.
    pub renewals: RenewalCounts,
    /// The number of its terms that have ended, for each reason.
    pub terms_ended: Vec<(EndReason, u64)>,
    /// How often a renewal failed after a successful one, so that the term was at risk.
    pub at_risk: u64,
    /// How often a task was still running after its abort.
    pub overruns: u64,
    /// How often the process did not run for a second or longer while the candidate led, for
    /// instance because it was stopped, or the machine was suspended or overloaded.
    pub suspensions: u64,
    /// The number of requests that the store refused because of the credential of the candidate:
    /// the store does not accept it (401), or it does not allow this election (403).
    pub auth_failures: u64,
    /// The durations of successful renewals, from the request to its answer. Among peers: from the
    /// first message of a round to the answer that completed the majority.
    pub renewal_duration: DurationHistogram,
    /// The durations from the request to stop until the task had stopped. Terms whose task ended by
    /// itself do not count.
    pub stop_duration: DurationHistogram,
    /// The voters of the term, with a fallback.
    #[cfg(feature = "peers")]
    pub fallback: Option<FallbackMetrics>,
    /// The numbers of the member of a group, with the strategies `bully` and `both` and with a
    /// fallback.
    #[cfg(feature = "peers")]
    pub peers: Option<PeerMetrics>,
}

/// The voters that carry the term of a candidate with a fallback.
#[cfg(feature = "peers")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FallbackMetrics {
    /// The kind of the quorum that carries the term now; `None` while the candidate does not lead.
    pub kind: Option<crate::base::term::QuorumKind>,
    /// For how long the store has not answered this leader; zero while it answers.
    pub store_silent: std::time::Duration,
}

/// The number of renewals with each result.
///
/// Among peers without a store, a renewal is a round of messages to the other members. It succeeds
/// if a majority confirms it. A leader without a quorum renews nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenewalCounts {
    /// Renewals that the store confirmed.
    pub ok: u64,
    /// Renewals that the store answered and did not execute: the lease is lost, the store can't
    /// execute the request now, or it does not accept the credential.
    pub refused: u64,
    /// Renewals without an answer in time, or with an answer of another server than a store.
    pub no_answer: u64,
}
