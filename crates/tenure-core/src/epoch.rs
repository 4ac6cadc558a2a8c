//! Epochs: the numbers of terms, and the fencing tokens.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::time::UnixMillis;

/// The number of a term: **the fencing token**. It increases strictly per election, for ever.
///
/// `epoch = max(last epoch + 1, wall clock in Unix milliseconds)` on the clock of the granting
/// authority, and at least 1. So an epoch shows when its term began, and epochs keep increasing
/// across a lost disk, a restored backup and a change of strategy, unless the wall clock was set
/// back past the last grant. Epochs are below 2^53, so that JSON parsers that store numbers as
/// doubles keep them exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Epoch(u64);

impl Epoch {
    /// The greatest epoch, 2^53 - 1. A double represents this integer and all smaller ones exactly.
    /// As a wall-clock time it is in the year 287396.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// How far above both the authority's wall clock and the last epoch of the lease a candidate
    /// may request an epoch: 30 days, in milliseconds.
    ///
    /// Candidates that are also elected elsewhere request epochs that are close to one of the two:
    /// those epochs follow the last one, or are the time by their own clocks. A restore skips more
    /// epochs than this, so that it passes what candidates have requested since the backup.
    pub const ASKED_AHEAD: u64 = 30 * 24 * 60 * 60 * 1000;

    /// How far ahead of the authority's wall clock an operator may request an epoch: a hundred
    /// years, in milliseconds.
    ///
    /// A clock that was never set is less than a hundred years behind. So the authority accepts the
    /// epochs of earlier terms, whatever its clock shows. The range of epochs contains 2,700 such
    /// spans.
    pub const OPERATORS_AHEAD: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

    /// Returns the epoch `number`, or `None` if it is above [`Epoch::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Returns the epoch of a grant after `last`, at the wall-clock time `wall`. It is never 0,
    /// because a receiver's gate uses 0 for "no epoch seen yet".
    ///
    /// Returns `None` only if `last` is [`Epoch::MAX`]: no greater number is left that would fence
    /// off the last holder, so the grant must be refused.
    #[must_use]
    pub fn following(last: Option<Self>, wall: UnixMillis) -> Option<Self> {
        let least = last.map_or(1, |last| last.0 + 1);
        Self::new(least.max(Self::plausible(wall)))
    }

    /// Returns the wall clock as a number, or 0 if it is past the year 287396: such a clock must
    /// not use up all epochs at once.
    const fn plausible(wall: UnixMillis) -> u64 {
        if wall.get() > Self::MAX.0 {
            0
        } else {
            wall.get()
        }
    }

    /// Returns the greatest epoch that may be requested in a grant after `last` at the wall-clock
    /// time `wall`: [`Epoch::ASKED_AHEAD`] above the clock and `last`, and for an operator
    /// [`Epoch::OPERATORS_AHEAD`] above the clock. `last + 1` is always allowed.
    ///
    /// Without this bound, a single request for [`Epoch::MAX`] would use up the epochs of its lease
    /// and, after the deletion of that lease, of all leases of its namespace that are created later.
    #[must_use]
    pub fn most_asked_for(last: Option<Self>, wall: UnixMillis, by_operator: bool) -> Self {
        let (clock, last) = (Self::plausible(wall), last.map_or(0, |last| last.0));
        // This bound depends on the clock alone: otherwise a series of requests could raise the
        // epoch without limit.
        let furthest = clock + Self::OPERATORS_AHEAD;
        let ahead = match by_operator {
            true => furthest,
            false => furthest.min(clock.max(last) + Self::ASKED_AHEAD),
        };
        Self(ahead.max(last + 1).min(Self::MAX.0))
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Epoch {
    type Error = EpochError;

    fn try_from(number: u64) -> Result<Self, EpochError> {
        Self::new(number).ok_or(EpochError { number })
    }
}

/// A number above [`Epoch::MAX`]. The fault is in the sender of the number, or in the disk that
/// stored it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an epoch must be at most {} and this one is {number}", Epoch::MAX)]
pub struct EpochError {
    /// The rejected number.
    pub number: u64,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(last: u64, wall: u64) -> Option<u64> {
        Epoch::following(Epoch::new(last), UnixMillis::new(wall)).map(Epoch::get)
    }

    #[test]
    fn an_epoch_is_the_wall_clock_while_that_is_ahead() {
        assert_eq!(after(1_000, 5_000), Some(5_000));
        assert_eq!(Epoch::following(None, UnixMillis::new(7)).unwrap().get(), 7);
    }

    #[test]
    fn the_first_epoch_is_one_if_the_wall_clock_is_at_zero() {
        let first = Epoch::following(None, UnixMillis::new(0));
        assert_eq!(first, Epoch::new(1));
    }

    #[test]
    fn an_epoch_is_one_more_while_the_wall_clock_is_behind() {
        assert_eq!(after(5_000, 5_000), Some(5_001));
        assert_eq!(after(5_000, 3), Some(5_001));
    }

    #[test]
    fn no_first_epoch_is_zero() {
        for wall in [0, 1, u64::MAX] {
            assert_eq!(
                Epoch::following(None, UnixMillis::new(wall)).map(Epoch::get),
                Some(1)
            );
        }
    }

    #[test]
    fn an_implausible_wall_clock_does_not_use_up_the_epochs() {
        assert_eq!(after(5_000, u64::MAX), Some(5_001));
        assert_eq!(after(5_000, Epoch::MAX.get() + 1), Some(5_001));
    }

    #[test]
    fn no_epoch_follows_the_greatest_one() {
        assert_eq!(after(Epoch::MAX.get(), 5), None);
    }

    #[test]
    fn a_candidate_may_request_thirty_days_above_the_clock_and_the_last_epoch() {
        let most = |last, wall| {
            let last = Epoch::new(last);
            Epoch::most_asked_for(last, UnixMillis::new(wall), false).get()
        };
        assert_eq!(most(0, 5_000), 5_000 + Epoch::ASKED_AHEAD);
        assert_eq!(most(4_000, 5_000), 5_000 + Epoch::ASKED_AHEAD);
        assert_eq!(most(1 << 40, 5_000), (1 << 40) + Epoch::ASKED_AHEAD);
        // A series of requests ends at the bound of operators. The next epoch is always allowed.
        let furthest = 5_000 + Epoch::OPERATORS_AHEAD;
        assert_eq!(most(furthest - 1, 5_000), furthest);
        assert_eq!(most(furthest, 5_000), furthest + 1);
        assert_eq!(most(Epoch::MAX.get(), 5_000), Epoch::MAX.get());
        assert_eq!(most(0, u64::MAX), Epoch::ASKED_AHEAD);
    }

    #[test]
    fn an_operator_may_request_a_hundred_years_ahead_of_the_clock() {
        let most = |last| Epoch::most_asked_for(last, UnixMillis::new(5_000), true).get();
        assert_eq!(most(None), 5_000 + Epoch::OPERATORS_AHEAD);
        // The last grant does not move the bound; otherwise a series of requests could raise it.
        assert_eq!(most(Epoch::new(1 << 40)), 5_000 + Epoch::OPERATORS_AHEAD);
        assert_eq!(most(Epoch::new(1 << 50)), (1 << 50) + 1);
    }

    proptest! {
        #[test]
        fn epochs_increase_whatever_the_wall_clock_does(last in 0..Epoch::MAX.get(), wall: u64) {
            let next = after(last, wall).unwrap();
            prop_assert!(last < next && next <= Epoch::MAX.get());
        }
    }
}
