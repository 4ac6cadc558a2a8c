//! The clock that leadership is counted on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use tenure_core::bully::Started;
use tenure_core::time::millis;
use tenure_core::{Instant, UnixMillis};
use tokio::sync::watch;

/// A clock that goes on while the machine is suspended. `std::time::Instant` and the timers of async
/// runtimes stand still then, so a resumed laptop or virtual machine would believe its lease is
/// still good.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SYSTEM: ClockId = ClockId::CLOCK_BOOTTIME;

/// Elsewhere the monotonic clock of the C library, which on macOS counts sleep too.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SYSTEM: ClockId = ClockId::CLOCK_MONOTONIC;

/// The clock of a candidate and its terms.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The machine's.
    System,
    /// One that a test moves.
    Manual(ManualClock),
}

/// A clock that stands still until a test moves it.
#[derive(Clone, Debug)]
pub(crate) struct ManualClock {
    pub(crate) time: watch::Sender<Instant>,
    /// Up to when the driver has done what was due.
    pub(crate) done: watch::Sender<Instant>,
}

impl Clock {
    /// The machine's clock.
    ///
    /// # Errors
    ///
    /// The machine has no such clock.
    pub(crate) fn system() -> nix::Result<Self> {
        clock_gettime(SYSTEM)?;
        Ok(Self::System)
    }

    /// What the clock says now. A clock that can't be read is at the end of time: every deadline
    /// has passed then, which stops a leader and never makes one.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => clock_gettime(SYSTEM).map_or(Instant::from_nanos(u64::MAX), |time| {
                Instant::default() + Duration::from(time)
            }),
            Self::Manual(clock) => *clock.time.borrow(),
        }
    }

    /// The wall clock, for what is shown to people and for the numbers of terms. A test's
    /// goes along with its time.
    pub(crate) fn wall(&self) -> UnixMillis {
        let since_1970 = match self {
            // Before 1970 it is wrong, and the numbers go on from the last one.
            Self::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            Self::Manual(_) => self.now().since(Instant::default()),
        };
        UnixMillis::new(millis(since_1970))
    }

    /// Both clocks now, for a member of an election among peers that starts.
    pub(crate) fn started(&self) -> Started {
        Started {
            at: self.now(),
            wall: self.wall(),
        }
    }

    /// Waits until it is `wake`. It may be late.
    pub(crate) async fn sleep_until(&self, wake: Instant) {
        match self {
            Self::System => tokio::time::sleep(wake.since(self.now())).await,
            Self::Manual(clock) => {
                // The sender is in `self`, so it is there.
                let _ = clock.time.subscribe().wait_for(|now| *now >= wake).await;
            }
        }
    }

    /// Waits until it is `wake`, or until a test has moved the clock past `now`.
    pub(crate) async fn sleep_from(&self, now: Instant, wake: Option<Instant>) {
        match (self, wake) {
            (Self::System, Some(wake)) => self.sleep_until(wake).await,
            (Self::System, None) => std::future::pending().await,
            (Self::Manual(clock), _) => {
                let _ = clock.time.subscribe().wait_for(|moved| *moved > now).await;
            }
        }
    }

    /// The driver has done what was due at `now`.
    pub(crate) fn done(&self, now: Instant) {
        if let Self::Manual(clock) = self {
            clock.done.send_replace(now);
        }
    }
}
