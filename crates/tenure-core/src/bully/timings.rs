//! The timings of an election among peers, valid by construction.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use crate::lease::candidate::{TICK_INTERVAL, Timings as TermTimings};

/// The options of a user beside the timings of a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupTimingsOptions {
    /// How long a message may be under way before its receiver drops it, and how long its sender
    /// waits for an answer. Default: 500 ms, or a tenth of the renew interval if that is longer,
    /// but a quarter of it at most. Longer: slower networks and disks are tolerated; shorter:
    /// elections are quicker.
    pub message_lifetime: Option<Duration>,
    /// How long a better member must have followed before it takes a working leader's place, if it
    /// is configured to. Default 30 s, or the lease duration if that is longer. Longer: a member
    /// that comes and goes disturbs less.
    pub hold_down: Option<Duration>,
}

/// The default message lifetime: enough for a vote, which takes a way there, a sync of a disk, and
/// a way back.
const DEFAULT_LIFETIME: Duration = Duration::from_millis(500);

/// The default hold-down: a crash loop with its back-off shows within it.
const DEFAULT_HOLD_DOWN: Duration = Duration::from_secs(30);

/// The timings of an election among peers: those of a term, and those of the election itself.
///
/// The timeline of a term is that of [a lease](TermTimings), with the members in place of the
/// store: the *lease duration* is how long a member's promise lasts without a renewal, and the
/// *renew interval* is how often the leader asks for one.
///
/// A value that exists is consistent: [`GroupTimingsError`] lists the refused combinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupTimings {
    term: TermTimings,
    message_lifetime: Duration,
    hold_down: Duration,
}

impl Default for GroupTimings {
    /// A term's defaults (15 s, 5 s, 10 s, 14 s), messages of half a second, a hold-down of 30 s.
    fn default() -> Self {
        let options = GroupTimingsOptions::default();
        Self::new(TermTimings::default(), &options).expect("the defaults are consistent")
    }
}

impl GroupTimings {
    /// The timings with these options, the rest derived from those of a term.
    ///
    /// # Errors
    ///
    /// [`GroupTimingsError`] when they can't hold together; each names both numbers.
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
        // A round of renewals is answered, or known to be lost, before half of the interval is over.
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

    /// The timings of a term.
    #[must_use]
    pub const fn term(&self) -> &TermTimings {
        &self.term
    }

    /// How long a message may be under way, and how long its sender waits for an answer.
    #[must_use]
    pub const fn message_lifetime(&self) -> Duration {
        self.message_lifetime
    }

    /// How long a better member must have followed before it takes a working leader's place.
    #[must_use]
    pub const fn hold_down(&self) -> Duration {
        self.hold_down
    }

    /// How long a member that has restarted keeps its earlier promise.
    #[must_use]
    pub const fn quarantine(&self) -> Duration {
        self.term.lease_duration()
    }

    /// With a quorum: longest time without a leader after the leader dies at the worst moment,
    /// right after a renewal, if the next election succeeds at the first attempt. The promises last
    /// a lease duration from their renewal, which is up to one message after the renewal was sent;
    /// the others tick again within a message's lifetime. The election takes three: pre-vote, vote and
    /// the first renewal, each there and back.
    #[must_use]
    pub fn worst_without_leader(&self) -> Duration {
        self.term.worst_without_leader() + self.message_lifetime * (2 + 3)
    }
}

/// Why timings can't hold together. The text has the numbers; the user must change one of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[non_exhaustive]
pub enum GroupTimingsError {
    /// Every message would come too late, or a lost renewal would be noticed too late to send another
    /// one.
    MessageLifetime(String),
    /// A member that restarts over and over would take the lead each time.
    HoldDown(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::candidate::TimingsOptions as TermOptions;
    use alloc::string::ToString;

    impl GroupTimings {
        /// Timings that need not be possible: every timer is always due, and a term lasts this long.
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
    }

    #[test]
    fn the_defaults_are_what_the_derivation_gives() {
        let term = TermTimings::default();
        let derived = GroupTimings::new(term, &GroupTimingsOptions::default());
        assert_eq!(derived, Ok(GroupTimings::default()));
        let bound = GroupTimings::default().worst_without_leader();
        assert_eq!(bound, Duration::from_millis(17_500));
    }

    #[test]
    fn the_shortest_lease_has_timings() {
        let term = TermTimings::new(&TermOptions {
            lease_duration: Some(Duration::from_secs(1)),
            ..TermOptions::default()
        });
        assert!(GroupTimings::new(term.unwrap(), &GroupTimingsOptions::default()).is_ok());
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
