//! Histograms of durations with fixed buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Durations, counted in buckets.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DurationHistogram {
    /// The buckets in rising order. The last one has no upper bound and is not in the list; its
    /// count is [`count`](Self::count).
    pub buckets: Vec<DurationBucket>,
    /// The number of all durations.
    pub count: u64,
    /// The sum of all durations, in seconds.
    pub sum_seconds: f64,
}

/// A bucket of a [`DurationHistogram`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DurationBucket {
    /// The greatest duration in this bucket, in seconds.
    pub upper_bound_seconds: f64,
    /// The number of durations up to the upper bound, with those of all smaller buckets.
    pub cumulative_count: u64,
}

/// A histogram that one thread fills while others read it. No side waits for the other.
#[derive(Debug)]
pub(super) struct AtomicHistogram {
    bounds_ms: &'static [u32],
    /// The count of each bucket, and of the durations above the last bound.
    counts: Vec<AtomicU64>,
    sum_nanos: AtomicU64,
}

impl AtomicHistogram {
    /// Creates a histogram with these upper bounds.
    pub(super) fn new(bounds_ms: &'static [u32]) -> Self {
        Self {
            bounds_ms,
            counts: (0..=bounds_ms.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_nanos: AtomicU64::new(0),
        }
    }

    pub(super) fn record(&self, duration: Duration) {
        let fits = |bound: &u32| duration <= Duration::from_millis((*bound).into());
        let bucket = self.bounds_ms.iter().position(fits);
        let bucket = bucket.unwrap_or(self.bounds_ms.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> DurationHistogram {
        let mut count = 0;
        let mut counts = self.counts.iter().map(|it| {
            count += it.load(Ordering::Relaxed);
            count
        });
        let buckets = self.bounds_ms.iter().zip(counts.by_ref());
        let buckets = buckets.map(|(&bound, cumulative_count)| DurationBucket {
            upper_bound_seconds: f64::from(bound) / 1000.0,
            cumulative_count,
        });
        let buckets = buckets.collect();
        // The zip has left the count above the last bound.
        counts.for_each(drop);
        let sum = Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed));
        DurationHistogram {
            buckets,
            count,
            sum_seconds: sum.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_its_bucket_and_in_all_greater_ones() {
        let histogram = AtomicHistogram::new(&[1, 10, 100]);
        for millis in [1, 2, 10, 11, 5000] {
            histogram.record(Duration::from_millis(millis));
        }
        let snapshot = histogram.snapshot();
        let counts = snapshot.buckets.iter();
        let counts: Vec<_> = counts.map(|bucket| bucket.cumulative_count).collect();
        assert_eq!((counts, snapshot.count), (vec![1, 3, 4], 5));
        assert!((snapshot.sum_seconds - 5.024).abs() < 1e-9, "{snapshot:?}");
        assert!((snapshot.buckets[1].upper_bound_seconds - 0.01).abs() < 1e-9);
    }
}
