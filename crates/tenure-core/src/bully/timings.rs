//! The timings of an election among peers, valid by construction.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use crate::lease::candidate::{TICK_INTERVAL, Timings as TermTimings};

/// The options of a user, besides the timings of a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupTimingsOptions {
    /// How long a message may be under way before its receiver drops it, and how long its sender
    /// waits for an answer. Default: 500 ms, or a tenth of the renew interval if that is longer,
    /// but at most a quarter of the renew interval. A longer lifetime tolerates slower networks and
    /// disks; a shorter one makes elections faster.
    pub message_lifetime: Option<Duration>,
    /// How long a better member must have followed a working leader before it takes over, if it is
    /// configured to do so. Default: 30 s, or the lease duration if that is longer. A longer time
    /// makes a member that restarts often less disruptive.
    pub hold_down: Option<Duration>,
}

/// The default message lifetime. It is enough for a vote: a message, a sync of the disk, and the
/// answer.
const DEFAULT_LIFETIME: Duration = Duration::from_millis(500);

/// The default hold-down. A process in a crash loop with back-off fails again within it.
const DEFAULT_HOLD_DOWN: Duration = Duration::from_secs(30);

/// The timings of an election among peers: those of a term, and those of the election.
///
/// The timeline of a term is that of [a lease](TermTimings), with the members in place of the
/// store: the *lease duration* is how long a member's promise lasts without a renewal, and the
/// *renew interval* is how often the leader asks for one.
///
/// Every value is consistent: [`GroupTimingsError`] lists the refused combinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupTimings {
    term: TermTimings,
    message_lifetime: Duration,
    hold_down: Duration,
}

impl Default for GroupTimings {
    /// Returns the defaults: those of a term (15 s, 5 s, 10 s, 14 s), a message lifetime of 500 ms,
    /// and a hold-down of 30 s.
    fn default() -> Self {
        let options = GroupTimingsOptions::default();
        Self::new(TermTimings::default(), &options).expect("the defaults are consistent")
    }
}

impl GroupTimings {
    /// Creates the timings with these options. The other values follow from the timings of a term.
    ///
    /// # Errors
    ///
    /// [`GroupTimingsError`] if the timings contradict each other. The message names both numbers.
    pub fn new(
        term: TermTimings,
        options: &GroupTimingsOptions,
    ) -> Result<Self, GroupTimingsError> {
        let interval = term.renew_interval();
        let lifetime = options
            .message_lifetime
            .unwrap_or_else(|| (interval / 10).max(DEFAULT_LIFETIME).min(interval / 4));
        let least = TICK_INTERVAL / 10;
        if lifetime < least {
            let error = format!("message lifetime {lifetime:?} must be at least {least:?}");
            return Err(GroupTimingsError::MessageLifetime(error));
        }
        // A round of renewals is answered, or known to be lost, in the first half of the interval.
        if lifetime > interval / 2 {
            return Err(GroupTimingsError::MessageLifetime(format!(
                "message lifetime {lifetime:?} must be at most half of the renew interval {interval:?}"
            )));
        }
        let lease = term.lease_duration();
        let hold_down = options
            .hold_down
            .unwrap_or_else(|| DEFAULT_HOLD_DOWN.max(lease));
        if hold_down < lease {
            return Err(GroupTimingsError::HoldDown(format!(
                "hold-down {hold_down:?} must be at least the lease duration {lease:?}"
            )));
        }
        Ok(Self {
            term,
            message_lifetime: lifetime,
            hold_down,
        })
    }

    /// Returns the timings of a term.
    #[must_use]
    pub const fn term(&self) -> &TermTimings {
        &self.term
    }

    /// Returns how long a message may be under way, and how long its sender waits for an answer.
    #[must_use]
    pub const fn message_lifetime(&self) -> Duration {
        self.message_lifetime
    }

    /// Returns how long a better member must have followed a working leader before it takes over.
    #[must_use]
    pub const fn hold_down(&self) -> Duration {
        self.hold_down
    }

    /// Returns how long a member that has restarted keeps its earlier promise.
    #[must_use]
    pub const fn quarantine(&self) -> Duration {
        self.term.lease_duration()
    }

    /// Returns the longest time without a leader with a quorum, if the leader dies right after a
    /// renewal and the next election succeeds at the first attempt. The promises last for a lease
    /// duration from their renewal, which is up to one message lifetime after the leader sent it.
    /// The other members tick again within another message lifetime. The election takes three
    /// exchanges: the pre-vote, the vote, and the first renewal.
    #[must_use]
    pub fn worst_without_leader(&self) -> Duration {
        self.term.worst_without_leader() + self.message_lifetime * (2 + 3)
    }

    /// Returns the longest time without a leader with a fallback, if the leader dies right after a
    /// renewal, the store is lost at the same time, and the next election succeeds at the first
    /// attempt.
    ///
    /// The promises end as in [`worst_without_leader`](Self::worst_without_leader), whether the
    /// store has made one or only members have. A candidate then asks the store first, because it
    /// can't know that the store is away: the store keeps a request waiting for a renew interval
    /// while the lease is held, so the store's silence is certain a message lifetime later. The
    /// election among the members follows. If the store answers, its grant takes the place of that
    /// time.
    #[must_use]
    pub fn worst_with_fallback(&self) -> Duration {
        self.worst_without_leader() + self.term.renew_interval() + self.message_lifetime
    }
}

/// The reason why timings contradict each other. The message contains the numbers; the user must
/// change one of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[non_exhaustive]
pub enum GroupTimingsError {
    /// Every message would arrive too late, or the leader would notice a lost renewal too late to
    /// send another one.
    MessageLifetime(String),
    /// A member that restarts repeatedly would take the lead each time.
    HoldDown(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::string::ToString;

    impl GroupTimings {
        /// Returns timings that need not be possible: every timer is always due, and a term lasts
        /// this long.
        pub(in crate::bully) const fn unchecked(
            lease_duration: Duration,
            renew_deadline: Duration,
        ) -> Self {
            Self {
                term: TermTimings::unchecked(lease_duration, renew_deadline),
                message_lifetime: Duration::ZERO,
                hold_down: Duration::ZERO,
            }
        }

        /// Returns timings that need not be possible, whose messages and requests are never late.
        pub(crate) const fn unchecked_with(term: TermTimings, message_lifetime: Duration) -> Self {
            Self {
                term,
                message_lifetime,
                hold_down: Duration::ZERO,
            }
        }
    }

    #[test]
    fn the_defaults_equal_the_derived_values() {
        let term = TermTimings::default();
        let derived = GroupTimings::new(term, &GroupTimingsOptions::default());
        assert_eq!(derived, Ok(GroupTimings::default()));
        let bound = GroupTimings::default().worst_without_leader();
        assert_eq!(bound, Duration::from_millis(17_500));
    }

    #[test]
    fn impossible_timings_are_refused_with_both_numbers() {
        for (lifetime, hold_down, numbers) in [
            (Some(5), None, ["5ms", "20ms"]),
            (Some(2_501), None, ["2.501s", "5s"]),
            (None, Some(14_000), ["14s", "15s"]),
        ] {
            let options = GroupTimingsOptions {
                message_lifetime: lifetime.map(Duration::from_millis),
                hold_down: hold_down.map(Duration::from_millis),
            };
            let error = GroupTimings::new(TermTimings::default(), &options);
            let error = error.unwrap_err().to_string();
            assert!(numbers.iter().all(|n| error.contains(n)), "{error}");
        }
    }
}
