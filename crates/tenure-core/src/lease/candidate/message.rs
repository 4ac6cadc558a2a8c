//! Requests of a lease candidate, their answers, and its effects.

use alloc::string::{String, ToString};
use core::time::Duration;

use crate::election::EndReason;
use crate::lease::{Acquire, Change, LeaseId, Operation, Rejection, Resume};
use crate::{CandidateId, Epoch, UnixMillis};

/// A request for the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Acquire the lease under this id. If another candidate holds it, wait in the store.
    Acquire {
        /// The lease id under which the candidate will hold the lease.
        lease_id: LeaseId,
        /// How long the store may keep the request waiting for the lease.
        wait: Duration,
        /// The least epoch of the grant.
        min_epoch: Option<Epoch>,
    },
    /// Restart the lease duration.
    Renew(LeaseId),
    /// Read the lease of a running term, without a renewal. The answer is [`Answer::Held`] if it
    /// shows the term, and [`Answer::Superseded`] if the term is over. It is [`Answer::Released`] if
    /// a renewal must follow at once: another program has removed the term, so a renewal must write
    /// it back, or the service is silent. A service that no other program writes may renew instead.
    Look(LeaseId),
    /// Take the lease under exactly this epoch, for a term that runs without the store: renew it,
    /// also after its expiry if no other request was granted it since, or acquire it if its last
    /// epoch is smaller. It never waits.
    Resume {
        /// The lease id of the term.
        lease_id: LeaseId,
        /// The epoch of the term.
        epoch: Epoch,
        /// For how long the term has run without the store.
        without_store: Duration,
    },
    /// Release the lease.
    Release {
        /// The holder's lease id.
        lease_id: LeaseId,
        /// The reason for the end of the term, for the store's history. `None` if no term has begun
        /// under this id, or if the store itself has ended the term.
        reason: Option<EndReason>,
    },
    /// Release the lease in favour of one candidate. The store grants it to no other candidate
    /// until `within` has passed.
    HandOver {
        /// The holder's lease id.
        lease_id: LeaseId,
        /// The only candidate that may acquire the lease.
        to: CandidateId,
        /// The time of the reservation.
        within: Duration,
    },
}

impl Request {
    /// Returns the operation on a lease, at this time of the store's wall clock. `acquire` makes the
    /// acquire with this lease id and the least epoch of the grant.
    #[must_use]
    pub fn operation(
        self,
        acquire: impl FnOnce(LeaseId, Option<Epoch>) -> Acquire,
        wall: UnixMillis,
    ) -> Operation {
        match self {
            Self::Acquire {
                lease_id,
                min_epoch,
                ..
            } => Operation::Acquire(acquire(lease_id, min_epoch), wall),
            Self::Resume {
                lease_id,
                epoch,
                without_store,
            } => {
                let of_term = Resume {
                    epoch,
                    without_store,
                };
                Operation::Resume(acquire(lease_id, None), of_term, wall)
            }
            Self::Renew(lease_id) | Self::Look(lease_id) => Operation::Renew(lease_id, None),
            Self::Release { lease_id, .. } => Operation::Release(lease_id),
            Self::HandOver {
                lease_id,
                to,
                within,
            } => Operation::HandOver {
                lease_id,
                to,
                within,
                forced: false,
            },
        }
    }
}

/// The answer of the store, or of the transport to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The request's lease id holds the lease, under this epoch.
    Held(Epoch),
    /// The lease is released.
    Released,
    /// Another candidate holds the lease, or the lease can't be granted yet.
    ///
    /// Contains the holder and its epoch if both are known.
    HeldByAnother(Option<(CandidateId, Epoch)>),
    /// The term of this lease id has ended. The candidate must use a fresh id.
    IdRetired,
    /// The lease was broken, and this lease id holds it for `remaining`.
    Broken {
        /// Zero if the break is complete.
        remaining: Duration,
    },
    /// The store counts the lease as expired.
    Expired,
    /// The lease id does not hold the lease any more, or not under the requested epoch; another one
    /// does or did.
    Superseded,
    /// The result is unknown: there was no answer, the answer was invalid, or the store asked for a
    /// retry. The cause may pass without a change.
    Unknown(String),
    /// The store refuses the request permanently, for example because of a wrong name.
    Refused(String),
    /// The store has never accepted the credential of this candidate, or the credential has never
    /// allowed this election. The refusal is permanent until an operator changes the rights. A term
    /// continues until its renew deadline.
    Denied(String),
}

/// Converts the store's result of an operation that it has applied or rejected.
impl From<Result<Change, Rejection>> for Answer {
    fn from(result: Result<Change, Rejection>) -> Self {
        match result {
            Ok(Change::Granted(epoch) | Change::Renewed(epoch) | Change::Resumed(epoch)) => {
                Self::Held(epoch)
            }
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
            Err(Rejection::IdMismatch | Rejection::NotHeld | Rejection::EpochPassed { .. }) => {
                Self::Superseded
            }
            Err(
                rejection @ (Rejection::EpochsExhausted
                | Rejection::EpochTooFarAhead { .. }
                | Rejection::NotWaiting { .. }),
            ) => Self::Refused(rejection.to_string()),
        }
    }
}

/// An action that the driver must execute for a [`LeaseCandidate`](super::LeaseCandidate).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseEffect {
    /// Send this request. It replaces the request in flight, which the driver must drop.
    Send {
        /// The number that the answer must repeat.
        attempt: u64,
        /// The request.
        request: Request,
        /// The time to wait for the answer, which includes the time that the request may wait in
        /// the store. After it the driver must hand in [`Answer::Unknown`], because the machine has
        /// no timeouts for requests.
        timeout: Duration,
    },
    /// A request failed and will be retried, after this delay if it is known. The text is for the
    /// log.
    Retrying(String, Option<Duration>),
}
