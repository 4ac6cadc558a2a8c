//! The duration of a lease.

use core::time::Duration;

/// The time from the grant or the last renewal of a lease until it expires.
///
/// [`Rules`](super::Rules) has the allowed range. A longer duration compares as greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseDuration {
    /// The lease expires after this time.
    Fixed(Duration),
    /// The lease never expires; it ends by a release or a break.
    Infinite,
}
