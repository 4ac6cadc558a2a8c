//! What can be asked of a lease.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use super::{LeaseDuration, LeaseId};
use crate::{CandidateId, Epoch, UnixMillis};

/// What a holder says about itself, for everybody to see (an address, a version).
pub type Metadata = BTreeMap<String, String>;

/// A request to hold a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The secret under which the lease will be held; the same one when asking again.
    pub lease_id: LeaseId,
    /// Who asks.
    pub holder: CandidateId,
    /// How long the lease lasts without a renewal.
    pub duration: LeaseDuration,
    /// For how long after this term's *expiry or break* nobody is to be granted, so that work in
    /// flight ends. It does not apply after a release.
    pub lock_delay: Duration,
    /// What the holder says about itself while it holds.
    pub metadata: Metadata,
    /// The least epoch of the grant. A candidate that is elected elsewhere, too, asks for the epoch
    /// that it has there; then the wall clock does not count, so that both agree if they can. It may
    /// be so far ahead of that clock as [`Epoch::most_asked_for`] says.
    pub min_epoch: Option<Epoch>,
}

/// One operation on one lease, with valid arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Hold the lease, or renew it if this lease id holds it already. `wall` numbers the epoch.
    Acquire(Acquire, UnixMillis),
    /// Count the duration from now again, with a new duration if one is given.
    Renew(LeaseId, Option<LeaseDuration>),
    /// Hold on under another lease id; the term and the clock go on.
    Change {
        /// The id that holds.
        lease_id: LeaseId,
        /// The id that shall hold.
        proposed: LeaseId,
    },
    /// Give the lease up: it is available at once.
    Release(LeaseId),
    /// End whoever's lease it is. It ends after this period or at its own expiry, whichever comes
    /// first; without a period a fixed lease runs out and an infinite one ends at once.
    Break(Option<Duration>),
    /// Release, but for so long only this candidate is granted.
    HandOver {
        /// The id that holds.
        lease_id: LeaseId,
        /// The only candidate to be granted.
        to: CandidateId,
        /// For how long.
        within: Duration,
    },
    /// Break, and then for so long only this candidate is granted: an operator's hand-over, which the
    /// holder learns of like a break, and which needs no lease id.
    SwitchOver {
        /// The only candidate to be granted.
        to: CandidateId,
        /// How long the holder has to stop, and then again the candidate to come.
        within: Duration,
    },
    /// Replace what the holder says about itself.
    SetMetadata(LeaseId, Metadata),
    /// Ask whether the term of this epoch still holds. Changes nothing.
    Verify(Epoch),
}
