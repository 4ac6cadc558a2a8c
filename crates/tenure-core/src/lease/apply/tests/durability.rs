//! The changes that must be on disk before the store answers.

use super::*;

/// Returns whether the store must write `operation` to disk before its answer, if "a" holds the
/// lease for 60 s, with metadata and a lock delay.
fn durable(operation: &Operation) -> bool {
    let mut lease = Lease::native();
    lease.accept(&Operation::Acquire(described(), UnixMillis::new(1_000)));
    lease.go_to(20).apply(operation).unwrap().durable
}

fn described() -> Acquire {
    Acquire {
        lock_delay: secs(5),
        min_epoch: None,
        by_operator: false,
        metadata: metadata("here"),
        ..request('a', fixed(60))
    }
}

fn again(request: Acquire) -> Operation {
    Operation::Acquire(request, UnixMillis::new(2_000))
}

#[test]
fn a_renewal_that_only_changes_instants_need_not_be_on_disk() {
    assert!(!durable(&renew('a')));
    assert!(!durable(&Operation::Renew(id('a'), Some(fixed(60)))));
    assert!(!durable(&again(described())));
}

#[test]
fn a_renewal_that_changes_the_duration_is_on_disk_first() {
    for duration in [fixed(90), fixed(30), LeaseDuration::Infinite] {
        assert!(durable(&Operation::Renew(id('a'), Some(duration))));
        let is_longer = duration > fixed(60);
        let again = again(Acquire {
            duration,
            ..described()
        });
        assert_eq!(durable(&again), is_longer);
    }
}

#[test]
fn a_lease_that_was_made_finite_is_finite_after_a_restart() {
    let mut lease = Lease::native();
    lease.accept(&acquire('a', LeaseDuration::Infinite));
    let shorter = Operation::Renew(id('a'), Some(fixed(15)));
    assert!(lease.apply(&shorter).unwrap().durable);
    let restored = Record::restore(lease.record.store(lease.now), at(0));
    assert_eq!(restored.state(at(15)), State::Expired);
}

#[test]
fn every_other_change_is_on_disk_first() {
    for operation in [
        change('a', 'b'),
        release('a'),
        Operation::Break(None),
        break_within(0),
        break_within(10),
        hand_over('a', 'b', 10),
        Operation::SetMetadata(id('a'), metadata("there")),
    ] {
        assert!(durable(&operation), "{operation:?}");
    }
    let mut lease = Lease::native();
    assert!(lease.apply(&acquire('a', fixed(60))).unwrap().durable);
    lease.go_to(60);
    assert!(lease.apply(&Operation::Break(None)).unwrap().durable);

    let mut azure = Lease::with(Rules::AZURE);
    azure.grant('a');
    assert!(azure.go_to(60).apply(&renew('a')).unwrap().durable);
}

#[test]
fn an_operation_that_changes_nothing_need_not_be_on_disk() {
    let epoch = Epoch::new(1_000).unwrap();
    assert!(!durable(&Operation::Verify(epoch)));
    assert!(!durable(&change('b', 'a')));

    let mut breaking = Lease::held_by_a();
    breaking.accept(&break_within(10));
    for repeated in [break_within(10), break_within(30), Operation::Break(None)] {
        assert!(!breaking.apply(&repeated).unwrap().durable);
    }
    breaking.go_to(10);
    assert!(!breaking.apply(&break_within(0)).unwrap().durable);
}
