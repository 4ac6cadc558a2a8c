//! Terms: their epochs, their lease ids, and their visible properties.

use alloc::string::ToString;

use super::*;
use crate::lease::RETIRED_LIMIT;

fn acquire_at_wall_clock(name: char, wall: u64) -> Operation {
    Operation::Acquire(request(name, fixed(60)), UnixMillis::new(wall))
}

#[test]
fn a_grant_to_a_new_lease_id_has_a_new_epoch_even_for_the_same_candidate() {
    let mut lease = Lease::held_by_a();
    let first = lease.record.last_epoch().unwrap();
    lease.accept(&release('a'));
    let again = Acquire {
        lease_id: id('z'),
        ..request('a', fixed(60))
    };
    let change = lease.accept(&Operation::Acquire(again, UnixMillis::new(1_000)));
    assert!(matches!(change, Change::Granted(second) if second > first));
}

#[test]
fn epochs_increase_when_the_wall_clock_goes_back() {
    let mut lease = Lease::native();
    let mut epochs = [0; 3];
    for (epoch, (name, wall)) in epochs
        .iter_mut()
        .zip([('a', 5_000), ('b', 3), ('c', 9_000)])
    {
        lease.accept(&acquire_at_wall_clock(name, wall));
        lease.accept(&release(name));
        *epoch = lease.record.last_epoch().unwrap().get();
    }
    assert_eq!(epochs, [5_000, 5_001, 9_000]);
}

#[test]
fn an_acquire_with_a_minimal_epoch_gets_it_or_a_greater_one_at_any_wall_clock_time() {
    let mut lease = Lease::native();
    lease.accept(&acquire_at_wall_clock('a', 5_000));
    lease.accept(&release('a'));
    for (name, least, granted) in [
        ('b', 7_000, 7_000),
        ('c', 6_000, 7_001),
        ('d', 7_001, 7_002),
    ] {
        let asked = Acquire {
            min_epoch: Epoch::new(least),
            ..request(name, fixed(60))
        };
        let change = lease.accept(&Operation::Acquire(asked, UnixMillis::new(9_000)));
        assert_eq!(change, Change::Granted(Epoch::new(granted).unwrap()));
        lease.accept(&release(name));
    }
}

#[test]
fn an_acquire_with_the_minimal_epoch_zero_gets_the_first_epoch() {
    let mut lease = Lease::native();
    let asked = Acquire {
        min_epoch: Epoch::new(0),
        ..request('a', fixed(60))
    };
    let change = lease.accept(&Operation::Acquire(asked, UnixMillis::new(9_000)));
    assert_eq!(change, Change::Granted(Epoch::new(1).unwrap()));
}

#[test]
fn an_epoch_too_far_ahead_is_refused_and_not_queued() {
    let mut lease = Lease::native();
    let asking = |name, epoch| {
        let asked = Acquire {
            min_epoch: Some(epoch),
            by_operator: true,
            ..request(name, fixed(60))
        };
        Operation::Acquire(asked, UnixMillis::new(1_000))
    };
    let most = Epoch::new(1_000 + Epoch::OPERATORS_AHEAD).unwrap();
    let beyond = Epoch::new(most.get() + 1).unwrap();
    for asked in [beyond, Epoch::MAX] {
        let by_operator = true;
        let refused = Rejection::EpochTooFarAhead {
            asked,
            most,
            by_operator,
        };
        assert_eq!(lease.reject(&asking('a', asked)), refused);
        lease.grant('b');
        assert_eq!(lease.reject(&asking('a', asked)), refused);
        lease.accept(&release('b'));
        lease = Lease::native();
    }
    assert_eq!(lease.accept(&asking('a', most)), Change::Granted(most));
    lease.accept(&release('a'));
    // A grant under the greatest allowed epoch does not move the limit, except that the next epoch
    // is always allowed.
    let change = lease.accept(&asking('c', beyond));
    assert_eq!(change, Change::Granted(beyond));
    lease.accept(&release('c'));
    let further = Epoch::new(beyond.get() + 2).unwrap();
    let rejection = lease.reject(&asking('d', further));
    assert!(matches!(rejection, Rejection::EpochTooFarAhead { .. }));
}

#[test]
fn an_epoch_more_than_thirty_days_above_the_clock_and_the_last_epoch_needs_an_operator() {
    let day = 24 * 60 * 60 * 1_000;
    let acquire = |lease: &mut Lease, epoch, by_operator| {
        let asked = Acquire {
            min_epoch: Epoch::new(epoch),
            by_operator,
            ..request('a', fixed(60))
        };
        lease.apply(&Operation::Acquire(asked, UnixMillis::new(1_000)))
    };
    let take_again = |lease: &mut Lease, epoch| {
        let again = Resume {
            epoch: Epoch::new(epoch).unwrap(),
            without_store: secs(1),
        };
        let asked = request('a', fixed(60));
        lease.apply(&Operation::Resume(asked, again, UnixMillis::new(1_000)))
    };
    let most = 1_000 + 30 * day;
    let refused = acquire(&mut Lease::native(), most + 1, false).unwrap_err();
    assert!(
        refused.to_string().contains("needs an operator"),
        "{refused}"
    );
    assert_eq!(take_again(&mut Lease::native(), most + 1), Err(refused));
    assert!(acquire(&mut Lease::native(), most, false).is_ok());
    assert!(take_again(&mut Lease::native(), most).is_ok());

    // The last epoch counts as well as the clock.
    let mut lease = Lease::native();
    let far = 365 * day;
    assert!(acquire(&mut lease, far, true).is_ok());
    lease.go_to(60);
    // The last term always goes on.
    assert!(take_again(&mut lease, far).is_ok());
    lease.accept(&release('a'));
    lease.go_to(10_000);
    let bound = far + 30 * day;
    lease.record = lease.record.deleted(None, lease.now);
    assert!(acquire(&mut lease, bound + 1, false).is_err());
    assert!(acquire(&mut lease, bound, false).is_ok());
}

#[test]
fn after_the_last_epoch_there_are_no_grants() {
    let mut lease = Lease::native();
    lease.accept(&acquire_at_wall_clock('a', Epoch::MAX.get()));
    lease.accept(&release('a'));
    let rejection = lease.reject(&acquire('b', fixed(60)));
    assert_eq!(rejection, Rejection::EpochsExhausted);
}

#[test]
fn by_azure_rules_a_renewal_after_expiry_keeps_the_epoch() {
    let mut lease = Lease::with(Rules::AZURE);
    let epoch = lease.grant('a');
    lease.go_to(100);
    assert_eq!(lease.accept(&renew('a')), Change::Renewed(epoch));
    assert_eq!((lease.state(), lease.left()), (State::Leased, secs(60)));
    // The id holds the lease again, so under native rules it may acquire the lease again, too.
    lease.rules = Rules::NATIVE;
    let change = lease.accept(&acquire('a', fixed(60)));
    assert_eq!(change, Change::Renewed(epoch));
}

#[test]
fn a_late_duplicate_of_an_acquire_is_refused_after_its_term() {
    let mut lease = Lease::held_by_a();
    lease.accept(&release('a'));
    let duplicate = acquire('a', fixed(60));
    assert_eq!(lease.reject(&duplicate), Rejection::IdRetired);
    // The same request while others hold the lease, and after their terms.
    lease.grant('b');
    assert_eq!(lease.reject(&duplicate), Rejection::IdRetired);
    lease.accept(&break_within(0));
    assert_eq!(lease.reject(&duplicate), Rejection::IdRetired);
}

#[test]
fn a_lease_id_is_retired_when_it_is_changed() {
    let mut lease = Lease::held_by_a();
    lease.accept(&change('a', 'b'));
    let rejection = lease.reject(&acquire('a', fixed(60)));
    assert_eq!(rejection, Rejection::IdRetired);
    assert_eq!(lease.reject(&renew('a')), Rejection::IdMismatch);
    // The new id has the rights of the old one, and may be changed back.
    lease.accept(&renew('b'));
    lease.accept(&change('b', 'a'));
    lease.accept(&acquire('a', fixed(60)));
}

#[test]
fn a_change_keeps_the_term_and_its_clock() {
    let mut lease = Lease::held_by_a();
    let epoch = lease.record.last_epoch();
    lease.go_to(20).accept(&change('a', 'b'));
    assert_eq!(lease.left(), secs(40));
    assert_eq!(lease.record.last_epoch(), epoch);
    assert_eq!(lease.record.last_grant().unwrap().holder, candidate('a'));
}

#[test]
fn a_retired_id_is_remembered_for_ten_minutes() {
    let mut lease = Lease::held_by_a();
    lease.accept(&release('a'));
    // The store drops old ids when the next term ends.
    lease.go_to(599).grant('b');
    lease.accept(&release('b'));
    assert_eq!(lease.reject(&acquire('a', fixed(60))), Rejection::IdRetired);

    lease.go_to(600).grant('c');
    lease.accept(&release('c'));
    lease.grant('a');
}

#[test]
fn retired_ids_are_remembered_up_to_the_limit() {
    let mut lease = Lease::held_by_a();
    lease.accept(&release('a'));
    let others = ('A'..='Z').chain('0'..='9').take(RETIRED_LIMIT);
    for (nth, name) in others.enumerate() {
        assert_eq!(
            lease.reject(&acquire('a', fixed(60))),
            Rejection::IdRetired,
            "after {nth} further terms"
        );
        lease.grant(name);
        lease.accept(&release(name));
    }
    lease.grant('a');
}

#[test]
fn a_repeated_acquire_of_the_holder_renews_and_keeps_later_changes() {
    let mut lease = Lease::native();
    let first = Acquire {
        metadata: metadata("here"),
        lock_delay: secs(5),
        ..request('a', fixed(30))
    };
    let first = Operation::Acquire(first, UnixMillis::new(1_000));
    let epoch = Epoch::new(1_000).unwrap();
    assert_eq!(lease.accept(&first), Change::Granted(epoch));
    lease.accept(&Operation::SetMetadata(id('a'), metadata("there")));
    lease.accept(&Operation::Renew(id('a'), Some(fixed(60))));

    // The first request arrives again, and then a different request with the same id.
    let bare = request('a', fixed(15));
    let bare = Operation::Acquire(bare, UnixMillis::new(90_000));
    for (at, again) in [(20, &first), (40, &bare)] {
        assert_eq!(lease.go_to(at).accept(again), Change::Renewed(epoch));
        assert_eq!(lease.left(), secs(60));
        assert_eq!(lease.record.metadata(lease.now), Some(&metadata("there")));
        let grant = lease.record.last_grant().unwrap();
        assert_eq!((grant.lock_delay, grant.duration), (secs(5), fixed(60)));
        assert_eq!(grant.granted_at, UnixMillis::new(1_000));
    }
    // A longer duration is granted to the repeated acquire.
    lease.accept(&acquire('a', fixed(90)));
    assert_eq!(lease.left(), secs(90));
    lease.accept(&acquire('a', LeaseDuration::Infinite));
    lease.accept(&acquire('a', fixed(90)));
    let left = lease.record.remaining(lease.now);
    assert_eq!(left, Some(LeaseDuration::Infinite));
}

#[test]
fn a_refusal_contains_the_holder_and_the_remaining_time() {
    let mut lease = Lease::held_by_a();
    lease.go_to(20);
    let held = Rejection::Held {
        holder: candidate('a'),
        epoch: lease.record.last_epoch().unwrap(),
        remaining: LeaseDuration::Fixed(secs(40)),
    };
    assert_eq!(lease.reject(&acquire('b', fixed(60))), held);
}

#[test]
fn only_the_epoch_that_holds_the_lease_is_verified_as_current() {
    let mut lease = Lease::native();
    let never = Epoch::new(7).unwrap();
    assert_eq!(verified(&mut lease, never), (false, None));
    let first = lease.grant('a');
    assert_eq!(verified(&mut lease, first), (true, Some(first)));
    lease.accept(&break_within(10));
    assert_eq!(verified(&mut lease, first), (true, Some(first)));
    lease.go_to(10);
    assert_eq!(verified(&mut lease, first), (false, None));
    let second = lease.grant('b');
    assert_eq!(verified(&mut lease, first), (false, Some(second)));
    lease.accept(&release('b'));
    assert_eq!(verified(&mut lease, second), (false, None));
}

fn verified(lease: &mut Lease, asked: Epoch) -> (bool, Option<Epoch>) {
    let before = lease.record.clone();
    let Change::Verified { current, epoch } = lease.accept(&Operation::Verify(asked)) else {
        panic!("a verification was answered with a change")
    };
    let state = before.state(lease.now);
    assert_eq!(lease.state(), state);
    (current, epoch)
}

#[test]
fn metadata_is_visible_while_its_holder_holds_the_lease() {
    let mut lease = Lease::held_by_a();
    assert_eq!(lease.record.metadata(lease.now), None);
    lease.accept(&Operation::SetMetadata(id('a'), metadata("here")));
    lease.accept(&renew('a'));
    assert_eq!(lease.record.metadata(lease.now), Some(&metadata("here")));
    lease.accept(&Operation::SetMetadata(id('a'), Metadata::new()));
    assert_eq!(lease.record.metadata(lease.now), None);

    lease.accept(&Operation::SetMetadata(id('a'), metadata("here")));
    lease.go_to(60);
    assert_eq!(lease.record.metadata(lease.now), None);
    lease.grant('b');
    assert_eq!(lease.record.metadata(lease.now), None);
}
