//! The requests of clients and the answers of a store.

use std::time::Duration;

use tenure_core::lease::{LeaseDuration, LeaseId, State};
use tenure_core::{CandidateId, Instant};

/// A request and its outcome.
#[derive(Clone, Debug)]
pub struct Call {
    /// The lease with its namespace.
    pub lease: String,
    /// The request.
    pub what: What,
    /// The time of sending.
    pub sent: Instant,
    /// The answer and the time of its arrival. Without an answer, the effect is unknown.
    pub answer: Option<(Instant, Answer)>,
}

/// A request, as far as it matters to the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Acquire the lease.
    Acquire {
        /// The lease id.
        lease_id: LeaseId,
        /// The duration.
        duration: LeaseDuration,
        /// The candidate.
        holder: CandidateId,
    },
    /// Renew the lease.
    Renew {
        /// The lease id.
        lease_id: LeaseId,
        /// The new duration.
        duration: Option<LeaseDuration>,
    },
    /// Release the lease.
    Release {
        /// The lease id.
        lease_id: LeaseId,
    },
    /// Hand the lease over.
    HandOver {
        /// The lease id.
        lease_id: LeaseId,
        /// The next candidate.
        to: CandidateId,
        /// The time of the reservation.
        within: Duration,
    },
    /// Change the lease id.
    Change {
        /// The current lease id.
        lease_id: LeaseId,
        /// The new one.
        proposed: LeaseId,
    },
    /// Set the holder's metadata.
    Describe {
        /// The lease id.
        lease_id: LeaseId,
    },
    /// End the current term.
    Break,
    /// Read the lease.
    Read,
}

/// An answer of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request succeeded, and this is the lease now.
    Done(Seen),
    /// The request was refused.
    Refused,
}

/// The state of a lease in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The store's revision.
    pub revision: u64,
    /// The state.
    pub state: State,
    /// The holder.
    pub holder: Option<String>,
    /// The holder's epoch.
    pub epoch: Option<u64>,
}

impl What {
    /// The lease id of a holder's request.
    pub(super) const fn lease_id(&self) -> Option<LeaseId> {
        match *self {
            Self::Acquire { lease_id, .. }
            | Self::Renew { lease_id, .. }
            | Self::Release { lease_id }
            | Self::HandOver { lease_id, .. }
            | Self::Change { lease_id, .. }
            | Self::Describe { lease_id } => Some(lease_id),
            Self::Break | Self::Read => None,
        }
    }

    /// The lease id that no longer holds the lease if the request succeeds.
    pub(super) fn ends(&self) -> Option<LeaseId> {
        let ends = matches!(
            self,
            Self::Release { .. } | Self::HandOver { .. } | Self::Change { .. }
        );
        self.lease_id().filter(|_| ends)
    }

    /// Whether only the holder may send the request, and continues to hold the lease.
    pub(super) const fn keeps_the_term(&self) -> bool {
        matches!(
            self,
            Self::Acquire { .. } | Self::Renew { .. } | Self::Change { .. } | Self::Describe { .. }
        )
    }
}
