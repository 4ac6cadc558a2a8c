//! The ends of terms: their kinds and their times.

use super::*;
use crate::lease::TermEnd;

/// Returns how and when the operation ended the term that ran before it.
fn end_by(lease: &mut Lease, operation: &Operation) -> Option<(TermEnd, Instant)> {
    let running = lease.record.running();
    lease.accept(operation);
    running?.ended(&lease.record, lease.now)
}

fn end_by_time(lease: &mut Lease, secs: u64) -> Option<(TermEnd, Instant)> {
    let running = lease.record.running();
    lease.go_to(secs).record.settle(at(secs));
    running?.ended(&lease.record, lease.now)
}

#[test]
fn each_end_of_a_term_has_its_name_and_its_time() {
    let mut lease = Lease::held_by_a();
    lease.go_to(7);
    assert_eq!(
        end_by(&mut lease, &release('a')),
        Some((TermEnd::Released, at(7)))
    );

    let mut lease = Lease::held_by_a();
    let handed = end_by(&mut lease, &hand_over('a', 'b', 10));
    assert_eq!(handed, Some((TermEnd::HandedOver, at(0))));

    let mut lease = Lease::held_by_a();
    assert_eq!(
        end_by(&mut lease, &break_within(0)),
        Some((TermEnd::Broken, at(0)))
    );

    let mut lease = Lease::held_by_a();
    // The store notices the expiry an hour late.
    assert_eq!(
        end_by_time(&mut lease, 3_660),
        Some((TermEnd::Expired, at(60)))
    );
}

#[test]
fn a_break_ends_the_term_as_broken_even_if_the_holder_releases_first() {
    let mut lease = Lease::held_by_a();
    assert_eq!(end_by(&mut lease, &break_within(10)), None);
    assert_eq!(end_by_time(&mut lease, 99), Some((TermEnd::Broken, at(10))));

    let mut lease = Lease::held_by_a();
    lease.accept(&break_within(10));
    lease.go_to(3);
    assert_eq!(
        end_by(&mut lease, &release('a')),
        Some((TermEnd::Broken, at(3)))
    );
}

#[test]
fn a_switch_over_always_ends_the_term_as_handed_over() {
    let breaking = || {
        let mut lease = Lease::held_by_a();
        assert_eq!(end_by(&mut lease, &switch_over('b', 10)), None);
        lease
    };
    assert_eq!(
        end_by_time(&mut breaking(), 10),
        Some((TermEnd::HandedOver, at(10)))
    );
    for operation in [release('a'), break_within(0)] {
        let ended = end_by(&mut breaking(), &operation);
        assert_eq!(ended, Some((TermEnd::HandedOver, at(0))));
    }
    let mut lease = Lease::held_by_a();
    let at_once = end_by(&mut lease, &switch_over('b', 0));
    assert_eq!(at_once, Some((TermEnd::HandedOver, at(0))));
}

#[test]
fn a_term_that_has_ended_does_not_end_again() {
    for again in [release('a'), break_within(0), switch_over('b', 10)] {
        let mut lease = Lease::held_by_a();
        assert!(end_by_time(&mut lease, 60).is_some());
        assert_eq!(end_by(&mut lease, &again), None, "{again:?}");
    }
}

#[test]
fn a_term_that_goes_on_has_not_ended() {
    let mut lease = Lease::held_by_a();
    for operation in [
        renew('a'),
        acquire('a', fixed(30)),
        Operation::SetMetadata(id('a'), metadata("here")),
        change('a', 'b'),
        break_within(20),
        break_within(10),
    ] {
        assert_eq!(end_by(&mut lease, &operation), None, "{operation:?}");
    }
    // A hand-over does not affect later terms.
    let mut lease = Lease::held_by_a();
    lease.accept(&hand_over('a', 'b', 10));
    lease.grant('b');
    assert_eq!(
        end_by(&mut lease, &release('b')),
        Some((TermEnd::Released, at(0)))
    );
}
