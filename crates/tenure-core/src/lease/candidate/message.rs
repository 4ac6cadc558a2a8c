//! What goes into a keeper and what comes out.

use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use super::LOOK_INTERVAL;
use crate::lease::{Change, LeaseId, Rejection};
use crate::{CandidateId, Epoch};

/// A request for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Hold the lease under this id; if another holds it, wait in the store for so long.
    Acquire {
        /// The id to hold it under.
        lease_id: LeaseId,
        /// How long the store may keep the request waiting for the lease.
        wait: Duration,
        /// The least epoch to hold it under.
        min_epoch: Option<Epoch>,
    },
    /// Count the duration from now again.
    Renew(LeaseId),
    /// Give the lease up.
    Release {
        /// The id that holds.
        lease_id: LeaseId,
        /// Why the term ends, for the store's history: `None` if no term has begun under this id, or if
        /// the store is who has ended it.
        reason: Option<EndReason>,
    },
    /// Give the lease up to this candidate; for so long nobody else is granted.
    HandOver {
        /// The id that holds.
        lease_id: LeaseId,
        /// The only candidate to be granted.
        to: CandidateId,
        /// For how long.
        within: Duration,
    },
}

/// What the store (or the way to it) answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The lease id of the request holds the lease, under this epoch.
    Held(Epoch),
    /// The lease is given up.
    Released,
    /// Another one holds the lease, or nobody may be granted it yet.
    HeldByAnother {
        /// Who holds it, if anyone.
        holder: Option<CandidateId>,
        /// The holder's epoch, if anyone holds it.
        epoch: Option<Epoch>,
    },
    /// The lease id's term has ended before: ask with a fresh one.
    IdRetired,
    /// The lease was broken and this lease id has so long left.
    Broken {
        /// Zero if the break is complete.
        remaining: Duration,
    },
    /// The store counts the lease as expired.
    Expired,
    /// The lease id does not hold the lease any more, somebody else does or did.
    Superseded,
    /// Nothing is known of what the store did: no answer, an answer that makes no sense, or one
    /// that says to come again. May pass by itself.
    Unknown(String),
    /// The store refuses to deal with such a request at all (wrong name, no permission). Does not
    /// pass by itself.
    Refused(String),
}

/// What a store tells a candidate of an operation that it has done, or refused.
impl From<Result<Change, Rejection>> for Answer {
    fn from(result: Result<Change, Rejection>) -> Self {
        match result {
            Ok(Change::Granted(epoch) | Change::Renewed(epoch)) => Self::Held(epoch),
            Ok(_) => Self::Released,
            Err(Rejection::Held { holder, epoch, .. }) => Self::HeldByAnother {
                holder: Some(holder),
                epoch: Some(epoch),
            },
            Err(Rejection::LockDelay { .. } | Rejection::Reserved { .. }) => Self::HeldByAnother {
                holder: None,
                epoch: None,
            },
            Err(Rejection::IdRetired) => Self::IdRetired,
            Err(Rejection::Breaking { remaining } | Rejection::Broken { remaining }) => {
                Self::Broken { remaining }
            }
            Err(Rejection::Expired) => Self::Expired,
            Err(Rejection::IdMismatch | Rejection::NotHeld) => Self::Superseded,
            Err(rejection @ (Rejection::EpochsExhausted | Rejection::EpochTooFarAhead { .. })) => {
                Self::Refused(rejection.to_string())
            }
        }
    }
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// The leader's task hangs, or says that it is not well.
    Unhealthy,
    /// Somebody broke the lease, or an operator handed it over: the holder is told the same.
    Broken,
    /// Another candidate holds the lease, or the store no longer knows it.
    Superseded,
    /// The process is shutting down.
    ShutDown,
    /// The process or its machine stood still for so long that the term passed meanwhile.
    Suspended,
}

/// A pause of this process of at least so long is called a suspension if the term ended in it: five
/// looks at the clock missed in a row.
const SUSPENSION: Duration = LOOK_INTERVAL.saturating_mul(5);

impl EndReason {
    /// Why a term is over that nobody renewed, where the clock was last looked at `gap` ago.
    pub(crate) fn of_lapse(gap: Duration) -> Self {
        if gap >= SUSPENSION {
            Self::Suspended
        } else {
            Self::RenewDeadline
        }
    }

    /// Why a term is over whose task ended by itself.
    pub(crate) const fn of_task(end: TaskEnd) -> Self {
        match end {
            TaskEnd::Returned => Self::TaskReturned,
            TaskEnd::Failed => Self::TaskFailed,
            TaskEnd::Panicked => Self::TaskPanicked,
            TaskEnd::Aborted => Self::Resigned,
        }
    }

    /// Whether the next candidate should have its chance first: the term ended through this
    /// candidate's own task, or because somebody wanted another leader.
    #[must_use]
    pub const fn calls_for_cool_down(self) -> bool {
        match self {
            Self::TaskReturned
            | Self::TaskFailed
            | Self::TaskPanicked
            | Self::Unhealthy
            | Self::Broken => true,
            Self::Resigned
            | Self::HandedOver
            | Self::RenewDeadline
            | Self::Superseded
            | Self::ShutDown
            | Self::Suspended => false,
        }
    }

    /// The reason as one word, for logs, metrics and the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resigned => "resigned",
            Self::TaskReturned => "task_returned",
            Self::TaskFailed => "task_failed",
            Self::TaskPanicked => "task_panicked",
            Self::HandedOver => "handed_over",
            Self::Unhealthy => "unhealthy",
            Self::RenewDeadline => "renew_deadline",
            Self::Broken => "broken",
            Self::Superseded => "superseded",
            Self::ShutDown => "shut_down",
            Self::Suspended => "suspended",
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOutput {
    /// Send this. It replaces the request in flight, if there is one: drop that.
    Send {
        /// The number to hand back with the answer.
        attempt: u64,
        /// What to send.
        request: Request,
        /// For how long to wait for the answer, the store's own waiting included. After that the
        /// answer is [`Answer::Unknown`]: the keeper itself does not watch the time of a request.
        timeout: Duration,
    },
    /// A term began: start the task.
    Began(Epoch),
    /// A renewal has failed and the next ones are being tried (`true`), or the term is safe again.
    AtRisk(bool),
    /// Tell the task to stop. It may take the stop grace for it.
    Cancel(EndReason),
    /// Abort the task.
    Abort,
    /// The task was aborted and is still going. The overrun policy decides.
    Overrun,
    /// The term is over and the task is gone; the lease was released if that was possible.
    Ended(Epoch, EndReason),
    /// The campaign was given up before it won.
    Withdrawn,
    /// The store refuses to deal with this candidate, for this reason; it no longer campaigns.
    Failed(String),
    /// Another candidate was seen to lead, or nobody.
    SeenLeader(Option<(CandidateId, Epoch)>),
    /// A request failed and is tried again: for the log.
    Retrying(String),
}
