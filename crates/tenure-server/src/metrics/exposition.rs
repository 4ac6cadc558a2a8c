//! The text form of metrics.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{CounterSet, Label};

/// The text of metrics in Prometheus' format, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Exposition(String);

/// A value of a metric with its labels.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The end of the name, in a histogram.
    suffix: &'static str,
    labels: String,
    value: f64,
}

impl Sample {
    /// Creates a sample of a whole number.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Prometheus has floating-point numbers only.
    pub fn count(value: u64) -> Self {
        Self::of(value as f64)
    }

    /// Creates a sample of a number.
    #[must_use]
    pub const fn of(value: f64) -> Self {
        Self {
            suffix: "",
            labels: String::new(),
            value,
        }
    }

    pub(crate) fn flag(value: bool) -> Self {
        Self::of(f64::from(u8::from(value)))
    }

    /// Adds a label.
    #[must_use]
    pub fn with(mut self, label: &str, value: &str) -> Self {
        let comma = if self.labels.is_empty() { "" } else { "," };
        let value = value.replace('\\', r"\\").replace('"', r#"\""#);
        let value = value.replace('\n', r"\n");
        // Writing to a text never fails.
        let _ = write!(self.labels, "{comma}{label}=\"{value}\"");
        self
    }

    /// Returns the samples of a histogram with the labels of this sample, whose value is the sum.
    /// `buckets` has the upper bounds, and the number of values up to each of them.
    pub fn histogram(
        self,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        count: u64,
    ) -> impl Iterator<Item = Self> {
        let named = |suffix, value| Self {
            suffix,
            value,
            labels: self.labels.clone(),
        };
        let count = Self::count(count).value;
        let bucket = |bound: &str, count| named("_bucket", count).with("le", bound);
        let buckets = buckets.into_iter();
        let buckets =
            buckets.map(|(bound, count)| bucket(&bound.to_string(), Self::count(count).value));
        let mut samples: Vec<Self> = buckets.collect();
        samples.extend([
            bucket("+Inf", count),
            named("_sum", self.value),
            named("_count", count),
        ]);
        samples.into_iter()
    }
}

impl Exposition {
    /// The content type of the text.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

    pub(crate) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Sample>,
    ) {
        self.family("gauge", name, help, samples);
    }

    pub(crate) fn counter(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Sample>,
    ) {
        self.family("counter", name, help, samples);
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

    /// Adds a metric of this kind. Without samples nothing is added. The help text has one line.
    pub fn family(
        &mut self,
        kind: &str,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Sample>,
    ) {
        for (index, sample) in samples.into_iter().enumerate() {
            if index == 0 {
                let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
            }
            let Sample {
                suffix,
                labels,
                value,
            } = sample;
            let labels = match labels.is_empty() {
                true => labels,
                false => format!("{{{labels}}}"),
            };
            let _ = writeln!(self.0, "{name}{suffix}{labels} {value}");
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Returns the seconds since 1970; zero for a time before.
pub(crate) fn unix_seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_types_and_escaped_labels_and_cumulative_buckets() {
        let mut out = Exposition::default();
        out.gauge(
            "a",
            "Help.",
            [Sample::of(0.5).with("x", "q\"\\\n").with("y", "")],
        );
        out.counter("b_total", "Help.", [Sample::count(3)]);
        out.counter("empty_total", "Help.", []);
        let histogram = Sample::of(1.5).with("route", "get");
        let histogram = histogram.histogram([(0.1, 1), (1.0, 3)], 7);
        out.family("histogram", "h", "Help.", histogram);
        let expected = "# HELP a Help.\n# TYPE a gauge\na{x=\"q\\\"\\\\\\n\",y=\"\"} 0.5\n\
            # HELP b_total Help.\n# TYPE b_total counter\nb_total 3\n\
            # HELP h Help.\n# TYPE h histogram\n\
            h_bucket{route=\"get\",le=\"0.1\"} 1\nh_bucket{route=\"get\",le=\"1\"} 3\n\
            h_bucket{route=\"get\",le=\"+Inf\"} 7\nh_sum{route=\"get\"} 1.5\nh_count{route=\"get\"} 7\n";
        assert_eq!(out.into_text(), expected);
    }
}
