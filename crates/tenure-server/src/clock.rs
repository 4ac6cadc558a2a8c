//! The store's two clocks: one that only goes forward and decides, one that people read.

use std::time::{Duration, Instant as StdInstant};

use chrono::{DateTime, SecondsFormat, Utc};
use tenure_core::{Instant, UnixMillis};

/// The store's clock. Its origin is the start of the store.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: StdInstant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: StdInstant::now(),
        }
    }

    /// Now, for deciding. If the machine is suspended this clock stands still, so leases end later
    /// than they might; never earlier.
    pub(crate) fn now(&self) -> Instant {
        Instant::default() + self.origin.elapsed()
    }

    /// How long it is until `instant`; zero if it is over.
    pub(crate) fn until(&self, instant: Instant) -> Duration {
        instant.since(self.now())
    }
}

/// Now, for numbering epochs and for people. A clock before 1970 reads as 1970.
pub(crate) fn wall() -> UnixMillis {
    UnixMillis::new(Utc::now().timestamp_millis().try_into().unwrap_or(0))
}

/// A wall-clock time as RFC 3339 in UTC, `None` if it is beyond what a calendar holds.
pub(crate) fn rfc3339(wall: UnixMillis) -> Option<String> {
    let time = DateTime::from_timestamp_millis(wall.get().try_into().ok()?)?;
    Some(time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_time_is_written_as_rfc_3339() {
        let text = rfc3339(UnixMillis::new(1_700_000_000_123)).unwrap();
        assert_eq!(text, "2023-11-14T22:13:20.123Z");
        assert_eq!(rfc3339(UnixMillis::new(u64::MAX)), None);
    }
}
