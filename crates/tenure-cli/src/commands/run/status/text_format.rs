//! Prometheus' text format.

use prometheus::TextEncoder;
use prometheus::proto::{self, LabelPair, Metric, MetricType};
use tenure::metrics::DurationHistogram;
use tenure::metrics::{MetricFamily, MetricSample, MetricValue};

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of these metrics.
pub(super) fn encode(families: Vec<MetricFamily>) -> String {
    let families: Vec<_> = families.into_iter().map(family).collect();
    let text = TextEncoder::new().encode_to_string(&families);
    // The encoder refuses only a family without samples, and each has at least one.
    text.unwrap_or_default()
}

fn family(family: MetricFamily) -> proto::MetricFamily {
    let kind = match family.samples.first().map(|sample| &sample.value) {
        Some(MetricValue::Counter(_)) => MetricType::COUNTER,
        Some(MetricValue::Durations(_)) => MetricType::HISTOGRAM,
        _ => MetricType::GAUGE,
    };
    let mut encoded = proto::MetricFamily::default();
    encoded.set_name(family.name.into());
    encoded.set_help(family.help.into());
    encoded.set_field_type(kind);
    encoded.set_metric(family.samples.into_iter().map(metric).collect());
    encoded
}

fn metric(sample: MetricSample) -> Metric {
    let label = |(name, value): (&str, String)| {
        let mut label = LabelPair::default();
        label.set_name(name.into());
        label.set_value(value);
        label
    };
    let mut metric = Metric::from_label(sample.labels.into_iter().map(label).collect());
    match sample.value {
        MetricValue::Counter(count) => {
            let mut counter = proto::Counter::default();
            counter.set_value(float(count));
            metric.set_counter(counter);
        }
        MetricValue::Gauge(value) => {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        MetricValue::Durations(durations) => metric.set_histogram(histogram(&durations)),
        _ => {}
    }
    metric
}

fn histogram(durations: &DurationHistogram) -> proto::Histogram {
    let buckets = durations.buckets.iter().map(|bucket| {
        let mut encoded = proto::Bucket::default();
        encoded.set_upper_bound(bucket.upper_bound_seconds);
        encoded.set_cumulative_count(bucket.cumulative_count);
        encoded
    });
    let mut histogram = proto::Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(durations.count);
    histogram.set_sample_sum(durations.sum_seconds);
    histogram
}

/// The format has floating-point numbers. Counters stay below 2^53.
#[allow(clippy::cast_precision_loss)]
const fn float(count: u64) -> f64 {
    count as f64
}
