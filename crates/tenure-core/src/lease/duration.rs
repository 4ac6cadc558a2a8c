//! The duration of a lease.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Instant;

/// The time from the grant or the last renewal of a lease until it expires.
///
/// [`Rules`](super::Rules) has the allowed range. A longer duration compares as greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LeaseDuration {
    /// The lease expires after this time.
    Fixed(Duration),
    /// The lease never expires; it ends by a release or a break.
    Infinite,
}

impl LeaseDuration {
    /// Returns the end of a lease that was granted or renewed at `now`; `None` if it never expires.
    pub(super) fn end(self, now: Instant) -> Option<Instant> {
        self.fixed().map(|duration| now + duration)
    }

    /// Returns the duration, unless it is infinite.
    #[must_use]
    pub const fn fixed(self) -> Option<Duration> {
        match self {
            Self::Fixed(duration) => Some(duration),
            Self::Infinite => None,
        }
    }
}
