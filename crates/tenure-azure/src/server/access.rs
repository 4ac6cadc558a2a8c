//! Checks whether the lease of a blob or a container permits an access.

use std::convert::Infallible;

use tenure_core::Instant;
use tenure_core::lease::{LeaseId, Owner, Record, Rules, State};
use tenure_server::{AccessEffect, LeaseKey, LeaseSnapshot};

use super::Service;
use super::call::Call;
use super::error::{Error, Result};
use super::headers::lease_id;
use super::names::lease_key;
use crate::protocol::LEASE_ID;

/// The way in which a request uses the blob or container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlobAccess {
    /// The request only reads. Every client may read, but a lease id in the request must be
    /// correct, so that a former holder detects that it lost the lease.
    Read,
    /// The request changes or deletes the resource. While the lease is held, only its holder may do
    /// so.
    Write,
}

/// The reason why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessRefusal {
    /// The lease is not held, and the lease id of the request did not hold it last.
    NotHeld,
    /// The lease id of the request held the lease until it expired or was broken.
    Lost,
    /// Another lease id holds the lease.
    IdMismatch,
    /// The lease is held, and the request has no lease id.
    IdMissing,
}

impl Call {
    /// Checks the access to the resource with the lease id of the request, and applies its effect
    /// to the lease.
    pub(super) async fn check_access(
        &self,
        access: BlobAccess,
        effect: AccessEffect,
    ) -> Result<LeaseSnapshot> {
        let lease_id = lease_id(&self.head.headers, LEASE_ID)?;
        let claim = lease_id.map(|lease_id| (lease_id, self.owner()));
        let check = |record: &Record, now| check_access(record, access, claim, now);
        let (store, key) = (&self.service.store, lease_key(&self.target)?);
        let checked = store.check_access(&Rules::AZURE, &key, check, effect);
        checked
            .await?
            .map_err(|refusal| Error::of_access(self.target.level(), refusal))
    }
}

impl Service {
    /// Ends and deletes the lease, even if it is held.
    pub(super) async fn delete_lease(&self, key: &LeaseKey) -> Result<()> {
        let check = |_: &Record, _| Ok::<_, Infallible>(());
        let store = &self.store;
        let Ok(_) = store
            .check_access(&Rules::AZURE, key, check, AccessEffect::Delete)
            .await?;
        Ok(())
    }
}

/// Checks whether a request with this lease id and its owner, or without a lease id, has the access
/// at `now`.
///
/// The rules are those of "Outcomes of use attempts on blobs by lease state" in "Lease Blob" of the
/// Blob service REST API.
pub(super) fn check_access(
    record: &Record,
    access: BlobAccess,
    claim: Option<(LeaseId, Option<&Owner>)>,
    now: Instant,
) -> Result<(), AccessRefusal> {
    let holds = |(lease_id, owner)| {
        let grant = record.last_grant();
        grant.is_some_and(|grant| grant.is_of(lease_id, owner))
    };
    match (record.state(now), claim) {
        (State::Leased | State::Breaking, Some(claim)) if holds(claim) => Ok(()),
        (State::Leased | State::Breaking, Some(_)) => Err(AccessRefusal::IdMismatch),
        (State::Leased | State::Breaking, None) => match access {
            BlobAccess::Read => Ok(()),
            BlobAccess::Write => Err(AccessRefusal::IdMissing),
        },
        (State::Available | State::Broken | State::Expired, None) => Ok(()),
        (State::Broken | State::Expired, Some(claim)) if holds(claim) => Err(AccessRefusal::Lost),
        (State::Available | State::Broken | State::Expired, Some(_)) => Err(AccessRefusal::NotHeld),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tenure_core::UnixMillis;
    use tenure_core::lease::{Acquire, LeaseDuration, Metadata, Operation, Rules, apply, apply_as};

    const A: u64 = 1;
    const B: u64 = 2;

    fn id(number: u64) -> LeaseId {
        LeaseId::from_random_bits(0, number)
    }

    /// Returns an acquire of A for 15 s.
    fn acquire() -> Operation {
        let request = Acquire {
            lease_id: id(A),
            holder: "a".parse().unwrap(),
            duration: LeaseDuration::Fixed(Duration::from_secs(15)),
            lock_delay: Duration::ZERO,
            metadata: Metadata::new(),
            min_epoch: None,
            by_operator: false,
        };
        Operation::Acquire(request, UnixMillis::new(0))
    }

    /// Returns a lease that A acquired at zero, after these operations were applied.
    fn leased_and(operations: &[Operation]) -> Record {
        let mut record = Record::default();
        let acquire = acquire();
        for operation in std::iter::once(&acquire).chain(operations) {
            apply(&mut record, operation, Instant::default(), &Rules::AZURE).unwrap();
        }
        record
    }

    #[test]
    fn every_access_in_every_state_is_as_documented() {
        use AccessRefusal::{IdMismatch, IdMissing, Lost, NotHeld};
        let at = |secs| Instant::default() + Duration::from_secs(secs);
        let breaking = || leased_and(&[Operation::Break(Some(Duration::from_secs(10)))]);
        // The state and the time; then the results with A, with B and without an id.
        let rows = [
            (Record::default(), 0, [Err(NotHeld), Err(NotHeld), Ok(())]),
            (
                leased_and(&[Operation::Release(id(A))]),
                0,
                [Err(NotHeld), Err(NotHeld), Ok(())],
            ),
            (
                leased_and(&[]),
                14,
                [Ok(()), Err(IdMismatch), Err(IdMissing)],
            ),
            (leased_and(&[]), 15, [Err(Lost), Err(NotHeld), Ok(())]),
            (breaking(), 9, [Ok(()), Err(IdMismatch), Err(IdMissing)]),
            (breaking(), 10, [Err(Lost), Err(NotHeld), Ok(())]),
        ];
        for (record, secs, written) in rows {
            let given = [Some(id(A)), Some(id(B)), None];
            for (lease_id, written) in given.into_iter().zip(written) {
                let state = record.state(at(secs));
                let claim = lease_id.map(|id| (id, None));
                let check = |access| check_access(&record, access, claim, at(secs));
                assert_eq!(check(BlobAccess::Write), written, "{state:?} {lease_id:?}");
                let read = if lease_id.is_none() { Ok(()) } else { written };
                assert_eq!(check(BlobAccess::Read), read, "{state:?} {lease_id:?}");
            }
        }
    }
    #[test]
    fn a_lease_id_of_another_owner_is_refused_like_a_wrong_one() {
        let mut record = Record::default();
        let (mine, other) = (Owner::new("azure:one"), Owner::new("worker"));
        let acquire = acquire();
        let now = Instant::default();
        apply_as(Some(&mine), &mut record, &acquire, now, &Rules::AZURE).unwrap();
        let over = now + Duration::from_secs(15);
        for access in [BlobAccess::Read, BlobAccess::Write] {
            let check = |lease_id, owner, at| {
                check_access(&record, access, Some((id(lease_id), owner)), at)
            };
            assert_eq!(check(A, Some(&mine), now), Ok(()));
            assert_eq!(check(A, Some(&mine), over), Err(AccessRefusal::Lost));
            for owner in [Some(&other), None] {
                for at in [now, over] {
                    assert!(check(A, owner, at).is_err());
                    assert_eq!(check(A, owner, at), check(B, owner, at), "{owner:?}");
                }
            }
        }
    }
}
