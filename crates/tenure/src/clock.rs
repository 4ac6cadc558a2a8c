//! The clock that leadership is counted on.

use nix::time::{ClockId, clock_gettime};
use tenure_core::Instant;

/// A clock that goes on while the machine is suspended. `std::time::Instant` and the timers of async
/// runtimes stand still then, so a resumed laptop or virtual machine would believe its lease is
/// still good.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;

/// Elsewhere the monotonic clock of the C library, which on macOS counts sleep too.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

/// What the clock says now, or why it says nothing.
pub(crate) fn read() -> nix::Result<Instant> {
    let time = std::time::Duration::from(clock_gettime(CLOCK)?);
    Ok(Instant::default() + time)
}

/// What the clock says now. A clock that can't be read is at the end of time: every deadline has
/// passed then, which stops a leader and never makes one.
pub(crate) fn now() -> Instant {
    read().unwrap_or(Instant::from_nanos(u64::MAX))
}
