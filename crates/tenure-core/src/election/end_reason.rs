//! Why terms end.

use core::fmt;
use core::time::Duration;

use serde::Serialize;

use crate::lease::candidate::TICK_INTERVAL;

/// How a leader's task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// It returned.
    Returned,
    /// It returned an error.
    Failed,
    /// It panicked.
    Panicked,
    /// It was aborted.
    Aborted,
}

/// Why a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// The leader gave the term up by itself.
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
    /// An operator broke the lease or handed it over: the holder is told the same in both cases.
    Broken,
    /// Another candidate holds the lease, or the store no longer knows it.
    Superseded,
    /// The process is shutting down.
    ShutDown,
    /// The process or its machine stood still for so long that the term passed meanwhile.
    Suspended,
}

/// A pause of at least this length is called a suspension if the term ended in it: five ticks
/// missed in a row.
const SUSPENSION: Duration = TICK_INTERVAL.saturating_mul(5);

impl EndReason {
    /// The reason for the end of a term that was not renewed in time; the last tick was `gap` ago.
    pub(crate) fn of_lapse(gap: Duration) -> Self {
        if gap >= SUSPENSION {
            Self::Suspended
        } else {
            Self::RenewDeadline
        }
    }

    /// The reason for the end of a term whose task ended by itself.
    pub(crate) const fn of_task(end: TaskEnd) -> Self {
        match end {
            TaskEnd::Returned => Self::TaskReturned,
            TaskEnd::Failed => Self::TaskFailed,
            TaskEnd::Panicked => Self::TaskPanicked,
            TaskEnd::Aborted => Self::Resigned,
        }
    }

    /// Whether the next candidate should have its chance first: the term ended through this
    /// candidate's own task, or because an operator wanted another leader.
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

/// The reason as one word, for logs, metrics and the store.
impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
