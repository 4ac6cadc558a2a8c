//! The text form of metrics.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::core::Collector;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Encoder, TextEncoder};

use super::{CounterSet, Label};

/// Metrics in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    families: Vec<MetricFamily>,
}

/// A value of a metric with its labels.
#[derive(Debug)]
pub(crate) struct Sample {
    labels: Vec<LabelPair>,
    value: f64,
}

impl Sample {
    #[allow(clippy::cast_precision_loss)] // Prometheus has floating-point numbers only.
    pub(crate) fn count(value: u64) -> Self {
        Self::of(value as f64)
    }

    pub(crate) const fn of(value: f64) -> Self {
        Self {
            labels: Vec::new(),
            value,
        }
    }

    pub(crate) fn flag(value: bool) -> Self {
        Self::of(f64::from(u8::from(value)))
    }

    pub(crate) fn with(mut self, label: &str, value: &str) -> Self {
        self.labels.push(pair(label, value));
        self
    }
}

impl Exposition {
    /// Adds a gauge. Without samples nothing is added.
    pub(crate) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Sample>,
    ) {
        let metrics = samples.into_iter().map(|Sample { labels, value }| {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            let mut metric = Metric::from_label(labels);
            metric.set_gauge(gauge);
            metric
        });
        self.add(name, help, MetricType::GAUGE, metrics.collect());
    }

    /// Adds a counter. Without samples nothing is added.
    pub(crate) fn counter(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Sample>,
    ) {
        let metrics = samples.into_iter().map(|Sample { labels, value }| {
            let mut counter = Counter::default();
            counter.set_value(value);
            let mut metric = Metric::from_label(labels);
            metric.set_counter(counter);
            metric
        });
        self.add(name, help, MetricType::COUNTER, metrics.collect());
    }

    /// Adds a counter for each value of a label.
    pub(crate) fn counters<L: Label>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        counts: &CounterSet<L>,
    ) {
        let counts = counts.counts();
        let samples = counts.map(|(value, count)| Sample::count(count).with(label, value));
        self.counter(name, help, samples);
    }

    /// Adds histograms by the values of a label. The numbers of a histogram are those of its
    /// buckets, without those of lower buckets; the last number is that of the values above all
    /// bounds.
    pub(super) fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        bounds: &[f64],
        histograms: impl IntoIterator<Item = (&'a str, Vec<u64>, f64)>,
    ) {
        let metrics = histograms.into_iter().map(|(value, counts, sum)| {
            let mut total = 0;
            let counts = counts.iter().map(|count| {
                total += count;
                total
            });
            let cumulative: Vec<u64> = counts.collect();
            let buckets = bounds.iter().zip(&cumulative).map(|(bound, count)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(*bound);
                bucket.set_cumulative_count(*count);
                bucket
            });
            let mut histogram = Histogram::default();
            histogram.set_bucket(buckets.collect());
            histogram.set_sample_count(total);
            histogram.set_sample_sum(sum);
            let mut metric = Metric::from_label(vec![pair(label, value)]);
            metric.set_histogram(histogram);
            metric
        });
        self.add(name, help, MetricType::HISTOGRAM, metrics.collect());
    }

    /// Adds metrics of the library.
    pub(super) fn collect(&mut self, collector: &dyn Collector) {
        self.families.extend(collector.collect());
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) {
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.into());
        family.set_help(help.into());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.families.push(family);
    }

    /// Returns the text, in the format that [`Exposition::content_type`] names.
    pub(crate) fn text(&self) -> Result<String, String> {
        let text = TextEncoder::new().encode_to_string(&self.families);
        text.map_err(|error| error.to_string())
    }

    pub(crate) fn content_type() -> String {
        TextEncoder::new().format_type().to_owned()
    }
}

/// Returns the seconds since 1970; zero for a time before.
pub(crate) fn unix_seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.into());
    pair.set_value(value.into());
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_types_and_escaped_labels_and_cumulative_buckets() {
        let mut out = Exposition::default();
        out.gauge("a", "Help.", [Sample::of(0.5).with("x", "q\"\\\n")]);
        out.counter("b_total", "Help.", [Sample::count(3)]);
        out.counter("empty_total", "Help.", []);
        let histogram = ("get", vec![1, 2, 4], 1.5);
        out.histograms("h", "Help.", "route", &[0.1, 1.0], [histogram]);
        let expected = "# HELP a Help.\n# TYPE a gauge\na{x=\"q\\\"\\\\\\n\"} 0.5\n\
            # HELP b_total Help.\n# TYPE b_total counter\nb_total 3\n\
            # HELP h Help.\n# TYPE h histogram\n\
            h_bucket{route=\"get\",le=\"0.1\"} 1\nh_bucket{route=\"get\",le=\"1\"} 3\n\
            h_bucket{route=\"get\",le=\"+Inf\"} 7\nh_sum{route=\"get\"} 1.5\nh_count{route=\"get\"} 7\n";
        assert_eq!(out.text().unwrap(), expected);
    }
}
