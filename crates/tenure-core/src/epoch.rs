//! The number of a term.

use core::fmt;

use crate::time::UnixMillis;

/// A term's number, strictly increasing per election for ever: **the fencing token**.
///
/// `epoch = max(last epoch + 1, wall clock in Unix milliseconds)` at the granting authority, and at least 1. So it
/// tells a person when the reign began, and it keeps increasing across a lost disk, a restored
/// backup and a change of strategy, as long as the wall clock has not gone back past the last
/// grant. It stays below 2^53, so that JSON readers which store numbers as doubles keep it exact.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(into = "u64", try_from = "u64")]
pub struct Epoch(u64);

impl Epoch {
    /// The greatest epoch, 2^53 - 1: the greatest integer that a double holds exactly with all
    /// below it. As a wall-clock time it is in the year 287396.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// How far ahead of the authority's wall clock a candidate may ask its epoch to be: a hundred years,
    /// in milliseconds.
    ///
    /// It is more than clocks differ by that are merely wrong: an authority whose clock has begun at
    /// 1970 takes the epochs of candidates with right ones. And it is little of what there is: above
    /// it, numbers for 2,700 such spans are left.
    pub const ASKED_AHEAD: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

    /// The epoch numbered `number`, or `None` if it is above [`Epoch::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The epoch of a grant after `last`, made at wall-clock time `wall`: never 0, which stands for "none
    /// yet" at a receiver whose fence has seen nothing.
    ///
    /// `None` only when `last` is [`Epoch::MAX`]: then no number is left that would fence off the
    /// last holder, and the grant must be refused.
    #[must_use]
    pub fn following(last: Option<Self>, wall: UnixMillis) -> Option<Self> {
        let least = last.map_or(1, |last| last.0 + 1);
        Self::new(least.max(Self::believable(wall)))
    }

    /// The clock as a number, or 0: a clock past the year 287396 must not use up the numbers at one stroke.
    const fn believable(wall: UnixMillis) -> u64 {
        if wall.get() > Self::MAX.0 {
            0
        } else {
            wall.get()
        }
    }

    /// The greatest epoch that a candidate may ask for in a grant after `last` at wall-clock time
    /// `wall`: one that is [`Epoch::ASKED_AHEAD`] of the clock, or the next one, if that is greater.
    ///
    /// Without a bound one request could ask for [`Epoch::MAX`], and no number would be left: neither
    /// for that lease nor, once it is deleted, for any other that is numbered above it.
    #[must_use]
    pub fn most_asked_for(last: Option<Self>, wall: UnixMillis) -> Self {
        // Measured from the clock and not from the last epoch, or request after request would climb.
        let ahead = Self::believable(wall) + Self::ASKED_AHEAD;
        let next = last.map_or(0, |last| last.0 + 1);
        Self(ahead.max(next).min(Self::MAX.0))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<Epoch> for u64 {
    fn from(epoch: Epoch) -> Self {
        epoch.0
    }
}

impl TryFrom<u64> for Epoch {
    type Error = EpochError;

    fn try_from(number: u64) -> Result<Self, EpochError> {
        Self::new(number).ok_or(EpochError { number })
    }
}

/// A number that is no epoch. Whoever sent or stored it is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an epoch must be at most {} and this one is {number}", Epoch::MAX)]
pub struct EpochError {
    /// What was given.
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
    fn the_first_epoch_is_one_where_the_wall_clock_begins_at_zero() {
        let first = Epoch::following(None, UnixMillis::new(0));
        assert_eq!(first, Epoch::new(1));
    }

    #[test]
    fn an_epoch_is_one_more_while_the_wall_clock_is_behind() {
        assert_eq!(after(5_000, 5_000), Some(5_001));
        assert_eq!(after(5_000, 3), Some(5_001));
    }

    #[test]
    fn epochs_begin_with_one() {
        for wall in [0, 1, u64::MAX] {
            assert_eq!(
                Epoch::following(None, UnixMillis::new(wall)).map(Epoch::get),
                Some(1)
            );
        }
    }

    #[test]
    fn a_mad_wall_clock_does_not_use_up_the_numbers() {
        assert_eq!(after(5_000, u64::MAX), Some(5_001));
        assert_eq!(after(5_000, Epoch::MAX.get() + 1), Some(5_001));
    }

    #[test]
    fn after_the_last_number_there_is_none() {
        assert_eq!(after(Epoch::MAX.get(), 5), None);
    }

    #[test]
    fn an_epoch_may_be_asked_for_a_century_ahead_of_the_clock_and_no_further() {
        let most = |last, wall| Epoch::most_asked_for(last, UnixMillis::new(wall)).get();
        assert_eq!(most(None, 5_000), 5_000 + Epoch::ASKED_AHEAD);
        // What was granted does not move it, or it could be moved again and again.
        assert_eq!(most(Epoch::new(1 << 40), 5_000), 5_000 + Epoch::ASKED_AHEAD);
        // But what raises nothing is not refused.
        assert_eq!(most(Epoch::new(1 << 50), 5_000), (1 << 50) + 1);
        assert_eq!(most(Some(Epoch::MAX), 5_000), Epoch::MAX.get());
        assert_eq!(most(None, u64::MAX), Epoch::ASKED_AHEAD);
    }

    proptest! {
        #[test]
        fn epochs_increase_whatever_the_wall_clock_does(last in 0..Epoch::MAX.get(), wall: u64) {
            let next = after(last, wall).unwrap();
            prop_assert!(last < next && next <= Epoch::MAX.get());
        }
    }
}
