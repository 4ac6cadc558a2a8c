//! Histograms.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Sample;

/// A histogram of numbers.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// The number of values in each bucket; the last one is for values above all bounds.
    counts: Box<[AtomicU64]>,
    /// The sum of the values, as bits.
    sum: AtomicU64,
}

impl Histogram {
    /// Creates a histogram with these upper bounds.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::default()).collect(),
            sum: AtomicU64::default(),
        }
    }

    pub(super) fn observe(&self, value: f64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound);
        let bucket = bucket.unwrap_or(self.bounds.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.add_to_sum(value);
    }

    /// Adds the values of a histogram with the same bounds.
    pub(super) fn add(&self, other: &Self) {
        for (count, more) in self.counts.iter().zip(&other.counts) {
            count.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.add_to_sum(other.sum());
    }

    fn sum(&self) -> f64 {
        f64::from_bits(self.sum.load(Ordering::Relaxed))
    }

    fn add_to_sum(&self, value: f64) {
        let add = |sum| Some((f64::from_bits(sum) + value).to_bits());
        // The function never refuses.
        let _ = self
            .sum
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Returns the samples of the histogram with this label; none if it is labelled and has no value.
    pub(super) fn samples(&self, label: Option<(&str, &str)>) -> Vec<Sample> {
        let mut count = 0;
        let totals = self.counts.iter().map(|of_bucket| {
            count += of_bucket.load(Ordering::Relaxed);
            count
        });
        let totals: Vec<u64> = totals.collect();
        let sum = Sample::of(self.sum());
        let sum = match label {
            Some(_) if count == 0 => return Vec::new(),
            Some((label, value)) => sum.with(label, value),
            None => sum,
        };
        sum.histogram(self.bounds.iter().copied().zip(totals), count)
            .collect()
    }
}
