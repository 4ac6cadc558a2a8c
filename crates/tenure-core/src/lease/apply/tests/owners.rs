//! Tests that a lease id is valid only for its owner.

use super::*;
use crate::lease::{Lease, Stored, Waiting};

fn owner(name: &'static str) -> Owner {
    Owner::new(name)
}

/// Returns lease `a` of the principal "worker", granted for 10 s.
fn owned() -> Record {
    let mut record = Record::default();
    let worker = owner("worker");
    let acquire = acquire('a', fixed(10));
    apply_as(Some(&worker), &mut record, &acquire, at(0), &Rules::NATIVE).unwrap();
    record
}

/// Returns all operations that need a lease id, with this lease id.
fn with_id(name: char) -> [Operation; 6] {
    [
        acquire(name, fixed(10)),
        renew(name),
        change(name, 'z'),
        release(name),
        hand_over(name, 'z', 5),
        Operation::SetMetadata(id(name), Metadata::new()),
    ]
}

#[test]
fn a_lease_id_of_another_principal_is_answered_like_a_wrong_one() {
    let (worker, thief) = (owner("worker"), owner("thief"));
    let breaking = |mut record: Record| {
        apply(&mut record, &break_within(5), at(0), &Rules::NATIVE).unwrap();
        record
    };
    for before in [owned(), breaking(owned())] {
        for now in [1, 9, 20] {
            for (stolen, wrong) in with_id('a').into_iter().zip(with_id('x')) {
                for caller in [Some(&thief), None] {
                    let answer = |operation: &Operation| {
                        let mut record = before.clone();
                        let answer =
                            apply_as(caller, &mut record, operation, at(now), &Rules::NATIVE);
                        // Every principal may acquire a free lease, and then owns its term.
                        let grant = record.last_grant().cloned();
                        assert!(answer.is_ok() || grant.unwrap().owner.as_ref() == Some(&worker));
                        answer
                    };
                    // A retired lease id is refused for every principal.
                    if !matches!(answer(&stolen), Err(Rejection::IdRetired)) {
                        assert_eq!(answer(&stolen), answer(&wrong), "{stolen:?} at {now}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_owner_does_everything_with_its_lease_id() {
    let worker = owner("worker");
    for operation in with_id('a') {
        let mut record = owned();
        let answer = apply_as(
            Some(&worker),
            &mut record,
            &operation,
            at(1),
            &Rules::NATIVE,
        );
        assert!(answer.is_ok(), "{operation:?}: {answer:?}");
    }
}

#[test]
fn a_lease_without_an_owner_is_of_everybody_with_its_lease_id() {
    for operation in with_id('a') {
        let mut record = Record::default();
        apply(&mut record, &acquire('a', fixed(10)), at(0), &Rules::NATIVE).unwrap();
        let worker = owner("worker");
        let answer = apply_as(
            Some(&worker),
            &mut record,
            &operation,
            at(1),
            &Rules::NATIVE,
        );
        assert!(answer.is_ok(), "{operation:?}: {answer:?}");
    }
}

#[test]
fn the_owner_is_stored_and_restored() {
    let stored: Stored = owned().store(at(1));
    let mut record = Record::restore(stored, at(0));
    let (worker, thief) = (owner("worker"), owner("thief"));
    let renew = renew('a');
    let renewed = |caller, record: &mut Record| {
        apply_as(caller, record, &renew, at(1), &Rules::NATIVE).map(drop)
    };
    assert_eq!(
        renewed(Some(&thief), &mut record),
        Err(Rejection::IdMismatch)
    );
    assert_eq!(renewed(None, &mut record), Err(Rejection::IdMismatch));
    assert_eq!(renewed(Some(&worker), &mut record), Ok(()));
}

#[test]
fn a_waiting_request_is_granted_to_its_own_principal_and_replaced_by_it_alone() {
    let mut lease = Lease::from(owned());
    let waiting = |number, name: &'static str| Waiting {
        number,
        request: request('b', fixed(10)),
        owner: Some(owner(name)),
        since: at(0),
        reply_to: (),
    };
    assert!(lease.wait(100, waiting(1, "one")).is_none());
    assert!(lease.wait(100, waiting(2, "thief")).is_none());
    assert_eq!(lease.wait(100, waiting(3, "one")).unwrap().number, 1);
    assert!(lease.waiter(id('b'), Some(&owner("one"))).is_some());
    assert!(lease.waiter(id('b'), None).is_none());
    assert_eq!(lease.leave(id('b'), 2, at(0)).unwrap().number, 2);
    assert!(
        lease
            .poll(at(11), UnixMillis::new(2_000), &Rules::NATIVE, |()| false)
            .is_some()
    );
    assert!(
        lease
            .poll(at(11), UnixMillis::new(2_000), &Rules::NATIVE, |()| false)
            .is_some()
    );
    let granted = lease.record().held(at(11)).unwrap();
    assert_eq!(granted.owner, Some(owner("one")));
    // If the answer to a grant was lost, the store itself gives the grant back.
    assert!(lease.give_back(3, at(11)).is_some());
}
