//! True time, and clocks that deviate from it.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

use tenure_core::{Instant, UnixMillis};

use super::rng::nanos;

/// True time since the beginning of the run. No process can read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Later than all other times.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the time `duration` after the beginning.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self(nanos(duration))
    }

    /// Returns the time from `earlier` to this time; zero if this time is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

/// Writes the time in seconds with six decimals.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0 / 1_000;
        write!(f, "{}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }
}

/// The time of all wall clocks at the beginning of a run.
const WALL_AT_BEGINNING: u64 = 1_700_000_000_000;

const MILLION: i128 = 1_000_000;

/// The clocks of a host: a monotonic one, which may be too fast or too slow, and a wall clock,
/// which may be set.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The last moment at which the rate changed, in true time and by this clock.
    anchor: (u64, u64),
    /// The rate of the clock minus that of true time, in millionths.
    ppm: i64,
    /// The offset of the wall clock.
    wall_off_ms: i64,
}

impl Clock {
    /// Creates a clock that shows `origin` at the beginning and gains `ppm` millionths.
    #[must_use]
    pub fn new(origin: Duration, ppm: i64) -> Self {
        Self {
            anchor: (0, nanos(origin)),
            ppm,
            wall_off_ms: 0,
        }
    }

    /// Returns the time that the clock shows.
    #[must_use]
    pub fn read(&self, time: Time) -> Instant {
        let passed = i128::from(time.0.saturating_sub(self.anchor.0));
        let shown = i128::from(self.anchor.1) + passed * (MILLION + i128::from(self.ppm)) / MILLION;
        Instant::from_nanos(u64::try_from(shown).unwrap_or(u64::MAX))
    }

    /// Returns the first moment at which the clock shows `instant`, if it is not set or changed
    /// before. For an instant in the past, returns the moment at which it showed that, if it was
    /// not set or changed since.
    #[must_use]
    pub fn when(&self, instant: Instant) -> Time {
        let ahead = i128::from(instant.as_nanos()) - i128::from(self.anchor.1);
        let rate = MILLION + i128::from(self.ppm);
        let passed = (ahead * MILLION + rate - 1).div_euclid(rate);
        let time = (i128::from(self.anchor.0) + passed).max(0);
        Time(u64::try_from(time).unwrap_or(u64::MAX))
    }

    /// Changes the rate of the clock from now on.
    pub fn set_rate(&mut self, now: Time, ppm: i64) {
        self.anchor = (now.0, self.read(now).as_nanos());
        self.ppm = ppm;
    }

    /// Continues from the time that the clock showed at `stopped`.
    pub fn stood_still(&mut self, stopped: Time, now: Time) {
        self.anchor = (now.0, self.read(stopped).as_nanos());
    }

    /// Sets the wall clock forward or back.
    pub fn set_wall(&mut self, by_ms: i64) {
        self.wall_off_ms += by_ms;
    }

    /// Returns the time that the wall clock shows.
    #[must_use]
    pub fn wall(&self, time: Time) -> UnixMillis {
        let right = WALL_AT_BEGINNING + time.0 / 1_000_000;
        UnixMillis::new(right.saturating_add_signed(self.wall_off_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_reaches_an_instant_at_the_moment_that_it_names() {
        for ppm in [-20_000, -3, 0, 7, 999_999] {
            let clock = Clock::new(Duration::from_secs(5), ppm);
            for ahead in [0, 1, 3, 999_999_937] {
                let instant = clock.read(Time(0)) + Duration::from_nanos(ahead);
                let when = clock.when(instant);
                assert!(clock.read(when) >= instant);
                assert!(when.0 == 0 || clock.read(Time(when.0 - 1)) < instant);
            }
        }
    }

    #[test]
    fn a_clock_whose_rate_changes_does_not_jump() {
        let mut clock = Clock::new(Duration::ZERO, 500_000);
        let then = Time::after(Duration::from_secs(2));
        clock.set_rate(then, -500_000);
        let read = |secs| {
            clock
                .read(Time::after(Duration::from_secs(secs)))
                .as_nanos()
        };
        assert_eq!((read(2), read(4)), (3_000_000_000, 4_000_000_000));
    }
}
