//! The table of metrics: names, types, help texts and labels, as exporters publish them.

use super::{DurationHistogram, Metrics};
#[cfg(feature = "peers")]
use crate::base::term::QuorumKind;

/// A metric with its name, its help text and its samples. The samples have one type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MetricFamily {
    /// The name, as Prometheus recommends names: with the unit, and `_total` for a counter.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The samples, one for each combination of labels.
    pub samples: Vec<MetricSample>,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MetricSample {
    /// The labels: names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: MetricValue,
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetricValue {
    /// A number that only grows.
    Counter(u64),
    /// A number that may change in any way.
    Gauge(f64),
    /// Durations in seconds.
    Durations(DurationHistogram),
}

/// The names of the two histograms.
pub(super) const RENEWAL_DURATION: &str = "tenure_candidate_renewal_duration_seconds";
pub(super) const STOP_DURATION: &str = "tenure_candidate_stop_duration_seconds";

impl Metrics {
    /// Returns the metrics with their names and labels, for exporters.
    #[doc(hidden)]
    #[must_use]
    pub fn families(&self) -> Vec<MetricFamily> {
        let own = self.own_labels();
        let single = |name, help, value| MetricFamily {
            name,
            help,
            samples: vec![MetricSample {
                labels: own.clone(),
                value,
            }],
        };
        let by = |label: &'static str, values: Vec<(String, u64)>| {
            let sample = |(text, count)| MetricSample {
                labels: [own.clone(), vec![(label, text)]].concat(),
                value: MetricValue::Counter(count),
            };
            values.into_iter().map(sample).collect::<Vec<_>>()
        };
        let seconds = |millis: Option<u64>| MetricValue::Gauge(float(millis.unwrap_or(0)) / 1000.0);
        let renewals = &self.renewals;
        let results = vec![
            ("ok".into(), renewals.ok),
            ("refused".into(), renewals.refused),
            ("no_answer".into(), renewals.no_answer),
        ];
        let ends = self.terms_ended.iter();
        let ends = ends.map(|(reason, count)| (reason.to_string(), *count));
        #[allow(unused_mut, reason = "a build without peers adds nothing")]
        let mut families = vec![
            single(
                "tenure_candidate_leads",
                "Whether the candidate leads now by its own clock: 1 or 0.",
                MetricValue::Gauge(f64::from(u8::from(self.leads))),
            ),
            single(
                "tenure_candidate_epoch",
                "Epoch of the current or last term of the candidate; 0 before its first term.",
                MetricValue::Gauge(float(self.epoch.unwrap_or(0))),
            ),
            single(
                "tenure_candidate_last_renewal_timestamp_seconds",
                "Time at which the last successful renewal was sent; 0 before the first term.",
                seconds(self.last_renewal_unix_ms),
            ),
            single(
                "tenure_candidate_deadline_timestamp_seconds",
                "Time at which the term ends unless a renewal succeeds; 0 while the candidate does not lead.",
                seconds(self.deadline_unix_ms),
            ),
            MetricFamily {
                name: "tenure_candidate_renewals_total",
                help: "Renewals of terms: the store confirmed, refused, or did not answer.",
                samples: by("result", results),
            },
            MetricFamily {
                name: "tenure_candidate_terms_total",
                help: "Terms that have ended, by the reason for the end.",
                samples: by("end", ends.collect()),
            },
            single(
                "tenure_candidate_at_risk_total",
                "How often a renewal failed after a successful one.",
                MetricValue::Counter(self.at_risk),
            ),
            single(
                "tenure_candidate_overruns_total",
                "How often a task was still running after its abort.",
                MetricValue::Counter(self.overruns),
            ),
            single(
                "tenure_candidate_suspensions_total",
                "How often the process did not run for a second or longer while it led.",
                MetricValue::Counter(self.suspensions),
            ),
            single(
                "tenure_candidate_auth_failures_total",
                "Requests that the store refused because of the credential of the candidate.",
                MetricValue::Counter(self.auth_failures),
            ),
            single(
                RENEWAL_DURATION,
                "Time from a renewal to its confirmation.",
                MetricValue::Durations(self.renewal_duration.clone()),
            ),
            single(
                STOP_DURATION,
                "Time from the request to stop until the task had stopped.",
                MetricValue::Durations(self.stop_duration.clone()),
            ),
        ];
        #[cfg(feature = "peers")]
        if let Some(fallback) = &self.fallback {
            let kinds = [QuorumKind::Store, QuorumKind::Members].map(|kind| MetricSample {
                labels: [own.clone(), vec![("kind", kind.to_string())]].concat(),
                value: MetricValue::Gauge(f64::from(u8::from(fallback.kind == Some(kind)))),
            });
            families.push(MetricFamily {
                name: "tenure_candidate_quorum",
                help: "Whether a quorum of this kind carries the term of the candidate: 1 or 0.",
                samples: kinds.into(),
            });
            families.push(single(
                "tenure_candidate_store_silent_seconds",
                "Time for which the store has not answered this leader; 0 while it answers.",
                MetricValue::Gauge(fallback.store_silent.as_secs_f64()),
            ));
        }
        #[cfg(feature = "peers")]
        families.extend(self.peers.iter().flat_map(super::PeerMetrics::families));
        families
    }

    pub(super) fn own_labels(&self) -> Vec<(&'static str, String)> {
        vec![
            ("election", self.election.to_string()),
            ("candidate", self.candidate.to_string()),
        ]
    }
}

#[cfg(feature = "peers")]
impl super::PeerMetrics {
    fn families(&self) -> Vec<MetricFamily> {
        let cluster = ("cluster", self.cluster.to_string());
        let gauge = |name, help, value| MetricFamily {
            name,
            help,
            samples: vec![MetricSample {
                labels: vec![cluster.clone()],
                value: MetricValue::Gauge(value),
            }],
        };
        let messages = &self.messages;
        let counts = [
            ("sent", "ok", messages.answered),
            ("sent", "refused", messages.refused_by_peers),
            ("sent", "no_answer", messages.failed),
            ("sent", "unauthenticated", messages.answers_unauthenticated),
            ("sent", "expired", messages.expired),
            ("sent", "replaced", messages.replaced),
            ("sent", "copy", messages.copies),
            ("relayed", "sent", messages.relayed),
            ("received", "ok", messages.taken),
            ("received", "refused", messages.refused.values().sum()),
        ];
        let quorum = self.has_quorum.map(|has_quorum| {
            gauge(
                "tenure_peer_quorum",
                "Whether the member reaches a majority of its group: 1 or 0.",
                f64::from(u8::from(has_quorum)),
            )
        });
        let suspects = gauge(
            "tenure_peer_suspects",
            "Members that this member suspects.",
            float(self.suspects),
        );
        let messages = MetricFamily {
            name: "tenure_peer_messages_total",
            help: "Messages to and from the other members, by their results.",
            samples: Vec::from(counts.map(|(direction, result, count)| MetricSample {
                labels: vec![
                    cluster.clone(),
                    ("direction", direction.into()),
                    ("result", result.into()),
                ],
                value: MetricValue::Counter(count),
            })),
        };
        quorum.into_iter().chain([suspects, messages]).collect()
    }
}

/// Converts a number for exporters, which have floating-point numbers. They are exact up to 2^53,
/// which epochs and times do not reach for 280,000 years.
#[allow(clippy::cast_precision_loss)]
pub(super) const fn float(number: u64) -> f64 {
    number as f64
}
