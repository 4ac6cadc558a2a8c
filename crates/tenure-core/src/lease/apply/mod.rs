//! The one function that changes a lease.

mod resume;

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::Rules;
use super::record::Phase;
use super::{Acquire, Grant, Lapse, LeaseDuration, LeaseId, Operation, Owner, Record};
use crate::time::millis;
use crate::{CandidateId, Epoch, Instant, UnixMillis};

/// The longest reservation for which an operator has named no time. The candidate waits already, or
/// asks again within seconds.
const MAX_RESERVED: Duration = Duration::from_secs(60);

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The change that the operation made to the lease.
    pub change: Change,
    /// Whether the record must be on disk before the store sends any answer that depends on it.
    ///
    /// A change that only moves the start of a duration need not be durable: after a restart,
    /// every held lease counts as renewed at the restart, for its full duration on disk, so a lost
    /// renewal cannot end the lease early.
    pub durable: bool,
}

/// The change that an operation made to a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new term began.
    Granted(Epoch),
    /// The term continues; its duration counts from now.
    Renewed(Epoch),
    /// The term continues after a time without the store, possibly after its lease had expired. Its
    /// duration counts from now.
    Resumed(Epoch),
    /// The term continues under another lease id.
    Changed,
    /// The holder released the lease.
    Released,
    /// The holder handed the lease over.
    HandedOver,
    /// A break is in progress; the holder has this much time left.
    Breaking(Duration),
    /// A break has ended the term, now or earlier.
    Broken,
    /// The holder's metadata was replaced.
    MetadataSet,
    /// The answer to [`Operation::Verify`].
    Verified {
        /// Whether the verified epoch holds the lease now.
        current: bool,
        /// The epoch that holds the lease now.
        epoch: Option<Epoch>,
    },
}

/// The reason for a rejection. The operation changed nothing, except that a term whose time was
/// over has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// Another lease id holds the lease. The caller may wait or retry.
    #[error("the lease is held by {holder}")]
    Held {
        /// The holder.
        holder: CandidateId,
        /// The holder's epoch.
        epoch: Epoch,
        /// The remaining time of the lease.
        remaining: LeaseDuration,
    },
    /// The lease is free, but its lock delay has not passed. The caller may wait or retry.
    #[error("the lease's lock delay has {:?} left", in_millis(*remaining))]
    LockDelay {
        /// The rest of the lock delay.
        remaining: Duration,
    },
    /// The lease was handed over to another candidate. The caller may wait or retry.
    #[error("the lease is reserved for {to} for another {:?}", in_millis(*remaining))]
    Reserved {
        /// The only candidate that may acquire the lease.
        to: CandidateId,
        /// The rest of the reservation.
        remaining: Duration,
    },
    /// This lease id does not hold the lease, and did not hold it last.
    #[error("the lease id is not the one that holds the lease")]
    IdMismatch,
    /// Nobody holds the lease.
    #[error("nobody holds the lease")]
    NotHeld,
    /// This lease id holds the lease, but a break is in progress: the holder can no longer acquire,
    /// change or hand over the lease, or set its metadata.
    #[error("the lease is breaking and has {:?} left", in_millis(*remaining))]
    Breaking {
        /// The time that the holder has left.
        remaining: Duration,
    },
    /// This lease id holds or held the lease, and the lease was broken: it cannot be renewed.
    #[error("the lease was broken and has {:?} left", in_millis(*remaining))]
    Broken {
        /// The time that the holder has left; zero if the break is complete.
        remaining: Duration,
    },
    /// This lease id held the lease until it expired.
    #[error("the lease has expired")]
    Expired,
    /// The term of this lease id has ended. The caller must use a new lease id.
    #[error("the lease id belongs to a term that has ended")]
    IdRetired,
    /// The lease had this epoch in another term, or has had a greater one. A term that runs under
    /// this epoch cannot hold the lease any more.
    #[error("the lease can't be held under epoch {asked} again: its last epoch is {last}")]
    EpochPassed {
        /// The requested epoch.
        asked: Epoch,
        /// The greatest epoch of the lease.
        last: Epoch,
    },
    /// The requested epoch is too far ahead of the store's wall clock and of the last epoch.
    #[error(
        "the requested epoch is {asked} and must be at most {most}: {}",
        if *by_operator {
            "a hundred years above the store's wall clock"
        } else {
            "30 days above the store's wall clock and the last epoch of the lease; a greater one needs \
             an operator, or one of the clocks is wrong"
        }
    )]
    EpochTooFarAhead {
        /// The requested epoch.
        asked: Epoch,
        /// The greatest epoch that a request may name: see [`Epoch::most_asked_for`].
        most: Epoch,
        /// Whether an operator requested it.
        by_operator: bool,
    },
    /// The lease is to be handed over to a candidate that does not wait for it.
    #[error("{to} does not wait for the lease; {}", NamesOf(waiting, *others))]
    NotWaiting {
        /// The candidate.
        to: CandidateId,
        /// The first candidates that wait, in the order in which the lease is granted.
        waiting: Vec<CandidateId>,
        /// The number of further candidates that wait.
        others: usize,
    },
    /// Every epoch up to [`Epoch::MAX`] was granted: no greater number is left that would fence off
    /// the last holder.
    #[error("the lease has used up its epochs")]
    EpochsExhausted,
}

impl Rejection {
    /// Returns whether the reason passes with time, so that an acquire can wait for it.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Held { .. } | Self::LockDelay { .. } | Self::Reserved { .. }
        )
    }
}

/// The candidates that wait, for messages.
struct NamesOf<'a>(&'a [CandidateId], usize);

impl fmt::Display for NamesOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([first, rest @ ..], others) = self else {
            return f.write_str("no candidate waits");
        };
        write!(f, "these wait: {first}")?;
        for name in rest {
            write!(f, ", {name}")?;
        }
        match others {
            0 => Ok(()),
            others => write!(f, " and {others} more"),
        }
    }
}

/// Rounds down to milliseconds, for messages.
fn in_millis(time: Duration) -> Duration {
    Duration::from_millis(millis(time))
}

/// Applies one operation at `now`. It changes `record` according to the table of states and returns
/// the change, or rejects the operation and returns the reason.
///
/// It first ends a term whose time is over at `now`. A caller that must store or publish the end of
/// that term calls [`Record::settle`] before this function.
///
/// # Errors
///
/// [`Rejection`] is an expected outcome that the caller returns to the client.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tenure_core::lease::{
///     Acquire, Change, LeaseDuration, LeaseId, Metadata, Operation, Record, Rejection, Rules, apply,
/// };
/// use tenure_core::{Epoch, Instant, UnixMillis};
///
/// let acquire = |number, holder: &str| {
///     let request = Acquire {
///         lease_id: LeaseId::from_random_bits(0, number),
///         holder: holder.parse().unwrap(),
///         duration: LeaseDuration::Fixed(Duration::from_secs(15)),
///         lock_delay: Duration::ZERO,
///         min_epoch: None,
///         by_operator: false,
///         metadata: Metadata::new(),
///     };
///     Operation::Acquire(request, UnixMillis::new(1_700_000_000_000))
/// };
/// let at = |secs| Instant::default() + Duration::from_secs(secs);
/// let mut record = Record::default();
///
/// let granted = apply(&mut record, &acquire(1, "a"), at(0), &Rules::NATIVE)?;
/// let first = Epoch::new(1_700_000_000_000).unwrap();
/// assert_eq!(granted.change, Change::Granted(first));
///
/// // While "a" holds the lease, "b" is refused; at the very end of it, "b" is granted.
/// let refused = apply(&mut record, &acquire(2, "b"), at(14), &Rules::NATIVE);
/// assert!(matches!(refused, Err(Rejection::Held { .. })));
/// let granted = apply(&mut record, &acquire(2, "b"), at(15), &Rules::NATIVE)?;
/// assert!(matches!(granted.change, Change::Granted(second) if second > first));
/// # Ok::<(), Rejection>(())
/// ```
pub fn apply(
    record: &mut Record,
    operation: &Operation,
    now: Instant,
    rules: &Rules,
) -> Result<Applied, Rejection> {
    apply_as(None, record, operation, now, rules)
}

/// Applies one operation, as [`apply`] does, for a store with access control. `owner` is the
/// principal that sent the operation. It becomes the owner of a lease that it acquires. The lease
/// id of another principal's lease counts as a wrong lease id.
///
/// # Errors
///
/// As [`apply`].
pub fn apply_as(
    owner: Option<&Owner>,
    record: &mut Record,
    operation: &Operation,
    now: Instant,
    rules: &Rules,
) -> Result<Applied, Rejection> {
    record.settle(now);
    match operation {
        Operation::Acquire(request, wall) => acquire(record, owner, request, *wall, now, rules),
        Operation::Resume(request, of_term, wall) => {
            resume::resume(record, owner, request, *of_term, *wall, now, rules)
        }
        Operation::Renew(lease_id, duration) => {
            renew(record, (*lease_id, owner), *duration, now, rules)
        }
        Operation::Change { lease_id, proposed } => {
            change(record, (*lease_id, owner), *proposed, now)
        }
        Operation::Release(lease_id) => release(record, (*lease_id, owner), now),
        Operation::Break(period) => match period.is_some_and(|it| it.is_zero()) {
            true if is_barred(record, now) => {
                lift(record);
                durable(Change::Broken)
            }
            _ => break_lease(record, *period, now),
        },
        // `Lease` has checked that the candidate waits.
        Operation::HandOver {
            lease_id,
            to,
            within,
            forced: _,
        } => {
            only_current(record, (*lease_id, owner), now)?;
            give_up(record, now);
            record.reserve(to.clone(), *within, now);
            durable(Change::HandedOver)
        }
        Operation::SwitchOver {
            to,
            within,
            forced: _,
        } => {
            let applied = break_lease(record, *within, now)?;
            let duration = record
                .grant
                .as_ref()
                .and_then(|grant| grant.duration.fixed());
            let reserved = duration.unwrap_or(MAX_RESERVED).min(MAX_RESERVED);
            record.reserve(to.clone(), within.unwrap_or(reserved), now);
            durable(applied.change)
        }
        Operation::SetMetadata(lease_id, metadata) => {
            only_current(record, (*lease_id, owner), now)?;
            record.set_metadata(metadata);
            durable(Change::MetadataSet)
        }
        Operation::Verify(asked) => {
            let epoch = record.held(now).map(|grant| grant.epoch);
            volatile(Change::Verified {
                current: epoch == Some(*asked),
                epoch,
            })
        }
    }
}

fn durable(change: Change) -> Result<Applied, Rejection> {
    Ok(Applied {
        change,
        durable: true,
    })
}

fn volatile(change: Change) -> Result<Applied, Rejection> {
    Ok(Applied {
        change,
        durable: false,
    })
}

fn acquire(
    record: &mut Record,
    owner: Option<&Owner>,
    request: &Acquire,
    wall: UnixMillis,
    now: Instant,
    rules: &Rules,
) -> Result<Applied, Rejection> {
    if rules.refuse_retired_ids && record.is_retired(request.lease_id) {
        return Err(Rejection::IdRetired);
    }
    if let Some(grant) = record.held(now) {
        return match record.phase {
            // An acquire by the lease id that holds the lease is a renewal. So a candidate may
            // repeat a request whose answer was lost, without competing with itself.
            //
            // The request may also be a late duplicate of the request that began the term, so it
            // must not undo later changes that the holder relies on. Metadata and lock delay stay
            // as they are. The lease keeps its duration, or gets the requested one if that is
            // longer. The rest of the old duration counts from an earlier instant, so a restart
            // with at least the same duration never shortens the lease.
            Phase::Leased { .. } if grant.is_of(request.lease_id, owner) => {
                let duration = if rules.acquire_again_may_shorten {
                    request.duration
                } else {
                    request.duration.max(grant.duration)
                };
                Ok(restart_clock(record, Some(duration), now))
            }
            Phase::Breaking { until } if grant.is_of(request.lease_id, owner) => {
                let remaining = until.since(now);
                Err(Rejection::Breaking { remaining })
            }
            _ => {
                // Reject a request now that would wait and then be rejected.
                next_epoch(record, request, wall)?;
                Err(held_by_another(record, grant, now))
            }
        };
    }
    let epoch = next_epoch(record, request, wall)?;
    grantable(record, Some(&request.holder), now)?;
    Ok(grant(record, owner, request, epoch, wall, now))
}

/// Begins a term under this epoch. The caller has checked that the lease is free for it.
fn grant(
    record: &mut Record,
    owner: Option<&Owner>,
    request: &Acquire,
    epoch: Epoch,
    wall: UnixMillis,
    now: Instant,
) -> Applied {
    let expires = request.duration.end(now);
    record.phase = Phase::Leased { expires };
    record.grant = Some(Grant {
        lease_id: request.lease_id,
        holder: request.holder.clone(),
        owner: owner.cloned(),
        epoch,
        granted_at: wall,
        duration: request.duration,
        lock_delay: request.lock_delay,
        without_store: None,
    });
    record.set_metadata(&request.metadata);
    record.change_rare(|rare| rare.reserved = None);
    record.unretire(request.lease_id);
    Applied {
        change: Change::Granted(epoch),
        durable: true,
    }
}

/// Returns the epoch of the next grant. It is greater than all earlier epochs, so that receivers
/// can always distinguish delayed requests of the last holder from those of the new one.
fn next_epoch(record: &Record, request: &Acquire, wall: UnixMillis) -> Result<Epoch, Rejection> {
    let last = record.last_epoch();
    let least = match request.min_epoch {
        None => wall,
        Some(asked) => {
            check_ahead(last, asked, request, wall)?;
            UnixMillis::new(asked.get())
        }
    };
    Epoch::following(last, least).ok_or(Rejection::EpochsExhausted)
}

/// Checks that a requested epoch is not too far ahead.
fn check_ahead(
    last: Option<Epoch>,
    asked: Epoch,
    &Acquire { by_operator, .. }: &Acquire,
    wall: UnixMillis,
) -> Result<(), Rejection> {
    let most = Epoch::most_asked_for(last, wall, by_operator);
    if asked > most {
        return Err(Rejection::EpochTooFarAhead {
            asked,
            most,
            by_operator,
        });
    }
    Ok(())
}

/// Checks whether a free lease may be granted to `candidate`; with `None`, to every candidate.
fn grantable(
    record: &Record,
    candidate: Option<&CandidateId>,
    now: Instant,
) -> Result<(), Rejection> {
    if let Some(until) = record.lock_delay_until(now) {
        return Err(Rejection::LockDelay {
            remaining: until.since(now),
        });
    }
    if let Some(reserved) = record.reserved(now)
        && Some(&reserved.to) != candidate
    {
        let (to, remaining) = (reserved.to.clone(), reserved.until().since(now));
        return Err(Rejection::Reserved { to, remaining });
    }
    Ok(())
}

/// Checks whether the lease may be deleted at `now`: it is free, and no lock delay or reservation
/// is running. A break with the period zero ends both.
///
/// The caller must keep its greatest epoch after the deletion, and for some time the ids of its
/// ended terms: see [`Record::deleted`].
///
/// # Errors
///
/// [`Rejection::Held`], [`Rejection::LockDelay`] or [`Rejection::Reserved`].
pub fn deletable(record: &Record, now: Instant) -> Result<(), Rejection> {
    match record.held(now) {
        Some(grant) => Err(held_by_another(record, grant, now)),
        None => grantable(record, None, now),
    }
}

fn held_by_another(record: &Record, grant: &Grant, now: Instant) -> Rejection {
    Rejection::Held {
        holder: grant.holder.clone(),
        epoch: grant.epoch,
        remaining: record
            .remaining(now)
            .unwrap_or(LeaseDuration::Fixed(Duration::ZERO)),
    }
}

/// Renews the term: its duration counts from `now` again. A changed duration must be durable: a
/// longer one because the holder relies on it, a shorter one because other candidates do. A lease
/// that was changed from infinite to finite must not be infinite after a restart, when its holder
/// may be gone.
fn restart_clock(record: &mut Record, duration: Option<LeaseDuration>, now: Instant) -> Applied {
    let Some(grant) = &mut record.grant else {
        unreachable!("a held lease has a grant")
    };
    let duration = duration.unwrap_or(grant.duration);
    let durable = duration != grant.duration;
    grant.duration = duration;
    let expires = duration.end(now);
    record.phase = Phase::Leased { expires };
    Applied {
        change: Change::Renewed(grant.epoch),
        durable,
    }
}

/// A lease id, and the principal that sent the lease id.
type Claim<'a> = (LeaseId, Option<&'a Owner>);

/// Returns whether this lease id and principal hold the lease, or were the last to hold it.
fn is_current(record: &Record, (lease_id, owner): Claim<'_>) -> bool {
    let grant = record.grant.as_ref();
    grant.is_some_and(|grant| grant.is_of(lease_id, owner))
}

fn renew(
    record: &mut Record,
    claim: Claim<'_>,
    duration: Option<LeaseDuration>,
    now: Instant,
    rules: &Rules,
) -> Result<Applied, Rejection> {
    match only_current(record, claim, now) {
        Ok(()) => Ok(restart_clock(record, duration, now)),
        // No grant has followed, so the epoch of this term is still the greatest, and fencing works
        // as before.
        Err(Rejection::Expired) if rules.renew_after_expiry => {
            let renewed = restart_clock(record, duration, now);
            record.unretire(claim.0);
            durable(renewed.change)
        }
        Err(Rejection::Breaking { remaining }) => Err(Rejection::Broken { remaining }),
        Err(rejection) => Err(rejection),
    }
}

fn change(
    record: &mut Record,
    claim: Claim<'_>,
    proposed: LeaseId,
    now: Instant,
) -> Result<Applied, Rejection> {
    match record.phase {
        Phase::Available | Phase::Broken { .. } | Phase::Expired { .. } => {
            return Err(Rejection::NotHeld);
        }
        // This is a repeated request.
        Phase::Leased { .. } if is_current(record, (proposed, claim.1)) => {
            return volatile(Change::Changed);
        }
        Phase::Leased { .. } | Phase::Breaking { .. } => only_current(record, claim, now)?,
    }
    // From now on only the new id proves that its owner holds the lease.
    record.retire(claim.0, now);
    record.unretire(proposed);
    if let Some(grant) = &mut record.grant {
        grant.lease_id = proposed;
    }
    durable(Change::Changed)
}

fn release(record: &mut Record, claim: Claim<'_>, now: Instant) -> Result<Applied, Rejection> {
    if record.phase == Phase::Available || !is_current(record, claim) {
        return Err(Rejection::IdMismatch);
    }
    give_up(record, now);
    durable(Change::Released)
}

/// Ends the term after the holder has confirmed that it has stopped. So there is no lock delay,
/// even after an expiry or a break.
fn give_up(record: &mut Record, now: Instant) {
    record.phase = Phase::Available;
    record.retire_current(now);
    record.bring_reservation_forward(now);
}

/// Returns whether nobody holds the lease, and its lock delay or its reservation bars candidates.
fn is_barred(record: &Record, now: Instant) -> bool {
    record.held(now).is_none() && grantable(record, None, now).is_err()
}

/// Ends the lock delay and the reservation of a lease that nobody holds. This is safe for the lease:
/// its last term has ended. The operator decides that work of that term has ended, too.
fn lift(record: &mut Record) {
    let barred_until = Instant::default();
    record.phase = Phase::Broken { barred_until };
    record.change_rare(|rare| rare.reserved = None);
    // A lock delay begins again at a restart.
    if let Some(grant) = &mut record.grant {
        grant.lock_delay = Duration::ZERO;
    }
}

fn break_lease(
    record: &mut Record,
    period: Option<Duration>,
    now: Instant,
) -> Result<Applied, Rejection> {
    // A break may shorten the remaining time but never extend it: the caller of an earlier break
    // relies on the end in its answer.
    let left = match record.phase {
        Phase::Available => return Err(Rejection::NotHeld),
        Phase::Broken { .. } => return volatile(Change::Broken),
        Phase::Expired { .. } => Duration::ZERO,
        Phase::Leased { expires: None } => period.unwrap_or(Duration::ZERO),
        Phase::Leased { expires: Some(end) } | Phase::Breaking { until: end } => {
            let left = end.since(now);
            period.unwrap_or(left).min(left)
        }
    };
    match record.phase {
        Phase::Expired { barred_until } => {
            record.phase = Phase::Broken { barred_until };
            durable(Change::Broken)
        }
        Phase::Breaking { until } if now + left == until => volatile(Change::Breaking(left)),
        _ if left.is_zero() => {
            record.end(now, Lapse::Broken, now);
            record.bring_reservation_forward(now);
            durable(Change::Broken)
        }
        _ => {
            record.phase = Phase::Breaking { until: now + left };
            record.bring_reservation_forward(now);
            durable(Change::Breaking(left))
        }
    }
}

/// Rejects the operation unless `claim` holds the lease and no break is in progress.
fn only_current(record: &Record, claim: Claim<'_>, now: Instant) -> Result<(), Rejection> {
    if !is_current(record, claim) {
        return Err(Rejection::IdMismatch);
    }
    match record.phase {
        Phase::Available => Err(Rejection::IdMismatch),
        Phase::Leased { .. } => Ok(()),
        Phase::Breaking { until } => Err(Rejection::Breaking {
            remaining: until.since(now),
        }),
        Phase::Broken { .. } => Err(Rejection::Broken {
            remaining: Duration::ZERO,
        }),
        Phase::Expired { .. } => Err(Rejection::Expired),
    }
}

#[cfg(test)]
mod tests;
