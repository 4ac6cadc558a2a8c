//! The periods in which a term was led without the store.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::UnixMillis;
use crate::time::millis;

/// The periods in which a term was led without the store, as their number, bounds and total.
///
/// A leader reports a period when it takes its lease again. A term may have any number of periods,
/// so the store keeps this summary of them: the first beginning, the last end, and the sum. For one
/// period the summary is exact. The times are for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WithoutStore {
    /// The number of periods, at least one.
    pub periods: u32,
    /// The beginning of the first period.
    pub from: UnixMillis,
    /// The end of the last period.
    pub to: UnixMillis,
    /// The total time of all periods.
    pub total: Duration,
}

impl WithoutStore {
    /// Returns the summary with one more period, which ended at `now` and lasted for `lasted`, but
    /// began at `not_before` at the earliest. A period that begins before the end of the last one
    /// continues it: a repeated request reports the same period again. A period without a length
    /// adds nothing.
    #[must_use]
    pub fn with_period(
        earlier: Option<Self>,
        not_before: UnixMillis,
        lasted: Duration,
        now: UnixMillis,
    ) -> Option<Self> {
        let begin = now.get().saturating_sub(millis(lasted));
        let begin = begin.max(not_before.get());
        let (periods, first, begin, total) = match earlier {
            None => (1, begin, begin, Duration::ZERO),
            Some(it) if begin > it.to.get() => {
                (it.periods.saturating_add(1), it.from.get(), begin, it.total)
            }
            Some(it) => (it.periods, it.from.get(), it.to.get(), it.total),
        };
        // The wall clock may have been set back.
        if now.get() <= begin {
            return earlier;
        }
        Some(Self {
            periods,
            from: UnixMillis::new(first),
            to: now,
            total: total + Duration::from_millis(now.get() - begin),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(earlier: Option<WithoutStore>, lasted: u64, now: u64) -> Option<WithoutStore> {
        let (start, lasted) = (UnixMillis::new(1_000), Duration::from_millis(lasted));
        WithoutStore::with_period(earlier, start, lasted, UnixMillis::new(now))
    }

    fn summary(periods: u32, from: u64, to: u64, total: u64) -> Option<WithoutStore> {
        Some(WithoutStore {
            periods,
            from: UnixMillis::new(from),
            to: UnixMillis::new(to),
            total: Duration::from_millis(total),
        })
    }

    #[test]
    fn periods_are_counted_and_their_times_are_added() {
        let first = add(None, 500, 3_000);
        assert_eq!(first, summary(1, 2_500, 3_000, 500));
        let second = add(first, 1_000, 9_000);
        assert_eq!(second, summary(2, 2_500, 9_000, 1_500));
    }

    #[test]
    fn a_period_that_is_reported_again_continues() {
        let first = add(None, 500, 3_000);
        assert_eq!(add(first, 500, 3_000), first);
        assert_eq!(add(first, 600, 3_100), summary(1, 2_500, 3_100, 600));
        assert_eq!(add(first, 100, 3_100), summary(1, 2_500, 3_100, 600));
    }

    #[test]
    fn a_period_begins_with_its_term_at_the_earliest() {
        assert_eq!(add(None, 10_000, 3_000), summary(1, 1_000, 3_000, 2_000));
        let longest = WithoutStore::with_period(
            None,
            UnixMillis::new(0),
            Duration::MAX,
            UnixMillis::new(3_000),
        );
        assert_eq!(longest, summary(1, 0, 3_000, 3_000));
    }

    #[test]
    fn a_period_without_a_length_adds_nothing() {
        assert_eq!(add(None, 0, 3_000), None);
        let first = add(None, 500, 3_000);
        assert_eq!(add(first, 0, 3_000), first);
        // The wall clock was set back.
        assert_eq!(add(first, 100, 2_000), first);
        assert_eq!(add(None, 100, 500), None);
    }
}
