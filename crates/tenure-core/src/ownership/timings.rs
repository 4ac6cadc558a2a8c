//! The times of an ownership, all made from its duration.

use core::time::Duration;

/// The shortest ownership duration. Below it, the scheduling delays of a busy machine would depose
/// an owner that works.
const SHORTEST: Duration = Duration::from_secs(1);

/// The longest ownership duration. After a crash the cluster has no active server for this long.
const LONGEST: Duration = Duration::from_secs(60);

/// The times of an ownership. All of them are fractions of the ownership duration T, so that every
/// value is consistent.
///
/// ```text
/// 0        T/6                                            5/6 T          T
/// |--append, repeat every T/12 at most------ ... ----------|---margin---|-- others may append -->
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnershipTimings {
    ownership: Duration,
    beat: Duration,
    margin: Duration,
    poll: Duration,
    settle: Duration,
}

impl OwnershipTimings {
    /// Makes the times from the ownership duration: 1 s to 60 s.
    ///
    /// # Errors
    ///
    /// [`OwnershipTimingsError`] if the duration is out of range.
    pub fn new(ownership: Duration) -> Result<Self, OwnershipTimingsError> {
        if !(SHORTEST..=LONGEST).contains(&ownership) {
            return Err(OwnershipTimingsError(ownership));
        }
        Ok(Self {
            ownership,
            beat: ownership / 6,
            margin: ownership / 6,
            poll: ownership / 12,
            settle: ownership / 3,
        })
    }

    /// Returns the ownership duration T: how long another server waits after it has seen the tail
    /// for the first time, before it takes over.
    #[must_use]
    pub const fn ownership(&self) -> Duration {
        self.ownership
    }

    /// Returns the time from the sending of a successful append to the next one at the latest.
    #[must_use]
    pub const fn beat(&self) -> Duration {
        self.beat
    }

    /// Returns the time by which the owner stops to accept requests before T has passed. It covers
    /// the difference between the rates of two clocks.
    #[must_use]
    pub const fn margin(&self) -> Duration {
        self.margin
    }

    /// Returns the longest time of one attempt of a call of the shared log. The caller gives up an
    /// attempt after this time: the outcome is then unknown.
    #[must_use]
    pub const fn attempt(&self) -> Duration {
        self.beat
    }

    /// Returns the interval between two reads of the tail by a follower. An append is repeated at
    /// this interval at most.
    #[must_use]
    pub const fn poll(&self) -> Duration {
        self.poll
    }

    /// Returns how long the reads of a follower must have succeeded before it takes over. After an
    /// outage of the service, the owner's append comes first.
    #[must_use]
    pub const fn settle(&self) -> Duration {
        self.settle
    }

    /// Returns times that need not be consistent, for models in which time has only a few ticks.
    #[cfg(test)]
    pub(crate) const fn unchecked(
        ownership: Duration,
        beat: Duration,
        margin: Duration,
        poll: Duration,
        settle: Duration,
    ) -> Self {
        Self {
            ownership,
            beat,
            margin,
            poll,
            settle,
        }
    }
}

/// The ownership duration is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ownership {0:?} must be 1s to 60s")]
pub struct OwnershipTimingsError(pub Duration);
