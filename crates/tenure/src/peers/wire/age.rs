//! Measures the age of a message without a common clock.
//!
//! Every answer of a member contains the time on its clock. The next request to that member states
//! the end of its message's lifetime **on that clock**, so the receiver compares the time with its
//! own clock and needs no other clock. This also covers messages that a frozen process finds in its
//! sockets when it continues. It covers messages that were recorded before the receiver's last
//! start, too, because each process draws a random number when it starts and sends it with the
//! time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::Instant;

/// The fraction of the elapsed time that is not counted: one part in this many. So clocks whose
/// rates differ by less than that do not extend a message's life. Quartz clocks differ by a tenth
/// of it.
const DRIFT: u32 = 1_000;

/// The end of a message's lifetime, on its receiver's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::peers) struct GoodUntil {
    /// The number of the receiver's process, which owns the clock.
    pub(in crate::peers) instance: u64,
    /// The time on that clock.
    pub(in crate::peers) time_ms: u64,
}

/// A reading of a member's clock. That clock showed `time_ms` before the time `at` on the clock of
/// this process.
#[derive(Clone, Copy, Debug)]
pub(in crate::peers) struct PeerClock {
    pub(in crate::peers) instance: u64,
    pub(in crate::peers) time_ms: u64,
    pub(in crate::peers) at: Instant,
}

impl PeerClock {
    /// Returns the end of the lifetime of a message that was created at `made`. The result is never
    /// too late: when the answer arrived, the other clock had advanced beyond its time in the
    /// answer, and since then this clock has counted at most the drift too much.
    pub(in crate::peers) fn good_until(&self, made: Instant, lifetime: Duration) -> GoodUntil {
        let passed = made.since(self.at);
        let later = whole_ms(passed - passed / DRIFT + lifetime);
        let later = self.time_ms.saturating_add(later);
        // A message that was created before the answer arrived was created that much earlier than
        // the time in the answer.
        let waited = self.at.since(made);
        let time_ms =
            later.saturating_sub(whole_ms(waited + waited / DRIFT) + u64::from(!waited.is_zero()));
        GoodUntil {
            instance: self.instance,
            time_ms,
        }
    }
}

/// Returns the time on this clock, in whole milliseconds.
pub(in crate::peers) fn time_ms(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
