//! Records that are stored, and restored by a store with another clock.

use super::*;

/// Returns the lease after a restart: its record comes from disk, and its clock starts again at 0.
fn restarted(lease: &Lease) -> Lease {
    Lease {
        record: Record::restore(lease.record.store(lease.now), at(0)),
        now: at(0),
        rules: lease.rules,
    }
}

#[test]
fn a_held_lease_counts_as_renewed_at_the_restart() {
    let mut lease = Lease::held_by_a();
    lease.go_to(50);
    let mut lease = restarted(&lease);
    assert_eq!((lease.state(), lease.left()), (State::Leased, secs(60)));
    lease.go_to(59).accept(&renew('a'));
}

#[test]
fn a_renewal_that_was_not_written_does_not_end_the_lease_early() {
    let mut lease = Lease::held_by_a();
    let on_disk = lease.record.store(lease.now);
    lease.go_to(50).accept(&renew('a'));
    // The store restarts at 55 s. The holder knows that its lease lasts until 110 s.
    let restored = Record::restore(on_disk, at(55));
    assert_eq!(restored.state(at(110)), State::Leased);
    assert_eq!(restored.state(at(115)), State::Expired);
}

#[test]
fn an_infinite_lease_is_infinite_after_a_restart() {
    let mut lease = Lease::native();
    lease.accept(&acquire('a', LeaseDuration::Infinite));
    let lease = restarted(&lease);
    assert_eq!(lease.record.remaining(at(0)), Some(LeaseDuration::Infinite));
}

#[test]
fn a_break_continues_after_a_restart_with_all_its_remaining_time() {
    let mut lease = Lease::held_by_a();
    lease.accept(&break_within(10));
    let mut lease = restarted(&lease);
    assert_eq!((lease.state(), lease.left()), (State::Breaking, secs(10)));
    lease.go_to(10);
    assert_eq!(lease.state(), State::Broken);
}

#[test]
fn a_lock_delay_begins_again_at_the_restart() {
    for end in [break_within(0), Operation::Break(None)] {
        let mut lease = Lease::native();
        let request = Acquire {
            lock_delay: secs(5),
            ..request('a', fixed(60))
        };
        lease.accept(&Operation::Acquire(request, UnixMillis::new(1_000)));
        lease.accept(&end);
        lease.go_to(64);
        lease.record.settle(lease.now);
        let mut lease = restarted(&lease);
        lease.go_to(4).reject(&acquire('b', fixed(60)));
        lease.go_to(5).grant('b');
    }
}

#[test]
fn a_reservation_survives_a_restart() {
    let mut lease = Lease::held_by_a();
    lease.accept(&hand_over('a', 'c', 10));
    let mut lease = restarted(&lease);
    lease.go_to(9).reject(&acquire('b', fixed(60)));
    lease.grant('c');
}

#[test]
fn a_reservation_still_follows_the_lock_delay_after_a_restart_within_it() {
    let mut lease = Lease::native();
    let request = Acquire {
        lock_delay: secs(20),
        ..request('a', fixed(60))
    };
    lease.accept(&Operation::Acquire(request, UnixMillis::new(1_000)));
    lease.go_to(60);
    lease.record.settle(lease.now);
    lease.go_to(70).accept(&switch_over('c', 10));
    let mut lease = restarted(&lease);
    lease.go_to(29).reject(&acquire('b', fixed(60)));
    lease.grant('c');

    // A reservation that is over stays over.
    let mut unused = Lease::held_by_a();
    unused.accept(&hand_over('a', 'c', 10));
    unused.go_to(10);
    restarted(&unused).grant('b');
}

#[test]
fn retired_ids_and_epochs_survive_a_restart() {
    let mut lease = Lease::held_by_a();
    let first = lease.record.last_epoch().unwrap();
    lease.accept(&release('a'));
    let mut lease = restarted(&lease);
    assert_eq!(lease.state(), State::Available);
    assert_eq!(lease.reject(&acquire('a', fixed(60))), Rejection::IdRetired);
    assert!(lease.grant('b') > first);
}

#[test]
fn from_its_next_grant_a_lease_has_epochs_above_the_floor() {
    let mut lease = Lease::held_by_a();
    let first = lease.record.last_epoch().unwrap();
    let floor = Epoch::new(first.get() + 1_000_000);
    // A smaller floor has no effect.
    lease.record = lease
        .record
        .numbered_above(floor)
        .numbered_above(Some(first));
    // The running term keeps its epoch.
    assert_eq!(lease.accept(&renew('a')), Change::Renewed(first));
    lease.accept(&Operation::Verify(first));
    lease.accept(&release('a'));
    assert!(Some(lease.grant('b')) > floor);
}

#[test]
fn an_ended_term_stays_ended_after_a_restart() {
    let mut expired = Lease::held_by_a();
    expired.go_to(60).record.settle(at(60));
    assert_eq!(restarted(&expired).state(), State::Expired);

    let mut broken = Lease::held_by_a();
    broken.accept(&break_within(0));
    assert_eq!(restarted(&broken).state(), State::Broken);
}

#[test]
fn metadata_survives_a_restart() {
    let mut lease = Lease::held_by_a();
    lease.accept(&Operation::SetMetadata(id('a'), metadata("here")));
    let lease = restarted(&lease);
    assert_eq!(lease.record.metadata(lease.now), Some(&metadata("here")));
}
