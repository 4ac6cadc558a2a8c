//! Prometheus' text format.

use tenure::metrics::{MetricFamily, MetricSample, MetricValue};
use tenure_server::{Exposition, Sample};

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of these metrics.
pub(super) fn encode(families: Vec<MetricFamily>) -> String {
    let mut out = Exposition::default();
    for family in families {
        let kind = match family.samples.first().map(|sample| &sample.value) {
            Some(MetricValue::Counter(_)) => "counter",
            Some(MetricValue::Durations(_)) => "histogram",
            _ => "gauge",
        };
        let samples = family.samples.into_iter().flat_map(encoded);
        out.family(kind, family.name, family.help, samples);
    }
    out.into_text()
}

fn encoded(sample: MetricSample) -> Vec<Sample> {
    let labels = sample.labels.iter();
    let with_labels = |value| {
        labels.fold(value, |sample: Sample, (label, value)| {
            sample.with(label, value)
        })
    };
    match sample.value {
        MetricValue::Counter(count) => vec![with_labels(Sample::count(count))],
        MetricValue::Gauge(value) => vec![with_labels(Sample::of(value))],
        MetricValue::Durations(it) => {
            let buckets = it.buckets.iter();
            let buckets = buckets.map(|it| (it.upper_bound_seconds, it.cumulative_count));
            let sum = with_labels(Sample::of(it.sum_seconds));
            sum.histogram(buckets, it.count).collect()
        }
        _ => Vec::new(),
    }
}
