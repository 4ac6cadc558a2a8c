//! The wall clock.

use chrono::{DateTime, Utc};

/// The last millisecond of the year 9999. HTTP dates cannot be later.
const LAST_MS: i64 = 253_402_300_799_999;

/// Returns the current time in milliseconds since 1970, for dates in headers and tokens. A time
/// before 1970 becomes the start of 1970, and a time after 9999 becomes the end of 9999.
pub(super) fn unix_ms() -> i64 {
    Utc::now().timestamp_millis().clamp(0, LAST_MS)
}

/// Returns the same time as a date.
pub(super) fn utc() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(unix_ms()).unwrap_or_default()
}
