//! The clock with which leases are measured.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
#[cfg(feature = "peers")]
use tenure_core::bully::Started;
use tenure_core::time::millis;
use tenure_core::{Instant, UnixMillis};
use tokio::sync::watch;

/// A clock that counts while the machine is suspended. `std::time::Instant` and the timers of async
/// runtimes may stop during a suspension, so a laptop or virtual machine that resumes would still
/// assume that it holds its lease.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SYSTEM: ClockId = ClockId::CLOCK_BOOTTIME;

/// On Apple's systems `CLOCK_MONOTONIC_RAW` is `mach_continuous_time`, which counts sleep and is
/// not adjusted. (`CLOCK_MONOTONIC` counts sleep too, but is derived from the wall clock;
/// `CLOCK_UPTIME_RAW` stands still.) From `man 3 clock_gettime` and Apple's Libc.
#[cfg(target_vendor = "apple")]
const SYSTEM: ClockId = ClockId::from_raw(nix::libc::CLOCK_MONOTONIC_RAW);

/// The clock of a candidate and its terms.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The clock of the machine.
    System,
    /// A clock that a test moves.
    Manual(ManualClock),
}

/// A clock that stands still until a test moves it.
#[derive(Clone, Debug)]
pub(crate) struct ManualClock {
    pub(crate) time: watch::Sender<Instant>,
    /// The time up to which the driver's thread has done its work.
    pub(crate) done: watch::Sender<Instant>,
}

impl Clock {
    /// Returns the clock of the machine.
    ///
    /// # Errors
    ///
    /// Returns an error if the machine has no such clock.
    pub(crate) fn system() -> io::Result<Self> {
        clock_gettime(SYSTEM)?;
        Ok(Self::System)
    }

    /// Returns the current time, or the greatest possible time if the clock can't be read. Every
    /// deadline has passed at that time, which can stop a leader but never start one.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => clock_gettime(SYSTEM).map_or(Instant::from_nanos(u64::MAX), |time| {
                Instant::default() + Duration::from(time)
            }),
            Self::Manual(clock) => *clock.time.borrow(),
        }
    }

    /// Returns the wall-clock time, for people and for epochs. A manual clock has its own wall
    /// clock.
    pub(crate) fn wall(&self) -> UnixMillis {
        let since_1970 = match self {
            // A wall clock before 1970 is wrong. Epochs then continue from the last epoch.
            Self::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            Self::Manual(_) => self.now().since(Instant::default()),
        };
        UnixMillis::new(millis(since_1970))
    }

    /// Returns the times of both clocks, for a member of an election among peers that starts.
    #[cfg(feature = "peers")]
    pub(crate) fn started(&self) -> Started {
        Started {
            at: self.now(),
            wall: self.wall(),
        }
    }

    /// Waits until `wake`, or somewhat longer.
    pub(crate) async fn sleep_until(&self, wake: Instant) {
        match self {
            Self::System => tokio::time::sleep(wake.since(self.now())).await,
            Self::Manual(clock) => {
                // `self` contains the sender, so the channel is open.
                let _ = clock.time.subscribe().wait_for(|now| *now >= wake).await;
            }
        }
    }

    /// Waits until `wake`, or until a test has moved the clock past `now`. Does not wait if `wake` has
    /// passed.
    pub(crate) async fn sleep_from(&self, now: Instant, wake: Option<Instant>) {
        match (self, wake) {
            (Self::System, Some(wake)) => self.sleep_until(wake).await,
            (Self::System, None) => std::future::pending().await,
            // The test moved the clock while the driver handled another input.
            (Self::Manual(_), Some(wake)) if wake <= now => {}
            (Self::Manual(clock), _) => {
                let _ = clock.time.subscribe().wait_for(|moved| *moved > now).await;
            }
        }
    }

    /// Notifies a test that the driver's thread has done the work due at `now`.
    pub(crate) fn done(&self, now: Instant) {
        if let Self::Manual(clock) = self {
            clock.done.send_replace(now);
        }
    }
}

/// Returns the wall-clock time that was `age` before `wall`.
pub(crate) fn before(wall: UnixMillis, age: Duration) -> UnixMillis {
    UnixMillis::new(wall.get().saturating_sub(millis(age)))
}

/// Formats a wall-clock time for people.
pub(crate) fn rfc3339(wall: UnixMillis) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(wall.get());
    humantime::format_rfc3339_millis(time).to_string()
}
