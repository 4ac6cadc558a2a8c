//! The clock that leases are counted on.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
#[cfg(feature = "peers")]
use tenure_core::bully::Started;
use tenure_core::time::millis;
use tenure_core::{Instant, UnixMillis};
use tokio::sync::watch;

/// A clock that counts while the machine is suspended. `std::time::Instant` and the timers of async
/// runtimes may stand still then, so a resumed laptop or virtual machine would still believe in its
/// lease.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SYSTEM: ClockId = ClockId::CLOCK_BOOTTIME;

/// On Apple's systems `CLOCK_MONOTONIC_RAW` is `mach_continuous_time`, which counts sleep and is not
/// adjusted. (`CLOCK_MONOTONIC` counts sleep too, but is derived from the wall clock;
/// `CLOCK_UPTIME_RAW` stands still.) From `man 3 clock_gettime` and Apple's Libc.
#[cfg(target_vendor = "apple")]
const SYSTEM: ClockId = ClockId::from_raw(nix::libc::CLOCK_MONOTONIC_RAW);

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
    /// Until when the driver's thread has done its work.
    pub(crate) done: watch::Sender<Instant>,
}

impl Clock {
    /// The machine's clock.
    ///
    /// # Errors
    ///
    /// The machine has no such clock.
    pub(crate) fn system() -> io::Result<Self> {
        clock_gettime(SYSTEM)?;
        Ok(Self::System)
    }

    /// The time now. If the clock can't be read this is the end of time: every deadline has passed
    /// then, which stops a leader and never makes one.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => clock_gettime(SYSTEM).map_or(Instant::from_nanos(u64::MAX), |time| {
                Instant::default() + Duration::from(time)
            }),
            Self::Manual(clock) => *clock.time.borrow(),
        }
    }

    /// The wall clock, for people and for epochs. A manual clock has its own wall clock.
    pub(crate) fn wall(&self) -> UnixMillis {
        let since_1970 = match self {
            // A wall clock before 1970 is wrong. Epochs continue from the last one then.
            Self::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            Self::Manual(_) => self.now().since(Instant::default()),
        };
        UnixMillis::new(millis(since_1970))
    }

    /// Both clocks now, for a member of an election among peers that starts.
    #[cfg(feature = "peers")]
    pub(crate) fn started(&self) -> Started {
        Started {
            at: self.now(),
            wall: self.wall(),
        }
    }

    /// Waits until `wake`. It may be late.
    pub(crate) async fn sleep_until(&self, wake: Instant) {
        match self {
            Self::System => tokio::time::sleep(wake.since(self.now())).await,
            Self::Manual(clock) => {
                // The sender is part of `self`.
                let _ = clock.time.subscribe().wait_for(|now| *now >= wake).await;
            }
        }
    }

    /// Waits until `wake`, or until a test has moved the clock past `now`.
    pub(crate) async fn sleep_from(&self, now: Instant, wake: Option<Instant>) {
        match (self, wake) {
            (Self::System, Some(wake)) => self.sleep_until(wake).await,
            (Self::System, None) => std::future::pending().await,
            (Self::Manual(clock), _) => {
                let _ = clock.time.subscribe().wait_for(|moved| *moved > now).await;
            }
        }
    }

    /// Tells a test that the driver's thread has done the work due at `now`.
    pub(crate) fn done(&self, now: Instant) {
        if let Self::Manual(clock) = self {
            clock.done.send_replace(now);
        }
    }
}
