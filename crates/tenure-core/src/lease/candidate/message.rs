//! Requests of a lease candidate, their answers, and its effects.

use alloc::string::{String, ToString};
use core::time::Duration;

use crate::election::EndReason;
use crate::lease::{Change, LeaseId, Rejection};
use crate::{CandidateId, Epoch};

/// A request for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Acquire the lease under this id. If another candidate holds it, wait in the store.
    Acquire {
        /// The id to hold the lease under.
        lease_id: LeaseId,
        /// How long the store may keep the request waiting for the lease.
        wait: Duration,
        /// The least epoch to hold the lease under.
        min_epoch: Option<Epoch>,
    },
    /// Begin the lease duration anew.
    Renew(LeaseId),
    /// Release the lease.
    Release {
        /// The holder's lease id.
        lease_id: LeaseId,
        /// Why the term ends, for the store's history. `None` if no term has begun under this id,
        /// or if the store itself has ended it.
        reason: Option<EndReason>,
    },
    /// Release the lease in favour of one candidate. Until `within` has passed, the store grants it
    /// to no other one.
    HandOver {
        /// The holder's lease id.
        lease_id: LeaseId,
        /// The only candidate to be granted.
        to: CandidateId,
        /// How long the lease is reserved.
        within: Duration,
    },
}

/// The answer of the store, or of the transport to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request's lease id holds the lease, under this epoch.
    Held(Epoch),
    /// The lease is released.
    Released,
    /// Another candidate holds the lease, or it can't be granted yet.
    ///
    /// With the holder and its epoch, if both are known.
    HeldByAnother(Option<(CandidateId, Epoch)>),
    /// The term of this lease id has ended before: ask with a fresh one.
    IdRetired,
    /// The lease was broken, and this lease id holds it for `remaining`.
    Broken {
        /// Zero if the break is complete.
        remaining: Duration,
    },
    /// The store counts the lease as expired.
    Expired,
    /// The lease id does not hold the lease any more; another one does or did.
    Superseded,
    /// It is unknown what the store did: no answer, an answer that makes no sense, or a request to
    /// come again. May pass by itself.
    Unknown(String),
    /// The store refuses such a request altogether (a wrong name). Does not pass by itself.
    Refused(String),
    /// The store has never accepted the credential of this candidate, or never allowed it this
    /// election. Does not pass by itself; a term goes on until its renew deadline.
    Denied(String),
}

/// The store's answer to an operation that it has applied or rejected.
impl From<Result<Change, Rejection>> for Answer {
    fn from(result: Result<Change, Rejection>) -> Self {
        match result {
            Ok(Change::Granted(epoch) | Change::Renewed(epoch)) => Self::Held(epoch),
            Ok(_) => Self::Released,
            Err(Rejection::Held { holder, epoch, .. }) => {
                Self::HeldByAnother(Some((holder, epoch)))
            }
            Err(Rejection::LockDelay { .. } | Rejection::Reserved { .. }) => {
                Self::HeldByAnother(None)
            }
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

/// An action that the driver must execute for a [`LeaseCandidate`](super::LeaseCandidate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Send this request. It replaces the request in flight, if there is one: drop that.
    Send {
        /// The number to hand back with the answer.
        attempt: u64,
        /// The request.
        request: Request,
        /// How long to wait for the answer; this includes the time that the store itself waits.
        /// After it the answer is [`Answer::Unknown`]: the machine does not watch the time of a
        /// request.
        timeout: Duration,
    },
    /// A request failed and is tried again: for the log.
    Retrying(String),
}
