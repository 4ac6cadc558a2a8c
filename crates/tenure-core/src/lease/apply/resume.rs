//! The effect of [`Operation::Resume`](crate::lease::Operation::Resume).

use core::time::Duration;

use super::{
    Applied, Change, Rejection, check_ahead, grant, grantable, held_by_another, is_current,
    restart_clock,
};
use crate::lease::record::Phase;
use crate::lease::{Acquire, Owner, Record, Resume, Rules, WithoutStore};
use crate::{Instant, UnixMillis};

/// Lets the holder of a term that ran without the store hold the lease again, under the epoch of
/// that term. It gives the lease to no candidate that [`acquire`](super::acquire) would refuse,
/// except to the last holder after its expiry.
pub(super) fn resume(
    record: &mut Record,
    owner: Option<&Owner>,
    request: &Acquire,
    resume: Resume,
    wall: UnixMillis,
    now: Instant,
    rules: &Rules,
) -> Result<Applied, Rejection> {
    let claim = (request.lease_id, owner);
    let is_current = is_current(record, claim);
    let (asked, last) = (resume.epoch, record.last_epoch());
    let of_term = record.grant.as_ref().filter(|_| is_current);
    let epoch_of_term = of_term.map(|grant| grant.epoch);
    let is_leased = matches!(record.phase, Phase::Leased { .. });
    if let Some(grant) = record.held(now)
        && (!is_current || is_leased && asked > grant.epoch)
    {
        // With another lease id, another request holds the lease. With the same lease id, the store
        // has granted the lease to an earlier request of this candidate, for a term that never
        // began. One lease id does not get two terms.
        return Err(held_by_another(record, grant, now));
    }
    match record.phase {
        // An operator's break is never undone, even if nobody was granted the lease since.
        Phase::Breaking { until } if is_current => Err(Rejection::Breaking {
            remaining: until.since(now),
        }),
        Phase::Broken { .. } if is_current => Err(Rejection::Broken {
            remaining: Duration::ZERO,
        }),
        Phase::Leased { .. } if epoch_of_term == Some(asked) => {
            Ok(go_on(record, request, resume, wall, now))
        }
        // The term expired, and no grant has followed: a grant would have replaced this one. So
        // this epoch is still the greatest, it was only ever granted to this lease id, and fencing
        // works as before. The lock delay covers work of this very term.
        //
        // The floor is greater than the epoch if the store was restored from a backup, which may
        // lack a grant. It may also be greater after a restart of a store that has deleted other
        // leases. Then the term is refused, because the two cases look the same.
        Phase::Expired { .. } if epoch_of_term == Some(asked) && last == Some(asked) => {
            record.unretire(request.lease_id);
            Ok(go_on(record, request, resume, wall, now))
        }
        // The holder has released the lease or handed it over, which was the end of its term. This
        // request is a delayed one, whose sender no longer leads.
        Phase::Available if epoch_of_term == Some(asked) => Err(Rejection::IdRetired),
        // Receivers have seen this epoch from another term, or a greater one.
        _ if last >= Some(asked) => Err(Rejection::EpochPassed {
            asked,
            last: last.unwrap_or(asked),
        }),
        // The term began without the store. Its epoch is greater than every earlier one, as that of
        // every grant.
        _ => {
            if rules.refuse_retired_ids && record.is_retired(request.lease_id) {
                return Err(Rejection::IdRetired);
            }
            check_ahead(last, asked, request, wall)?;
            grantable(record, Some(&request.holder), now)?;
            let granted = grant(record, owner, request, asked, wall, now);
            // The grant is younger than the term.
            note_period(record, UnixMillis::new(0), resume, wall);
            Ok(granted)
        }
    }
}

/// Continues the term. As after a repeated acquire, its duration does not become shorter, and its
/// metadata and lock delay stay the same.
fn go_on(
    record: &mut Record,
    request: &Acquire,
    resume: Resume,
    wall: UnixMillis,
    now: Instant,
) -> Applied {
    let had_expired = !matches!(record.phase, Phase::Leased { .. });
    let granted = record.grant.as_ref();
    let duration = granted.map(|grant| request.duration.max(grant.duration));
    let began = granted.map_or(UnixMillis::new(0), |grant| grant.granted_at);
    let renewed = restart_clock(record, duration, now);
    match note_period(record, began, resume, wall) || had_expired {
        true => Applied {
            change: Change::Resumed(resume.epoch),
            durable: true,
        },
        false => renewed,
    }
}

/// Adds the period in which the term was led without the store. Returns whether that changed the
/// record.
fn note_period(
    record: &mut Record,
    not_before: UnixMillis,
    resume: Resume,
    wall: UnixMillis,
) -> bool {
    let Some(grant) = &mut record.grant else {
        return false;
    };
    let earlier = grant.without_store.as_deref().copied();
    let periods = WithoutStore::with_period(earlier, not_before, resume.without_store, wall);
    grant.without_store = periods.map(Into::into);
    periods != earlier
}
