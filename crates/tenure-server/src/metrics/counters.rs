//! Counters.

use std::array;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tenure_core::wire::Code;

/// The number of copies of a counter that many threads increment. Threads that increment different
/// copies do not take a cache line from each other.
const STRIPES: usize = 16;

/// A label with a closed set of values.
pub(crate) trait Label: Copy + PartialEq + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// Returns the value as it is written.
    fn as_str(self) -> &'static str;
}

impl Label for Code {
    const ALL: &'static [Self] = Self::ALL;

    fn as_str(self) -> &'static str {
        Self::as_str(self)
    }
}

/// One counter for each value of a label.
pub(crate) struct CounterSet<L> {
    counts: Box<[AtomicU64]>,
    label: PhantomData<fn(L)>,
}

impl<L: Label> Default for CounterSet<L> {
    fn default() -> Self {
        Self {
            counts: L::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            label: PhantomData,
        }
    }
}

impl<L: Label> CounterSet<L> {
    pub(crate) fn add(&self, value: L) {
        self.add_many(value, 1);
    }

    pub(crate) fn add_many(&self, value: L, count: u64) {
        let position = L::ALL.iter().position(|known| *known == value);
        if let Some(counter) = position.and_then(|position| self.counts.get(position)) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Returns the values of the label with their counts.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.counts.iter();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        L::ALL.iter().map(|value| value.as_str()).zip(counts)
    }
}

impl<L: Label> fmt::Debug for CounterSet<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.counts()).finish()
    }
}

/// Copies of counters. Each thread uses the same copy all the time.
#[derive(Debug)]
pub(super) struct Striped<T>([Stripe<T>; STRIPES]);

/// A copy in cache lines of its own: processors load two lines of 64 bytes at once.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe<T>(T);

impl<T> Striped<T> {
    pub(super) fn new(mut copy: impl FnMut() -> T) -> Self {
        Self(array::from_fn(|_| Stripe(copy())))
    }

    /// Returns the copy of this thread.
    pub(super) fn own(&self) -> &T {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
        }
        &self.0[OWN.with(|own| *own)].0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|Stripe(copy)| copy)
    }
}

/// A counter that many threads increment.
#[derive(Debug)]
pub(super) struct StripedCounter(Striped<AtomicU64>);

impl Default for StripedCounter {
    fn default() -> Self {
        Self(Striped::new(AtomicU64::default))
    }
}

impl StripedCounter {
    pub(super) fn add(&self, count: u64) {
        self.0.own().fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.iter().map(|copy| copy.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_counts_of_all_threads_add_up() {
        let counter = StripedCounter::default();
        thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| (0..1_000).for_each(|_| counter.add(1)));
            }
        });
        assert_eq!(counter.get(), 2 * STRIPES as u64 * 1_000);
    }
}
