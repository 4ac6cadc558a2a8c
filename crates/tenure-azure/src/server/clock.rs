//! The wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use tenure_core::UnixMillis;
use tenure_core::time::millis;

/// The last millisecond of the year 9999. The dates of HTTP have no later time.
const LAST_MS: u64 = 253_402_300_799_999;

/// The current time. A clock before 1970 reads as 1970.
pub(super) fn unix() -> UnixMillis {
    UnixMillis::new(millis(since_1970()))
}

/// The current time for dates in headers and tokens. A clock before 1970 reads as 1970, one after
/// 9999 as the end of that year.
pub(super) fn utc() -> DateTime<Utc> {
    let now = i64::try_from(unix().get().min(LAST_MS)).unwrap_or_default();
    DateTime::from_timestamp_millis(now).unwrap_or_default()
}

fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
