//! The operations on a lease.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use super::{LeaseDuration, LeaseId};
use crate::{CandidateId, Epoch, UnixMillis};

/// Public data of a holder, for example its address or version.
pub type Metadata = BTreeMap<String, String>;

/// A request to acquire a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    /// The secret that proves the ownership of the lease. A repeated request has the same id.
    pub lease_id: LeaseId,
    /// The candidate.
    pub holder: CandidateId,
    /// The time until the lease expires without a renewal.
    pub duration: LeaseDuration,
    /// The time after this term's *expiry or break* in which the lease is not granted, so that work
    /// in progress can end. It does not apply after a release.
    pub lock_delay: Duration,
    /// The holder's metadata during the term.
    pub metadata: Metadata,
    /// The least epoch of the grant. A candidate that is also elected among peers requests the
    /// epoch that the peers have chosen. The store then ignores its wall clock, so that both epochs
    /// are equal if possible. [`Epoch::most_asked_for`] is the upper bound.
    pub min_epoch: Option<Epoch>,
    /// Whether the sender is an operator of the lease, who may request epochs further ahead.
    pub by_operator: bool,
}

/// The term for which a candidate takes a lease again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The epoch of the term: the lease is held under this epoch or not at all.
    pub epoch: Epoch,
    /// For how long the term has run without the store, for the history.
    pub without_store: Duration,
}

/// One operation on one lease, with valid arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Acquire the lease, or renew it if this lease id already holds it. The wall-clock time is the
    /// source of the epoch.
    Acquire(Acquire, UnixMillis),
    /// Hold the lease under exactly the epoch of a term that has run without the store. If this
    /// lease id held the lease under that epoch until it expired, and no grant has followed, the
    /// term continues. If all epochs of the lease are smaller, the lease is granted. The request's
    /// least epoch has no effect. The wall-clock time is for the history.
    Resume(Acquire, Resume, UnixMillis),
    /// Renew the lease at `now`, with a new duration if there is one.
    Renew(LeaseId, Option<LeaseDuration>),
    /// Replace the lease id. The term and its remaining time continue.
    Change {
        /// The lease id that holds the lease.
        lease_id: LeaseId,
        /// The new lease id.
        proposed: LeaseId,
    },
    /// Release the lease: it is free at once.
    Release(LeaseId),
    /// Break the lease of any holder. It ends after this period or at its own expiry, whichever
    /// comes first. Without a period, a fixed lease runs until its expiry, and an infinite lease
    /// ends at once. If nobody holds the lease, a break with the period zero ends its lock delay and
    /// its reservation.
    Break(Option<Duration>),
    /// Release the lease and reserve it for one candidate.
    HandOver {
        /// The lease id that holds the lease.
        lease_id: LeaseId,
        /// The only candidate that may acquire the lease.
        to: CandidateId,
        /// The time of the reservation.
        within: Duration,
        /// Whether the candidate need not wait for the lease.
        forced: bool,
    },
    /// Break the lease, and then reserve it for one candidate: an operator's hand-over, which needs
    /// no lease id. The holder notices it as a break.
    SwitchOver {
        /// The only candidate that may acquire the lease.
        to: CandidateId,
        /// The time that the holder has to stop. The candidate has the same time to acquire the
        /// lease, from the end of the lock delay on. `None`: the holder has the rest of its lease,
        /// and the candidate has the duration of the lease, but at most a minute.
        within: Option<Duration>,
        /// Whether the candidate need not wait for the lease.
        forced: bool,
    },
    /// Replace the holder's metadata.
    SetMetadata(LeaseId, Metadata),
    /// Check whether the term with this epoch still holds the lease, without changing anything.
    Verify(Epoch),
}
