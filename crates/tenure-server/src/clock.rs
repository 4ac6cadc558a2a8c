//! The store's two clocks: a monotonic clock for decisions, and the wall clock for epochs and for
//! people.

use std::time::{Duration, Instant as StdInstant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat};
use tenure_core::lease::Grant;
use tenure_core::time::millis;
use tenure_core::wire::WithoutStoreView;
use tenure_core::{Instant, UnixMillis};

/// The last millisecond of the year 9999. RFC 3339 and the dates of HTTP have no later time.
const LAST: u64 = 253_402_300_799_999;

/// The store's clock. Its origin is the start of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: StdInstant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: StdInstant::now(),
        }
    }

    /// Returns the current time for decisions. If the machine is suspended, this clock stands
    /// still. Leases may then end later than they should, but never earlier.
    pub(crate) fn now(&self) -> Instant {
        Instant::default() + self.origin.elapsed()
    }

    /// Returns the time until `instant`; zero if it is in the past.
    pub(crate) fn until(&self, instant: Instant) -> Duration {
        instant.since(self.now())
    }
}

/// Returns the wall-clock time, for the numbers of epochs and for people. A clock before 1970 reads
/// as 1970.
pub(crate) fn wall() -> UnixMillis {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixMillis::new(millis(since_1970.unwrap_or_default()))
}

/// Returns the wall-clock time this long ago.
pub(crate) fn before(ago: Duration) -> UnixMillis {
    UnixMillis::new(wall().get().saturating_sub(millis(ago)))
}

/// Formats a wall-clock time as RFC 3339 in UTC. Returns `None` if it is after the year 9999.
pub(crate) fn rfc3339(wall: UnixMillis) -> Option<String> {
    let millis = wall.get().try_into().ok().filter(|_| wall.get() <= LAST)?;
    let time = DateTime::from_timestamp_millis(millis)?;
    Some(time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// Returns the view of the periods in which the term of this grant was led without the store.
pub(crate) fn without_store(grant: &Grant) -> Option<Box<WithoutStoreView>> {
    let periods = grant.without_store.as_deref()?;
    Some(WithoutStoreView::of(periods, rfc3339).into())
}

/// Checks that the wall clock shows a time with which a store can start.
pub(crate) fn check() -> Result<(), WrongClock> {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Err(_) => Err(WrongClock("before the year 1970")),
        Ok(since) if millis(since) > LAST => Err(WrongClock("after the year 9999")),
        Ok(_) => Ok(()),
    }
}

/// The wall clock shows a time for which HTTP has no date, so it was probably never set.
#[derive(Debug, thiserror::Error)]
#[error("the wall clock is {0}: set it, then start the store")]
pub struct WrongClock(&'static str);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_time_is_written_as_rfc_3339() {
        let text = rfc3339(UnixMillis::new(1_700_000_000_123)).unwrap();
        assert_eq!(text, "2023-11-14T22:13:20.123Z");
        let last = rfc3339(UnixMillis::new(LAST)).unwrap();
        assert_eq!(last, "9999-12-31T23:59:59.999Z");
        for beyond in [LAST + 1, u64::MAX] {
            assert_eq!(rfc3339(UnixMillis::new(beyond)), None);
        }
    }
}
