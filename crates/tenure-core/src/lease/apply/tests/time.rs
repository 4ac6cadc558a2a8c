//! The effects of time alone: expiry, breaks, lock delays, reservations.

use super::*;
use alloc::string::ToString;

#[test]
fn a_refusal_contains_a_time_in_milliseconds() {
    let mut lease = Lease::held_by_a();
    lease.accept(&hand_over('a', 'd', 10));
    lease.now = lease.now + Duration::from_nanos(9_646_150_115);
    let refused = lease.reject(&acquire('b', fixed(60))).to_string();
    assert_eq!(refused, "the lease is reserved for d for another 353ms");
}

const NANOSECOND: Duration = Duration::from_nanos(1);

#[test]
fn a_lease_is_held_until_the_nanosecond_before_its_end_and_expired_at_its_end() {
    let mut lease = Lease::held_by_a();
    lease.now = at(60).earlier_by(NANOSECOND);
    assert_eq!((lease.state(), lease.left()), (State::Leased, NANOSECOND));
    assert!(matches!(
        lease.reject(&acquire('b', fixed(60))),
        Rejection::Held { remaining: LeaseDuration::Fixed(left), .. } if left == NANOSECOND
    ));

    lease.go_to(60);
    assert_eq!(lease.state(), State::Expired);
    assert_eq!(lease.record.held(lease.now), None);
    assert_eq!(lease.record.remaining(lease.now), None);
    lease.grant('b');
}

#[test]
fn a_renewal_at_the_end_is_too_late_and_one_before_it_is_not() {
    let mut lease = Lease::held_by_a();
    lease.now = at(60).earlier_by(NANOSECOND);
    lease.accept(&renew('a'));
    assert_eq!(lease.left(), secs(60));

    lease.now = lease.now + secs(60);
    assert_eq!(lease.reject(&renew('a')), Rejection::Expired);
}

#[test]
fn a_break_is_complete_exactly_at_the_end_of_its_period() {
    let mut lease = Lease::held_by_a();
    lease.accept(&break_within(10));
    lease.now = at(10).earlier_by(NANOSECOND);
    assert_eq!(lease.state(), State::Breaking);
    assert!(matches!(
        lease.reject(&acquire('b', fixed(60))),
        Rejection::Held { .. }
    ));
    lease.go_to(10);
    assert_eq!(lease.state(), State::Broken);
    lease.grant('b');
}

#[test]
fn an_infinite_lease_never_expires() {
    let mut lease = Lease::native();
    lease.accept(&acquire('a', LeaseDuration::Infinite));
    assert_eq!(lease.record.next_lapse(lease.now), None);
    lease.now = Instant::from_nanos(u64::MAX);
    assert_eq!(lease.state(), State::Leased);
    assert_eq!(
        lease.record.remaining(lease.now),
        Some(LeaseDuration::Infinite)
    );
}

#[test]
fn a_renewal_may_change_the_duration() {
    let mut lease = Lease::held_by_a();
    lease.go_to(10);
    lease.accept(&Operation::Renew(id('a'), Some(fixed(20))));
    assert_eq!(lease.left(), secs(20));
    // Renewals without a duration keep it.
    lease.go_to(20).accept(&renew('a'));
    assert_eq!(lease.left(), secs(20));
    lease.accept(&Operation::Renew(id('a'), Some(LeaseDuration::Infinite)));
    assert_eq!(
        lease.record.remaining(lease.now),
        Some(LeaseDuration::Infinite)
    );
}

#[test]
fn a_break_never_extends_the_remaining_time() {
    let mut lease = Lease::held_by_a();
    assert_eq!(lease.accept(&break_within(90)), Change::Breaking(secs(60)));
    assert_eq!(lease.accept(&break_within(30)), Change::Breaking(secs(30)));
    lease.go_to(10);
    assert_eq!(lease.accept(&break_within(50)), Change::Breaking(secs(20)));
    assert_eq!(
        lease.accept(&Operation::Break(None)),
        Change::Breaking(secs(20))
    );
    assert_eq!(lease.accept(&break_within(0)), Change::Broken);
}

#[test]
fn after_an_expiry_there_is_no_grant_during_the_lock_delay() {
    let mut lease = Lease::native();
    lease.accept(&delayed('a', 5));
    lease.go_to(62);
    let rejection = lease.reject(&acquire('b', fixed(60)));
    assert_eq!(rejection, Rejection::LockDelay { remaining: secs(3) });
    lease.now = at(65).earlier_by(NANOSECOND);
    lease.reject(&acquire('b', fixed(60)));
    lease.go_to(65).grant('b');
}

#[test]
fn after_a_break_there_is_no_grant_during_the_lock_delay() {
    for (period, ends) in [(0, 0), (10, 10)] {
        let mut lease = Lease::native();
        lease.accept(&delayed('a', 5));
        lease.accept(&break_within(period));
        lease.go_to(ends + 4);
        let rejection = lease.reject(&acquire('b', fixed(60)));
        assert_eq!(rejection, Rejection::LockDelay { remaining: secs(1) });
        lease.go_to(ends + 5).grant('b');
    }
}

#[test]
fn a_release_ends_the_lock_delay_even_after_an_expiry_or_a_break() {
    let mut released = Lease::native();
    released.accept(&delayed('a', 5));
    released.accept(&release('a'));
    released.grant('b');

    let mut expired = Lease::native();
    expired.accept(&delayed('a', 5));
    expired.go_to(61).accept(&release('a'));
    expired.grant('b');

    let mut broken = Lease::native();
    broken.accept(&delayed('a', 5));
    broken.accept(&break_within(0));
    broken.accept(&release('a'));
    broken.grant('b');
}

#[test]
fn a_switch_over_breaks_the_lease_and_reserves_it_for_that_candidate() {
    let mut lease = Lease::held_by_a();
    lease.accept(&switch_over('c', 10));
    // The holder notices the switch-over as a break, and stops before its time is over.
    let rejection = lease.go_to(2).reject(&renew('a'));
    assert_eq!(rejection, Rejection::Broken { remaining: secs(8) });
    lease.go_to(5).accept(&release('a'));
    let rejection = lease.reject(&acquire('b', fixed(60)));
    let (to, remaining) = (candidate('c'), secs(10));
    assert_eq!(rejection, Rejection::Reserved { to, remaining });
    lease.grant('c');

    // A holder that does not stop in time loses the lease. A reservation that the candidate does
    // not use ends.
    let mut unresponsive = Lease::held_by_a();
    unresponsive.accept(&switch_over('c', 10));
    unresponsive.go_to(12).reject(&acquire('b', fixed(60)));
    unresponsive.go_to(20).grant('b');
}

#[test]
fn a_switch_over_without_a_time_leaves_the_holder_its_lease_and_reserves_it_for_a_minute_at_most() {
    let switch_over = Operation::SwitchOver {
        to: candidate('c'),
        within: None,
        forced: true,
    };
    for (duration, reserved) in [(30, 30), (1_800, 60)] {
        let mut lease = Lease::native();
        lease.accept(&acquire('a', fixed(duration)));
        lease.go_to(10).accept(&switch_over);
        let remaining = secs(duration - 10);
        assert_eq!(lease.reject(&renew('a')), Rejection::Broken { remaining });
        let rejection = lease.go_to(duration).reject(&acquire('b', fixed(60)));
        let (to, remaining) = (candidate('c'), secs(reserved));
        assert_eq!(rejection, Rejection::Reserved { to, remaining });
        lease.go_to(duration + reserved).grant('b');
    }
}

#[test]
fn a_hand_over_reserves_the_lease_for_that_candidate_for_a_limited_time() {
    let mut lease = Lease::held_by_a();
    lease.accept(&hand_over('a', 'c', 10));
    lease.go_to(4);
    let rejection = lease.reject(&acquire('b', fixed(60)));
    let (to, remaining) = (candidate('c'), secs(6));
    assert_eq!(rejection, Rejection::Reserved { to, remaining });
    lease.grant('c');
    // The grant has used up the reservation.
    lease.accept(&release('c'));
    lease.grant('b');

    let mut unclaimed = Lease::held_by_a();
    unclaimed.accept(&hand_over('a', 'c', 10));
    unclaimed.now = at(10).earlier_by(NANOSECOND);
    unclaimed.reject(&acquire('b', fixed(60)));
    unclaimed.go_to(10).grant('b');
}

#[test]
fn a_reservation_begins_when_the_lock_delay_ends() {
    // In each case the lease can be granted again at 70 s.
    let at_50 = |lock_delay| {
        let mut lease = Lease::native();
        lease.accept(&delayed('a', lock_delay));
        lease.go_to(50);
        lease
    };
    let mut leased = at_50(10);
    leased.accept(&switch_over('c', 15));
    let mut broken = at_50(20);
    broken.accept(&break_within(0));
    broken.accept(&switch_over('c', 15));
    let mut expired = at_50(10);
    expired.go_to(65).accept(&switch_over('c', 15));
    // A second break ends the term earlier, and the lock delay with it.
    let mut earlier = at_50(15);
    earlier.accept(&switch_over('c', 15));
    earlier.accept(&break_within(5));
    for lease in [&mut leased, &mut broken, &mut expired, &mut earlier] {
        lease.now = at(70).earlier_by(NANOSECOND);
        let barred = lease.reject(&acquire('c', fixed(60)));
        assert!(matches!(barred, Rejection::LockDelay { .. }), "{barred:?}");
        let (to, remaining) = (candidate('c'), secs(15));
        let reserved = lease.go_to(70).reject(&acquire('b', fixed(60)));
        assert_eq!(reserved, Rejection::Reserved { to, remaining });
        lease.go_to(84).reject(&acquire('b', fixed(60)));
        lease.go_to(85).grant('b');
    }
}

#[test]
fn a_break_at_once_ends_the_lock_delay_and_the_reservation_of_a_lease_that_nobody_holds() {
    let mut expired = Lease::native();
    expired.accept(&delayed('a', 5_000));
    expired.go_to(60);
    let mut broken = Lease::native();
    broken.accept(&delayed('a', 5_000));
    broken.accept(&switch_over('c', 5_000));
    broken.accept(&break_within(0));
    let mut reserved = Lease::held_by_a();
    reserved.accept(&hand_over('a', 'c', 5_000));
    for lease in [expired, broken, reserved] {
        // Any other break leaves both.
        for period in [None, Some(secs(1))] {
            let mut lease = lease_of(&lease);
            let _ = lease.apply(&Operation::Break(period));
            lease.reject(&acquire('b', fixed(60)));
        }
        let mut lease = lease_of(&lease);
        let lifted = lease.apply(&break_within(0)).unwrap();
        assert_eq!((lifted.change, lifted.durable), (Change::Broken, true));
        assert_eq!(lease.state(), State::Broken);
        // The last holder does not come back.
        lease.reject(&renew('a'));
        lease.reject(&acquire('a', fixed(60)));
        // A restart does not bring them back.
        let mut restarted = lease_of(&lease);
        restarted.record = Record::restore(lease.record.store(lease.now), lease.now);
        for mut lease in [lease, restarted] {
            lease.grant('b');
        }
    }
    // A break that ends a term leaves the lock delay of that term, which an operator may not know.
    let mut held = Lease::native();
    held.accept(&delayed('a', 5_000));
    held.accept(&break_within(0));
    held.reject(&acquire('b', fixed(60)));
}

fn lease_of(lease: &Lease) -> Lease {
    Lease {
        record: lease.record.clone(),
        ..*lease
    }
}

#[test]
fn settling_ends_a_term_once_and_only_when_its_time_is_over() {
    let mut record = Lease::held_by_a().record;
    assert_eq!(record.settle(at(59)), None);
    assert_eq!(record.settle(at(60)), Some(Lapse::Expired));
    assert_eq!(record.settle(at(60)), None);

    let mut lease = Lease::held_by_a();
    lease.accept(&break_within(10));
    assert_eq!(lease.record.settle(at(9)), None);
    assert_eq!(lease.record.settle(at(10)), Some(Lapse::Broken));
    assert_eq!(lease.record.settle(at(10)), None);
}

#[test]
fn the_lock_delay_counts_from_the_expiry_even_if_that_is_noticed_late() {
    let mut lease = Lease::native();
    lease.accept(&delayed('a', 5));
    lease.go_to(70).grant('b');
}

#[test]
fn next_lapse_is_the_time_at_which_the_possible_grants_change() {
    let mut lease = Lease::native();
    assert_eq!(lease.record.next_lapse(at(0)), None);
    lease.accept(&delayed('a', 5));
    assert_eq!(lease.record.next_lapse(at(0)), Some(at(60)));
    lease.accept(&break_within(10));
    assert_eq!(lease.record.next_lapse(at(0)), Some(at(10)));
    lease.record.settle(at(10));
    assert_eq!(lease.record.next_lapse(at(10)), Some(at(15)));
    assert_eq!(lease.record.next_lapse(at(15)), None);

    let mut handed_over = Lease::held_by_a();
    handed_over.accept(&hand_over('a', 'b', 7));
    assert_eq!(handed_over.record.next_lapse(at(0)), Some(at(7)));
    assert_eq!(handed_over.record.next_lapse(at(7)), None);
}

fn delayed(name: char, lock_delay: u64) -> Operation {
    let request = Acquire {
        lock_delay: secs(lock_delay),
        ..request(name, fixed(60))
    };
    Operation::Acquire(request, UnixMillis::new(1_000))
}
