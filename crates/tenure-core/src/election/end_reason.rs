//! The reasons for which terms end.

use core::fmt;
use core::time::Duration;

use serde::Serialize;

use crate::lease::candidate::TICK_INTERVAL;

/// The way in which a leader's task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// The task returned.
    Returned,
    /// The task returned an error.
    Failed,
    /// The task panicked.
    Panicked,
    /// The task was aborted.
    Aborted,
}

/// The reason for the end of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// The leader resigned.
    Resigned,
    /// The leader's task returned.
    TaskReturned,
    /// The leader's task returned an error.
    TaskFailed,
    /// The leader's task panicked.
    TaskPanicked,
    /// No renewal succeeded in time.
    RenewDeadline,
    /// The leader handed the lease over to a candidate of its choice.
    HandedOver,
    /// The leader's task hangs, or a health check reports a failure.
    Unhealthy,
    /// An operator broke the lease or handed it over. The holder cannot distinguish the two.
    Broken,
    /// Another candidate holds the lease, or the store no longer knows it.
    Superseded,
    /// The process is shutting down.
    ShutDown,
    /// The process or its machine was suspended for so long that the term ended meanwhile.
    Suspended,
}

/// The shortest pause of a leader's process that counts as a suspension: five missed ticks in a row.
pub const SUSPENSION: Duration = TICK_INTERVAL.saturating_mul(5);

impl EndReason {
    /// All reasons, in the order of their definition.
    pub const ALL: [Self; 11] = [
        Self::Resigned,
        Self::TaskReturned,
        Self::TaskFailed,
        Self::TaskPanicked,
        Self::RenewDeadline,
        Self::HandedOver,
        Self::Unhealthy,
        Self::Broken,
        Self::Superseded,
        Self::ShutDown,
        Self::Suspended,
    ];

    /// Returns the reason for the end of a term that was not renewed in time. The last tick was
    /// `gap` ago.
    pub(crate) fn of_lapse(gap: Duration) -> Self {
        if gap >= SUSPENSION {
            Self::Suspended
        } else {
            Self::RenewDeadline
        }
    }

    /// Returns the reason for the end of a term whose task ended by itself.
    #[must_use]
    pub const fn of_task(end: TaskEnd) -> Self {
        match end {
            TaskEnd::Returned => Self::TaskReturned,
            TaskEnd::Failed => Self::TaskFailed,
            TaskEnd::Panicked => Self::TaskPanicked,
            TaskEnd::Aborted => Self::Resigned,
        }
    }

    /// Returns whether another candidate should get a chance to lead first: this candidate's task
    /// ended the term, or an operator wanted another leader.
    #[must_use]
    pub const fn calls_for_cool_down(self) -> bool {
        matches!(
            self,
            Self::TaskReturned
                | Self::TaskFailed
                | Self::TaskPanicked
                | Self::Unhealthy
                | Self::Broken
        )
    }
}

/// Formats the reason as one word, for logs, metrics and the store.
impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_reasons_is_complete() {
        // A new reason does not compile here until it has a number, and then it must be in the list.
        let number = |reason| match reason {
            EndReason::Resigned => 0,
            EndReason::TaskReturned => 1,
            EndReason::TaskFailed => 2,
            EndReason::TaskPanicked => 3,
            EndReason::RenewDeadline => 4,
            EndReason::HandedOver => 5,
            EndReason::Unhealthy => 6,
            EndReason::Broken => 7,
            EndReason::Superseded => 8,
            EndReason::ShutDown => 9,
            EndReason::Suspended => 10,
        };
        let numbers = EndReason::ALL.map(number);
        assert!(numbers.into_iter().eq(0..EndReason::ALL.len()));
    }
}
