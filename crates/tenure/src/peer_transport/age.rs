//! The age of a message, without a common clock.
//!
//! Every answer of a member contains the time on its clock. The next request to it says until when
//! its message is good **on that clock**, so the receiver compares the time with its own clock and
//! trusts no other one. This also covers messages that a frozen process finds in its sockets when it
//! wakes, and messages that were recorded before the receiver's last start, because the time goes
//! with a number that each process draws when it starts.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::Instant;

/// One part in this many of a passed time is not counted on: clocks that differ in rate by less
/// than that don't prolong a message's life. Crystals differ by a tenth of it.
const DRIFT: u32 = 1_000;

/// Until when a message is good, on its receiver's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GoodUntil {
    /// The receiver's process, which has the clock.
    pub(super) instance: u64,
    /// The time on it.
    pub(super) time_ms: u64,
}

/// A reading of a member's clock: it showed `time_ms` before `at` on this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerClock {
    pub(super) instance: u64,
    pub(super) time_ms: u64,
    pub(super) at: Instant,
}

impl PeerClock {
    /// Until when a message is good that was made at `made`. It is never too late: when the answer
    /// came, the other clock had gone on from its time in the answer, and since then this clock has
    /// counted at most the drift too much.
    pub(super) fn good_until(&self, made: Instant, lifetime: Duration) -> GoodUntil {
        let passed = made.since(self.at);
        let later = whole_ms(passed - passed / DRIFT + lifetime);
        let later = self.time_ms.saturating_add(later);
        // A message that was made before the answer came was made that much before the time in the
        // answer.
        let waited = self.at.since(made);
        let time_ms =
            later.saturating_sub(whole_ms(waited + waited / DRIFT) + u64::from(!waited.is_zero()));
        GoodUntil {
            instance: self.instance,
            time_ms,
        }
    }
}

/// The time on this clock, in whole milliseconds.
pub(super) fn time_ms(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
