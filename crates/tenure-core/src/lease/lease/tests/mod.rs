//! Waiting, granting and giving back, one step at a time. [`model`] checks every order of steps.

mod model;

use core::time::Duration;

use alloc::string::ToString;

use super::*;
use crate::lease::{Acquire, LeaseDuration, Metadata};

/// The duration of every lease in these tests.
const DURATION: u64 = 3;

fn at(secs: u64) -> Instant {
    Instant::default() + Duration::from_secs(secs)
}

fn id(client: u64) -> LeaseId {
    LeaseId::from_random_bits(0, client)
}

fn request(client: u64) -> Acquire {
    Acquire {
        lease_id: id(client),
        holder: alloc::format!("client-{client}").parse().unwrap(),
        duration: LeaseDuration::Fixed(Duration::from_secs(DURATION)),
        lock_delay: Duration::ZERO,
        min_epoch: None,
        by_operator: false,
        metadata: Metadata::new(),
    }
}

fn acquire(client: u64) -> Operation {
    Operation::Acquire(request(client), UnixMillis::new(0))
}

fn waiting(client: u64, number: RequestNumber) -> Waiting<()> {
    Waiting {
        number,
        request: request(client),
        owner: None,
        since: at(0),
        reply_to: (),
    }
}

fn poll(lease: &mut Lease<()>, now: Instant) -> Option<Due<()>> {
    lease.poll(now, UnixMillis::new(0), &Rules::NATIVE, |()| false)
}

/// Creates a lease that client 1 holds, while clients 2 and 3 wait with these request numbers.
fn contended() -> Lease<()> {
    let mut lease = Lease::default();
    lease.apply(&acquire(1), at(0), &Rules::NATIVE).unwrap();
    assert!(lease.wait(100, waiting(2, 20)).is_none());
    assert!(lease.wait(100, waiting(3, 30)).is_none());
    lease
}

/// Lets the first term expire, so that request 20 gets the second term.
fn granted_to_20() -> Lease<()> {
    let mut lease = contended();
    assert!(matches!(
        poll(&mut lease, at(3)),
        Some(Due::Ended(Lapse::Expired))
    ));
    let granted = poll(&mut lease, at(3));
    assert!(matches!(granted, Some(Due::Granted { to, .. }) if to.number == 20));
    assert!(poll(&mut lease, at(3)).is_none());
    lease
}

fn holder(lease: &Lease<()>, now: Instant) -> Option<LeaseId> {
    lease.record().held(now).map(|grant| grant.lease_id)
}

#[test]
fn a_free_lease_goes_to_the_first_waiting_request() {
    let lease = granted_to_20();
    assert_eq!(holder(&lease, at(3)), Some(id(2)));
    assert_eq!(lease.waiting(), 1);
    assert!(lease.waiter(id(3), None).is_some() && lease.waiter(id(2), None).is_none());
}

#[test]
fn polling_is_due_at_the_end_of_a_term_and_while_requests_wait_for_a_free_lease() {
    let mut lease = contended();
    assert!(!lease.is_due(at(2)) && lease.is_due(at(3)));
    while poll(&mut lease, at(3)).is_some() {}
    assert!(!lease.is_due(at(3)));
    lease
        .apply(&Operation::Release(id(2)), at(4), &Rules::NATIVE)
        .unwrap();
    assert!(lease.is_due(at(4)));
}

#[test]
fn a_grant_to_a_disconnected_client_is_given_back_and_goes_to_the_next_request() {
    let mut lease = granted_to_20();
    let released = lease.give_back(20, at(3)).unwrap();
    assert_eq!(
        (released.change, released.durable),
        (Change::Released, true)
    );
    assert!(lease.record().is_retired(id(2)));
    let next = poll(&mut lease, at(3));
    assert!(matches!(next, Some(Due::Granted { to, .. }) if to.number == 30));
}

#[test]
fn only_the_granted_request_gives_back() {
    let mut lease = granted_to_20();
    assert_eq!(lease.give_back(30, at(3)), None);
    assert_eq!(lease.give_back(10, at(3)), None);
    assert_eq!(holder(&lease, at(3)), Some(id(2)));
}

/// The holder closed the connection of its waiting request, acquired again, and has an answer that
/// it holds the lease.
#[test]
fn a_holder_that_was_answered_over_another_connection_keeps_the_lease() {
    let operations = [
        acquire(2),
        Operation::Renew(id(2), None),
        Operation::SetMetadata(id(2), Metadata::from([("a".into(), "b".into())])),
        Operation::Change {
            lease_id: id(2),
            proposed: id(4),
        },
        Operation::Break(Some(Duration::from_secs(2))),
    ];
    for operation in operations {
        let mut lease = granted_to_20();
        lease.apply(&operation, at(3), &Rules::NATIVE).unwrap();
        let before = lease.record().clone();
        assert_eq!(lease.give_back(20, at(3)), None, "{operation:?}");
        assert_eq!(lease.record(), &before);
    }
}

#[test]
fn a_verification_does_not_confirm_a_grant() {
    let mut lease = granted_to_20();
    let epoch = lease.record().last_epoch().unwrap();
    lease
        .apply(&Operation::Verify(epoch), at(3), &Rules::NATIVE)
        .unwrap();
    assert!(lease.give_back(20, at(3)).is_some());
}

#[test]
fn a_grant_is_not_given_back_after_its_term_or_after_it_was_undone() {
    let mut lease = granted_to_20();
    assert_eq!(lease.give_back(20, at(6)), None, "the term has expired");

    let before = contended().record().clone();
    let mut lease = granted_to_20();
    lease.restore(before);
    assert_eq!(lease.give_back(20, at(1)), None);
    assert_eq!(holder(&lease, at(1)), Some(id(1)));
}

#[test]
fn a_request_that_was_replaced_does_not_remove_its_replacement_from_the_queue() {
    let mut lease = contended();
    let replaced = lease.wait(100, waiting(2, 21)).unwrap();
    assert_eq!(replaced.number, 20);
    assert!(lease.leave(id(2), 20, at(1)).is_none());
    assert_eq!(lease.leave(id(2), 21, at(1)).unwrap().number, 21);
    assert_eq!(lease.waiting(), 1);
}

/// Hands the lease of client 1 over to another client, for 5 s.
fn hand_over(to: u64, forced: bool) -> [Operation; 2] {
    let (to, within) = (request(to).holder, Duration::from_secs(5));
    let holders = Operation::HandOver {
        lease_id: id(1),
        to: to.clone(),
        within,
        forced,
    };
    let within = Some(within);
    [holders, Operation::SwitchOver { to, within, forced }]
}

#[test]
fn a_lease_is_handed_over_only_to_a_candidate_that_waits_unless_that_is_forced() {
    for by in [0, 1] {
        let mut lease = contended();
        let refused = lease.apply(&hand_over(9, false)[by], at(1), &Rules::NATIVE);
        let text = refused.unwrap_err().to_string();
        let expected = "client-9 does not wait for the lease; these wait: client-2, client-3";
        assert_eq!(text, expected);
        assert_eq!(holder(&lease, at(1)), Some(id(1)));
        for (to, forced) in [(3, false), (9, true)] {
            let mut lease = lease.clone();
            let handed = lease.apply(&hand_over(to, forced)[by], at(1), &Rules::NATIVE);
            assert!(handed.is_ok());
        }
    }
    let mut alone = Lease::<()>::default();
    alone.apply(&acquire(1), at(0), &Rules::NATIVE).unwrap();
    let refused = alone.apply(&hand_over(2, false)[0], at(1), &Rules::NATIVE);
    let text = refused.unwrap_err().to_string();
    assert_eq!(
        text,
        "client-2 does not wait for the lease; no candidate waits"
    );
}

#[test]
fn only_the_holder_learns_from_a_refused_hand_over_who_waits() {
    let mut lease = contended();
    let of_another = Operation::HandOver {
        lease_id: id(2),
        to: request(9).holder,
        within: Duration::ZERO,
        forced: false,
    };
    let refused = lease.apply(&of_another, at(1), &Rules::NATIVE);
    assert_eq!(refused, Err(Rejection::IdMismatch));
}

#[test]
fn a_lease_is_handed_over_to_a_candidate_that_is_about_to_ask_again() {
    let mut lease = contended();
    lease.leave(id(3), 30, at(1)).unwrap();
    let mut late = lease.clone();
    let refused = late.apply(&hand_over(3, false)[0], at(11), &Rules::NATIVE);
    assert!(refused.is_err());
    lease
        .apply(&hand_over(3, false)[0], at(2), &Rules::NATIVE)
        .unwrap();
    assert!(poll(&mut lease, at(2)).is_none());
    let again = Waiting {
        since: at(3),
        ..waiting(3, 31)
    };
    lease.wait(100, again);
    let granted = poll(&mut lease, at(3));
    assert!(matches!(granted, Some(Due::Granted { to, .. }) if to.number == 31));
}

#[test]
fn after_the_lock_delay_the_lease_goes_to_the_candidate_it_was_handed_over_to() {
    let mut lease = Lease::default();
    let first = Acquire {
        lock_delay: Duration::from_secs(20),
        ..request(1)
    };
    let first = Operation::Acquire(first, UnixMillis::new(0));
    lease.apply(&first, at(0), &Rules::NATIVE).unwrap();
    lease.wait(1, waiting(2, 20));
    lease.wait(100, waiting(3, 30));
    lease
        .apply(&hand_over(3, false)[1], at(1), &Rules::NATIVE)
        .unwrap();
    // The term ends by itself after 3 s.
    assert!(matches!(poll(&mut lease, at(3)), Some(Due::Ended(_))));
    assert!(poll(&mut lease, at(22)).is_none());
    let granted = poll(&mut lease, at(23));
    assert!(matches!(granted, Some(Due::Granted { to, .. }) if to.number == 30));
}

#[test]
fn a_lease_without_waiters_is_one_pointer_larger_than_its_record() {
    let mut lease = granted_to_20();
    lease.leave(id(3), 30, at(3));
    lease.forget_places(at(13));
    lease.apply(&acquire(2), at(3), &Rules::NATIVE).unwrap();
    assert!(lease.queue.is_none());
    let (lease, record) = (size_of::<Lease<()>>(), size_of::<Record>());
    assert_eq!(lease, record + size_of::<usize>());
}

#[test]
fn a_deleted_lease_keeps_its_epochs_its_retired_ids_and_its_queue() {
    let mut lease = contended();
    let held = lease.delete(None, at(1));
    assert!(matches!(held, Err(Rejection::Held { .. })));
    let last = lease.record().last_epoch();
    assert_eq!(lease.delete(None, at(3)), Ok(()));
    assert_eq!(lease.record().last_epoch(), last);
    assert!(lease.record().is_retired(id(1)));
    assert_eq!(lease.waiting(), 2);
}
