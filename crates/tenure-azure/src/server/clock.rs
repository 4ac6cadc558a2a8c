//! The wall clock.

use chrono::{DateTime, Utc};

/// The last millisecond of the year 9999. The dates of HTTP have no later time.
const LAST_MS: i64 = 253_402_300_799_999;

/// Returns the current time in milliseconds since 1970, for dates in headers and tokens. A clock
/// before 1970 reads as 1970, one after 9999 as the end of that year.
pub(super) fn unix_ms() -> i64 {
    Utc::now().timestamp_millis().clamp(0, LAST_MS)
}

/// Returns the same as a date.
pub(super) fn utc() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(unix_ms()).unwrap_or_default()
}
