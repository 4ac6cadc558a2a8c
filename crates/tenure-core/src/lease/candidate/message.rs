//! What goes into a keeper and what comes out.

use alloc::string::{String, ToString};
use core::time::Duration;

use crate::election::EndReason;
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

/// What the driver must do for a [`LeaseCandidate`](super::LeaseCandidate).
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
