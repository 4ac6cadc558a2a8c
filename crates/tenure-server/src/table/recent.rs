//! What an overview shows of the past of a lease, in eight bytes.

use std::time::Duration;

use tenure_core::Instant;

/// The length of the intervals in which terms are counted.
const INTERVAL: Duration = Duration::from_secs(10 * 60);

/// The resolution of the time of an end: 32 bits are enough for 13 years.
const TICK: Duration = Duration::from_millis(100);

/// The number of terms that began lately, and the end of the last one.
///
/// Only the store's memory has these: after a start there are none. A grant that could not be
/// written still counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    /// The interval of `current`, modulo 2^16: the numbers begin again after more than a year.
    interval: u16,
    /// The number of terms that began in that interval.
    current: u8,
    /// The number of terms that began in the interval before it.
    previous: u8,
    /// The end of the last term, in ticks since the origin of the clock, plus one; zero if no term
    /// has ended.
    ended: u32,
}

impl Recent {
    /// Counts a term that begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        *self = self.at(now);
        self.current = self.current.saturating_add(1);
    }

    /// Records the end of a term.
    pub(crate) fn end(&mut self, at: Instant) {
        let ticks = at.as_nanos() / nanos(TICK);
        self.ended = u32::try_from(ticks + 1).unwrap_or(0);
    }

    /// Returns the number of terms that began in the interval of `now` and in the one before it.
    pub(crate) fn terms(&self, now: Instant) -> u32 {
        let counted = self.at(now);
        u32::from(counted.current) + u32::from(counted.previous)
    }

    /// Returns the end of the last term that ended since the start.
    pub(crate) fn ended(&self) -> Option<Instant> {
        let ticks = self.ended.checked_sub(1)?;
        Some(Instant::from_nanos(u64::from(ticks) * nanos(TICK)))
    }

    fn at(&self, now: Instant) -> Self {
        let interval = (now.as_nanos() / nanos(INTERVAL)) as u16;
        let (current, previous) = match interval.wrapping_sub(self.interval) {
            0 => (self.current, self.previous),
            1 => (0, self.current),
            _ => (0, 0),
        };
        Self {
            interval,
            current,
            previous,
            ..*self
        }
    }
}

const fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(minutes: u64) -> Instant {
        Instant::default() + Duration::from_secs(minutes * 60)
    }

    #[test]
    fn terms_count_in_their_interval_and_in_the_next_one() {
        let mut recent = Recent::default();
        for minutes in [1, 9, 11, 12] {
            recent.begin(minute(minutes));
        }
        assert_eq!(recent.terms(minute(19)), 4);
        assert_eq!(recent.terms(minute(20)), 2);
        assert_eq!(recent.terms(minute(30)), 0);
        recent.begin(minute(41));
        assert_eq!(recent.terms(minute(41)), 1);
        for _ in 0..1_000 {
            recent.begin(minute(52));
        }
        assert_eq!(recent.terms(minute(52)), 256);
    }

    #[test]
    fn the_end_of_a_term_is_kept_to_a_tenth_of_a_second() {
        let mut recent = Recent::default();
        assert_eq!(recent.ended(), None);
        recent.end(Instant::default());
        assert_eq!(recent.ended(), Some(Instant::default()));
        recent.end(minute(3) + Duration::from_millis(250));
        assert_eq!(recent.ended(), Some(minute(3) + Duration::from_millis(200)));
        recent.begin(minute(40));
        assert!(recent.ended().is_some());
        assert_eq!(size_of::<Recent>(), 8);
    }
}
