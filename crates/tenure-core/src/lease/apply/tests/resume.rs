//! Leases that are taken again for a term that has run without the store.

use super::*;
use crate::lease::{Owner, WithoutStore};

const FIRST: u64 = 1_000;

fn first() -> Epoch {
    Epoch::new(FIRST).unwrap()
}

/// Resumes at this wall-clock time, after this time without the store.
fn resume_at(name: char, epoch: u64, wall: u64, without_store: u64) -> Operation {
    let of_term = Resume {
        epoch: Epoch::new(epoch).unwrap(),
        without_store: Duration::from_millis(without_store),
    };
    Operation::Resume(request(name, fixed(60)), of_term, UnixMillis::new(wall))
}

fn periods(lease: &Lease) -> Option<WithoutStore> {
    let grant = lease.record.last_grant().unwrap();
    grant.without_store.as_deref().copied()
}

#[test]
fn a_term_continues_after_its_lease_expired_in_the_store() {
    let mut lease = Lease::native();
    let request = Acquire {
        lock_delay: secs(50),
        metadata: metadata("here"),
        ..request('a', fixed(60))
    };
    lease.accept(&Operation::Acquire(request, UnixMillis::new(FIRST)));
    lease.go_to(70);
    assert_eq!(lease.state(), State::Expired);
    // The lock delay bars others and not the term that continues.
    let barred = lease.reject(&acquire('b', fixed(60)));
    assert!(matches!(barred, Rejection::LockDelay { .. }));
    assert_eq!(lease.accept(&resume('a', FIRST)), Change::Resumed(first()));
    assert_eq!((lease.state(), lease.left()), (State::Leased, secs(60)));
    let grant = lease.record.last_grant().unwrap();
    assert_eq!((grant.epoch, grant.lock_delay), (first(), secs(50)));
    assert_eq!(grant.granted_at, UnixMillis::new(FIRST));
    assert_eq!(lease.record.metadata(lease.now), Some(&metadata("here")));
    assert!(lease.record.next_lapse(lease.now) == Some(at(130)));
    // The lease id holds the lease as before.
    assert_eq!(lease.accept(&renew('a')), Change::Renewed(first()));
    lease.accept(&acquire('a', fixed(60)));
    lease.accept(&release('a'));
    assert!(lease.grant('b') > first());
}

#[test]
fn a_resume_never_shortens_the_lease() {
    let mut lease = Lease::held_by_a();
    lease.accept(&resume('a', FIRST));
    assert_eq!(lease.left(), secs(60));
    lease.go_to(100).accept(&resume('a', FIRST));
    assert_eq!(lease.left(), secs(60));
}

#[test]
fn a_term_that_was_given_up_is_not_resumed() {
    let ends = [
        (20, release('a')),
        (20, hand_over('a', 'b', 10)),
        // After its expiry, too: the holder has stopped.
        (60, release('a')),
    ];
    for (at, end) in ends {
        let mut lease = Lease::held_by_a();
        lease.go_to(at).accept(&end);
        assert_eq!(lease.reject(&resume('a', FIRST)), Rejection::IdRetired);
        // Also after the store has dropped the old lease id.
        lease.go_to(2_000);
        assert_eq!(lease.reject(&resume('a', FIRST)), Rejection::IdRetired);
    }
}

#[test]
fn a_break_is_not_undone() {
    let mut lease = Lease::held_by_a();
    lease.accept(&break_within(10));
    let left = Rejection::Breaking {
        remaining: secs(10),
    };
    assert_eq!(lease.reject(&resume('a', FIRST)), left);
    let broken = Rejection::Broken {
        remaining: Duration::ZERO,
    };
    assert_eq!(lease.go_to(10).reject(&resume('a', FIRST)), broken);

    // A break of a lease that has expired.
    let mut lease = Lease::held_by_a();
    lease.go_to(60).accept(&Operation::Break(None));
    assert_eq!(lease.reject(&resume('a', FIRST)), broken);
}

#[test]
fn after_another_grant_the_epoch_has_passed() {
    let mut lease = Lease::held_by_a();
    let second = lease.go_to(60).grant('b');
    let held = lease.reject(&resume('a', FIRST));
    assert!(matches!(held, Rejection::Held { epoch, .. } if epoch == second));
    lease.accept(&release('b'));
    let passed = Rejection::EpochPassed {
        asked: first(),
        last: second,
    };
    assert_eq!(lease.reject(&resume('a', FIRST)), passed);
    // Another lease id with the epoch of the last term.
    let asked = second;
    let passed = Rejection::EpochPassed { asked, last: asked };
    assert_eq!(lease.reject(&resume('c', second.get())), passed);
    // The same lease id with the epoch of an earlier term, while it holds the lease.
    let third = lease.grant('d');
    let passed = Rejection::EpochPassed {
        asked: second,
        last: third,
    };
    assert_eq!(lease.reject(&resume('d', second.get())), passed);
}

#[test]
fn a_term_that_began_without_the_store_is_granted_under_its_epoch() {
    let mut lease = Lease::held_by_a();
    lease.accept(&release('a'));
    let epoch = Epoch::new(FIRST + 7).unwrap();
    let began = resume_at('b', epoch.get(), 90_000, 30_000);
    assert_eq!(lease.accept(&began), Change::Granted(epoch));
    let grant = lease.record.held(lease.now).unwrap();
    assert_eq!((grant.epoch, grant.holder.clone()), (epoch, candidate('b')));
    let expected = WithoutStore {
        periods: 1,
        from: UnixMillis::new(60_000),
        to: UnixMillis::new(90_000),
        total: secs(30),
    };
    assert_eq!(periods(&lease), Some(expected));
    // The same request again, after its answer was lost.
    assert_eq!(lease.accept(&began), Change::Renewed(epoch));
    // The next term has no such period.
    lease.accept(&release('b'));
    lease.grant('c');
    assert_eq!(periods(&lease), None);
}

#[test]
fn a_grant_under_the_epoch_of_a_term_waits_for_the_lock_delay_and_for_a_reservation() {
    let mut lease = Lease::native();
    let request = Acquire {
        lock_delay: secs(5),
        ..request('a', fixed(60))
    };
    lease.accept(&Operation::Acquire(request, UnixMillis::new(FIRST)));
    lease.go_to(60);
    let barred = lease.reject(&resume('b', FIRST + 1));
    assert_eq!(barred, Rejection::LockDelay { remaining: secs(5) });
    lease.go_to(65).accept(&resume('b', FIRST + 1));
    lease.accept(&hand_over('b', 'c', 10));
    let reserved = lease.reject(&resume('d', FIRST + 2));
    assert!(matches!(reserved, Rejection::Reserved { .. }));
    lease.accept(&resume('c', FIRST + 2));
}

#[test]
fn an_epoch_too_far_ahead_is_refused() {
    let mut lease = Lease::native();
    let most = Epoch::new(FIRST + Epoch::ASKED_AHEAD).unwrap();
    let asked = Epoch::new(most.get() + 1).unwrap();
    let by_operator = false;
    let refused = Rejection::EpochTooFarAhead {
        asked,
        most,
        by_operator,
    };
    assert_eq!(
        lease.reject(&resume_at('a', asked.get(), FIRST, 0)),
        refused
    );
    let granted = lease.accept(&resume_at('a', most.get(), FIRST, 0));
    assert_eq!(granted, Change::Granted(most));
}

#[test]
fn the_same_lease_id_does_not_get_a_second_term() {
    let mut lease = Lease::held_by_a();
    let held = lease.reject(&resume('a', FIRST + 1));
    assert!(matches!(held, Rejection::Held { epoch, .. } if epoch == first()));
    lease.go_to(60);
    assert_eq!(lease.reject(&resume('a', FIRST + 1)), Rejection::IdRetired);
    lease.grant('b');
}

#[test]
fn another_principal_cannot_resume_a_term() {
    let (own, other) = (Owner::new("own"), Owner::new("other"));
    let apply_by = |lease: &mut Lease, owner, operation: &Operation| {
        apply_as(
            Some(owner),
            &mut lease.record,
            operation,
            lease.now,
            &Rules::NATIVE,
        )
    };
    let mut lease = Lease::native();
    apply_by(&mut lease, &own, &acquire('a', fixed(60))).unwrap();
    let again = resume('a', FIRST);
    let held = apply_by(&mut lease, &other, &again);
    assert!(matches!(held, Err(Rejection::Held { .. })));
    lease.go_to(60);
    let passed = apply_by(&mut lease, &other, &again);
    assert!(matches!(passed, Err(Rejection::EpochPassed { .. })));
    let resumed = apply_by(&mut lease, &own, &again).unwrap();
    assert_eq!(resumed.change, Change::Resumed(first()));
    let owner = &lease.record.last_grant().unwrap().owner;
    assert_eq!(owner.as_ref(), Some(&own));
}

#[test]
fn a_store_that_may_lack_a_grant_does_not_continue_an_expired_term() {
    let mut lease = Lease::held_by_a();
    lease.go_to(60).record.settle(at(60));
    let stored = lease.record.store(lease.now);
    let floor = Epoch::new(FIRST + 5_000);
    lease.record = Record::restore(stored, lease.now).numbered_above(floor);
    let passed = Rejection::EpochPassed {
        asked: first(),
        last: floor.unwrap(),
    };
    assert_eq!(lease.reject(&resume('a', FIRST)), passed);
}

#[test]
fn a_deleted_lease_is_not_resumed_under_an_earlier_epoch() {
    let mut lease = Lease::held_by_a();
    lease.go_to(60).record.settle(at(60));
    lease.record = lease.record.deleted(None, lease.now);
    let refused = lease.reject(&resume('a', FIRST));
    assert!(matches!(refused, Rejection::EpochPassed { .. }));
    let refused = lease.reject(&resume('a', FIRST + 1));
    assert_eq!(refused, Rejection::IdRetired);
}

#[test]
fn the_periods_of_a_term_without_the_store_are_summed() {
    let mut lease = Lease::held_by_a();
    lease.accept(&resume_at('a', FIRST, 20_000, 5_000));
    lease
        .go_to(100)
        .accept(&resume_at('a', FIRST, 110_000, 60_000));
    let expected = WithoutStore {
        periods: 2,
        from: UnixMillis::new(15_000),
        to: UnixMillis::new(110_000),
        total: secs(65),
    };
    assert_eq!(periods(&lease), Some(expected));
    lease.accept(&release('a'));
    assert_eq!(periods(&lease), Some(expected));
}

#[test]
fn a_resume_that_changes_the_state_or_the_periods_is_on_disk_first() {
    let durable = |lease: &mut Lease, operation| {
        let applied = lease.apply(operation).unwrap();
        (applied.change, applied.durable)
    };
    let mut lease = Lease::held_by_a();
    let nothing_to_note = resume_at('a', FIRST, 20_000, 0);
    let renewed = (Change::Renewed(first()), false);
    assert_eq!(durable(&mut lease, &nothing_to_note), renewed);
    let resumed = (Change::Resumed(first()), true);
    let period = resume_at('a', FIRST, 20_000, 1_000);
    assert_eq!(durable(&mut lease, &period), resumed);
    assert_eq!(durable(&mut lease, &period), renewed);
    lease.go_to(60);
    assert_eq!(durable(&mut lease, &nothing_to_note), resumed);
    let epoch = Epoch::new(FIRST + 1).unwrap();
    let granted = (Change::Granted(epoch), true);
    lease.accept(&release('a'));
    let began = resume_at('b', epoch.get(), 70_000, 0);
    assert_eq!(durable(&mut lease, &began), granted);
}

#[test]
fn a_resumed_lease_and_its_periods_survive_a_restart() {
    let mut lease = Lease::held_by_a();
    lease
        .go_to(90)
        .accept(&resume_at('a', FIRST, 95_000, 60_000));
    let before = periods(&lease);
    assert!(before.is_some());
    lease.record = Record::restore(lease.record.store(lease.now), at(0));
    lease.go_to(0);
    assert_eq!((lease.state(), periods(&lease)), (State::Leased, before));
    lease.accept(&renew('a'));
}
