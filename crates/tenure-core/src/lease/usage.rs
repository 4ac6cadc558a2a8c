//! What a lease lets be done with the thing that it is on.

use super::{LeaseId, Record, State};
use crate::Instant;

/// What is to be done with the thing that a lease is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It stays as it is. Free to everybody; but a lease id that is given must be right, so that a
    /// holder learns that it holds no more.
    Read,
    /// It changes or goes. While the lease is held, for its holder only.
    Write,
}

/// Why a thing may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageRefusal {
    /// Nobody holds the lease, and a lease id was given that did not hold it last.
    #[error("nobody holds the lease")]
    NotHeld,
    /// The lease id that was given held the lease until it expired or was broken.
    #[error("the lease has ended")]
    Lost,
    /// Another lease id holds the lease.
    #[error("another lease id holds the lease")]
    IdMismatch,
    /// Somebody holds the lease, and no lease id was given.
    #[error("the lease is held and no lease id was given")]
    IdMissing,
}

/// Whether a thing may be used by whoever gives this lease id, or none, at `now`.
///
/// The rules are those of Azure Blob leases, as "Lease Blob" of the Blob service REST API documents
/// them in "Outcomes of use attempts on blobs by lease state".
///
/// # Errors
///
/// [`UsageRefusal`]: an expected outcome.
pub fn usable(
    record: &Record,
    usage: Usage,
    lease_id: Option<LeaseId>,
    now: Instant,
) -> Result<(), UsageRefusal> {
    let holds = |lease_id| {
        record
            .last_grant()
            .is_some_and(|grant| grant.lease_id == lease_id)
    };
    match (record.state(now), lease_id) {
        (State::Leased | State::Breaking, Some(id)) if holds(id) => Ok(()),
        (State::Leased | State::Breaking, Some(_)) => Err(UsageRefusal::IdMismatch),
        (State::Leased | State::Breaking, None) => match usage {
            Usage::Read => Ok(()),
            Usage::Write => Err(UsageRefusal::IdMissing),
        },
        (State::Available | State::Broken | State::Expired, None) => Ok(()),
        (State::Broken | State::Expired, Some(id)) if holds(id) => Err(UsageRefusal::Lost),
        (State::Available | State::Broken | State::Expired, Some(_)) => Err(UsageRefusal::NotHeld),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnixMillis;
    use crate::lease::{Acquire, LeaseDuration, Metadata, Operation, Rules, apply};
    use core::time::Duration;

    const A: u64 = 1;
    const B: u64 = 2;

    fn id(number: u64) -> LeaseId {
        LeaseId::from_random_bits(0, number)
    }

    /// A lease that A took for 15 s at zero, and after that these.
    fn leased_and(operations: &[Operation]) -> Record {
        let mut record = Record::default();
        let request = Acquire {
            lease_id: id(A),
            holder: "a".parse().unwrap(),
            duration: LeaseDuration::Fixed(Duration::from_secs(15)),
            lock_delay: Duration::ZERO,
            metadata: Metadata::new(),
            min_epoch: None,
        };
        let acquire = Operation::Acquire(request, UnixMillis::new(0));
        for operation in core::iter::once(&acquire).chain(operations) {
            apply(&mut record, operation, Instant::default(), &Rules::AZURE).unwrap();
        }
        record
    }

    #[test]
    fn every_use_in_every_state_is_as_documented() {
        use UsageRefusal::{IdMismatch, IdMissing, Lost, NotHeld};
        let at = |secs| Instant::default() + Duration::from_secs(secs);
        let breaking = || leased_and(&[Operation::Break(Some(Duration::from_secs(10)))]);
        // State, now; then with A, with B and without an id.
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
                let usage = |usage| usable(&record, usage, lease_id, at(secs));
                assert_eq!(usage(Usage::Write), written, "{state:?} {lease_id:?}");
                let read = if lease_id.is_none() { Ok(()) } else { written };
                assert_eq!(usage(Usage::Read), read, "{state:?} {lease_id:?}");
            }
        }
    }
}
