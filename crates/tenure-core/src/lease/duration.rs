//! How long a lease lasts without a renewal.

use core::time::Duration;

/// How long a lease lasts after its grant or last renewal: a time, or until it is released or
/// broken.
///
/// Which durations may be asked for is in [`Rules`](super::Rules). A longer one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseDuration {
    /// The lease expires so long after its grant or last renewal.
    Fixed(Duration),
    /// The lease never expires.
    Infinite,
}
