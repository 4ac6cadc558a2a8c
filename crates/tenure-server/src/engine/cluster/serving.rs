//! The time until which a server may answer from memory, and the clock that measures it.

#[cfg(any(test, feature = "simulation"))]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::{Instant, UnixMillis};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "simulation")]
use super::simulation::SimulatedClock;
use crate::clock;

/// A clock that counts while the machine is suspended: another server takes over meanwhile.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SYSTEM: nix::time::ClockId = nix::time::ClockId::CLOCK_BOOTTIME;

/// On Apple's systems `CLOCK_MONOTONIC_RAW` is `mach_continuous_time`, which counts sleep and is
/// not adjusted. From `man 3 clock_gettime` and Apple's Libc.
#[cfg(target_vendor = "apple")]
const SYSTEM: nix::time::ClockId = nix::time::ClockId::from_raw(nix::libc::CLOCK_MONOTONIC_RAW);

/// The clock of a server of a cluster.
#[derive(Clone, Debug)]
pub(crate) enum OwnershipClock {
    /// The clock of the machine.
    System,
    /// A clock that a test moves. A wait moves it to its end.
    #[cfg(test)]
    Manual(Arc<AtomicU64>),
    /// A clock that a simulation sets.
    #[cfg(feature = "simulation")]
    Simulated(Arc<SimulatedClock>),
}

impl OwnershipClock {
    /// Waits for this long, or until the server stops.
    pub(super) async fn wait(&self, duration: Duration, stop: &CancellationToken) {
        if duration.is_zero() {
            return;
        }
        match self {
            Self::System => drop(tokio::time::timeout(duration, stop.cancelled()).await),
            #[cfg(test)]
            Self::Manual(nanos) => {
                let until = self.now() + duration;
                nanos.fetch_max(until.as_nanos(), Ordering::SeqCst);
                std::thread::yield_now();
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(clock) => clock.wait_until(clock.now() + duration).await,
        }
    }

    /// Returns the date, for people and for the first revision of a log.
    pub(super) fn wall(&self) -> UnixMillis {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(clock) => clock.wall(),
            _ => clock::wall(),
        }
    }

    /// Returns the current time, or the greatest possible time if the clock can't be read. Every
    /// deadline has passed at that time.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => nix::time::clock_gettime(SYSTEM)
                .map_or(Instant::from_nanos(u64::MAX), |time| {
                    Instant::default() + Duration::from(time)
                }),
            #[cfg(test)]
            Self::Manual(nanos) => Instant::from_nanos(nanos.load(Ordering::SeqCst)),
            #[cfg(feature = "simulation")]
            Self::Simulated(clock) => clock.now(),
        }
    }
}

/// The deadline up to which the store of a server may acknowledge from memory.
///
/// The owner of the log sets it after each successful append: the time at which the append was sent
/// first, and the ownership duration less a margin. Until then no other server can have taken over.
#[derive(Debug)]
pub(crate) struct Serving {
    /// The deadline in nanoseconds of the clock; zero while the server is not active.
    until: AtomicU64,
    clock: OwnershipClock,
}

impl Serving {
    /// Creates the deadline of a server that is not active.
    pub(crate) const fn new(clock: OwnershipClock) -> Self {
        Self {
            until: AtomicU64::new(0),
            clock,
        }
    }

    /// Sets the deadline; `None` while the server is not active.
    pub(crate) fn set(&self, until: Option<Instant>) {
        let until = until.map_or(0, Instant::as_nanos);
        self.until.store(until, Ordering::Release);
    }

    /// Returns the time until the deadline; zero if it has passed.
    pub(crate) fn left(&self) -> Duration {
        Instant::from_nanos(self.until.load(Ordering::Acquire)).since(self.clock.now())
    }

    /// Returns whether the server may acknowledge a look at its memory.
    ///
    /// The caller has looked already. The clock is read here, after the look: a pause between an
    /// earlier reading and the look could be longer than the rest of the ownership.
    pub(crate) fn check(&self) -> bool {
        let now = self.clock.now().as_nanos();
        now < self.until.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_serves_before_its_deadline_and_not_at_it() {
        let nanos = Arc::new(AtomicU64::new(10));
        let serving = Serving::new(OwnershipClock::Manual(Arc::clone(&nanos)));
        assert!(!serving.check());
        serving.set(Some(Instant::from_nanos(20)));
        assert!(serving.check());
        nanos.store(20, Ordering::SeqCst);
        assert!(!serving.check());
        serving.set(Some(Instant::from_nanos(21)));
        assert!(serving.check());
        serving.set(None);
        assert!(!serving.check());
    }

    #[test]
    fn the_clock_of_the_machine_advances() {
        let clock = OwnershipClock::System;
        let before = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now().since(before) >= Duration::from_millis(2));
    }
}
