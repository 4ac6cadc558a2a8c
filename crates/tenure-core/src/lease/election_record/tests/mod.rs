use alloc::vec::Vec;

use super::*;

mod model;

/// The clock of the service.
const WALL: UnixMillis = UnixMillis::new(7);

const LEASE: Duration = Duration::from_secs(15);

fn at(millis: u64) -> Instant {
    Instant::default() + Duration::from_millis(millis)
}

fn id(number: u64) -> LeaseId {
    LeaseId::from_random_bits(0, number)
}

fn name(text: &str) -> CandidateId {
    text.parse().unwrap()
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

fn held(holder: &str, lease_id: LeaseId) -> ElectionRecord {
    ElectionRecord::granted(None, (&name(holder), lease_id), epoch(100), LEASE, "t0")
}

/// The record after another program has taken it, as client-go does: the annotations stay.
fn taken_by_another(record: &ElectionRecord, holder: &str, transitions: u32) -> ElectionRecord {
    let mut taken = record.clone();
    taken.holding.holder = Some(holder.into());
    taken.holding.transitions = transitions;
    taken.holding.renewed = Some("t9".into());
    taken
}

/// The mark of the record, which it has.
fn mark(record: &ElectionRecord) -> &TermMark {
    record.mark.as_ref().unwrap()
}

fn renewed(record: &ElectionRecord, wall: &str) -> ElectionRecord {
    record.renewed(mark(record), LEASE, wall).unwrap()
}

fn released(record: &ElectionRecord) -> ElectionRecord {
    record.released(mark(record), "t2").unwrap()
}

/// The record after another program has emptied it, as client-go does: the annotations stay.
fn emptied(record: &ElectionRecord) -> ElectionRecord {
    let mut emptied = record.clone();
    emptied.holding.holder = None;
    emptied.holding.duration = Some(Duration::from_secs(1));
    emptied
}

/// Claims the record for the lease id 2, with a lease duration of 15 s.
fn claim(observed: &mut ObservedRecord, millis: u64, record: &ElectionRecord) -> RecordClaim {
    observed.claim(at(millis), WALL, Some(record), id(2), LEASE)
}

#[test]
fn a_record_is_free_when_it_is_unchanged_for_its_duration_since_it_was_first_seen() {
    let record = held("a", id(1));
    let mut observed = ObservedRecord::default();
    assert_eq!(claim(&mut observed, 5_000, &record), RecordClaim::Held);
    assert_eq!(claim(&mut observed, 19_999, &record), RecordClaim::Held);
    let renewed = renewed(&record, "t1");
    assert_eq!(claim(&mut observed, 20_000, &renewed), RecordClaim::Held);
    assert_eq!(claim(&mut observed, 34_999, &renewed), RecordClaim::Held);
    assert_eq!(claim(&mut observed, 35_000, &renewed), RecordClaim::Free);
}

#[test]
fn a_released_record_is_free_at_once_and_its_epoch_counts_on() {
    let mut observed = ObservedRecord::default();
    let released = released(&held("a", id(1)));
    assert_eq!(claim(&mut observed, 0, &released), RecordClaim::Free);
    assert_eq!(observed.next_epoch(UnixMillis::new(7)), Epoch::new(101));
    assert_eq!(released.holding.duration, Some(Duration::from_secs(1)));
    assert_eq!(
        observed.claim(at(0), WALL, None, id(2), LEASE),
        RecordClaim::Free
    );
}

#[test]
fn a_record_that_another_program_has_emptied_is_held_until_the_term_would_have_expired() {
    let mut observed = ObservedRecord::default();
    let emptied = emptied(&held("a", id(1)));
    assert_eq!(claim(&mut observed, 0, &emptied), RecordClaim::Held);
    assert_eq!(
        observed.awaited(at(1_000), LEASE),
        Some(AwaitedTerm {
            holder: None,
            leader: Some((name("a"), epoch(100))),
            remaining: Duration::from_secs(14),
        })
    );
    // The leader writes itself back, and the wait begins again.
    let back = renewed(&emptied, "t3");
    assert_eq!(back.holding.holder.as_deref(), Some("a"));
    assert_eq!(claim(&mut observed, 14_999, &back), RecordClaim::Held);
    assert_eq!(observed.awaited(at(14_999), LEASE), None);
    let emptied = self::emptied(&back);
    assert_eq!(claim(&mut observed, 29_998, &emptied), RecordClaim::Held);
    assert_eq!(claim(&mut observed, 29_999, &emptied), RecordClaim::Free);
}

#[test]
fn a_record_without_a_mark_counts_as_a_term_of_the_longest_known_duration_once() {
    for holding in [emptied(&held("a", id(1))).holding, Holding::default()] {
        let mut observed = ObservedRecord::default();
        let foreign = ElectionRecord {
            holding,
            ..ElectionRecord::default()
        };
        assert_eq!(claim(&mut observed, 0, &foreign), RecordClaim::Held);
        let awaited = observed.awaited(at(0), LEASE).unwrap();
        assert_eq!((awaited.leader, awaited.remaining), (None, LEASE));
        assert_eq!(claim(&mut observed, 15_000, &foreign), RecordClaim::Free);
    }
    // A longer duration that was seen before counts, too.
    let mut observed = ObservedRecord::default();
    let mut record = held("a", id(1));
    record.holding.duration = Some(Duration::from_secs(60));
    assert_eq!(claim(&mut observed, 0, &record), RecordClaim::Held);
    let without = ElectionRecord {
        mark: None,
        ..emptied(&record)
    };
    assert_eq!(claim(&mut observed, 1_000, &without), RecordClaim::Held);
    assert_eq!(claim(&mut observed, 60_999, &without), RecordClaim::Held);
    assert_eq!(claim(&mut observed, 61_000, &without), RecordClaim::Free);
}

#[test]
fn a_mark_that_is_older_than_one_seen_before_or_too_long_does_not_end_a_term() {
    let first = held("a", id(1));
    let ended = released(&first);
    let later = ElectionRecord::granted(Some(&ended), (&name("b"), id(3)), epoch(200), LEASE, "t");
    let mut observed = ObservedRecord::default();
    assert_eq!(claim(&mut observed, 0, &later), RecordClaim::Held);
    // Another program puts the record before the term of b back.
    assert_eq!(claim(&mut observed, 1_000, &ended), RecordClaim::Held);
    assert_eq!(claim(&mut observed, 15_999, &ended), RecordClaim::Held);
    assert_eq!(claim(&mut observed, 16_000, &ended), RecordClaim::Free);
    let mut observed = ObservedRecord::default();
    assert_eq!(claim(&mut observed, 0, &later), RecordClaim::Held);
    let of_a = observed.claim(at(1_000), WALL, Some(&first), id(1), LEASE);
    assert_eq!(of_a, RecordClaim::Held);

    let mut endless = emptied(&first);
    endless.mark.as_mut().unwrap().duration = LONGEST + Duration::from_secs(1);
    let mut observed = ObservedRecord::default();
    assert_eq!(claim(&mut observed, 0, &endless), RecordClaim::Held);
    assert_eq!(claim(&mut observed, 15_000, &endless), RecordClaim::Free);
}

#[test]
fn a_deleted_record_counts_until_it_would_have_expired() {
    let mut observed = ObservedRecord::default();
    let record = held("a", id(1));
    assert_eq!(claim(&mut observed, 0, &record), RecordClaim::Held);
    let mut deleted = |millis| observed.claim(at(millis), WALL, None, id(2), LEASE);
    assert_eq!(deleted(14_999), RecordClaim::Held);
    assert_eq!(deleted(15_000), RecordClaim::Free);
    assert_eq!(observed.next_epoch(UnixMillis::new(7)), Epoch::new(101));
}

#[test]
fn a_candidate_with_the_same_name_and_another_lease_id_does_not_own_the_record() {
    let mut observed = ObservedRecord::default();
    let record = held("a", id(1));
    let own = RecordClaim::Own(mark(&record).clone());
    assert_eq!(
        observed.claim(at(0), WALL, Some(&record), id(1), LEASE),
        own
    );
    assert_eq!(claim(&mut observed, 0, &record), RecordClaim::Held);
}

#[test]
fn a_lease_id_whose_term_has_ended_never_holds_the_record_again() {
    let mut observed = ObservedRecord::default();
    let released = released(&held("a", id(1)));
    for millis in [0, 100_000] {
        let claim = observed.claim(at(millis), WALL, Some(&released), id(1), LEASE);
        assert_eq!(claim, RecordClaim::Held);
    }
    assert_eq!(released.renewed(mark(&released), LEASE, "t3"), None);
    assert_eq!(released.released(mark(&released), "t3"), None);
}

#[test]
fn a_term_is_over_when_another_program_has_taken_the_record_even_under_the_same_name() {
    let record = held("a", id(1));
    for taken in [
        taken_by_another(&record, "b", 0),
        taken_by_another(&record, "a", 1),
    ] {
        assert_eq!(taken.running(), None);
        assert_eq!(taken.renewed(mark(&record), LEASE, "t1"), None);
    }
    assert_eq!(record.running(), Some(mark(&record)));
}

#[test]
fn a_leader_writes_back_what_other_programs_removed_unless_another_term_is_there() {
    let record = held("a", id(1));
    let last = mark(&record);
    let without = |record: &ElectionRecord| ElectionRecord {
        mark: None,
        epoch: None,
        ..record.clone()
    };
    for changed in [
        emptied(&record),
        without(&record),
        without(&emptied(&record)),
    ] {
        assert_eq!(changed.look(last), RecordLook::Removed);
        let back = changed.renewed(last, LEASE, "t1").unwrap();
        assert_eq!(back.look(mark(&back)), RecordLook::Kept);
        assert_eq!(back.running(), back.mark.as_ref());
        assert_eq!((back.epoch, mark(&back).number), (Some(epoch(100)), 1));
    }
    // A program that counts a change of the holder has taken and released the record.
    let mut counted = emptied(&record);
    counted.holding.transitions = 1;
    let back = counted.renewed(last, LEASE, "t1").unwrap();
    assert_eq!((back.holding.transitions, mark(&back).transitions), (1, 1));

    // Two renewals by the same last mark, because the answer to the first one was lost.
    let [first, second] = ["t1", "t2"].map(|wall| without(&record).renewed(last, LEASE, wall));
    assert_ne!(first.unwrap().mark, second.unwrap().mark);

    let next = ElectionRecord::granted(Some(&record), (&name("b"), id(2)), epoch(200), LEASE, "t");
    assert_eq!(emptied(&next).renewed(last, LEASE, "t1"), None);
    for over in [
        emptied(&next),
        taken_by_another(&record, "b", 1),
        taken_by_another(&record, "a", 1),
        released(&record),
    ] {
        assert_eq!(over.look(last), RecordLook::Over);
    }
    // A renewal whose answer was lost has written a later mark, or an older one was put back.
    let later = renewed(&record, "t1");
    assert_eq!(later.look(last), RecordLook::Kept);
    assert_eq!(record.look(mark(&later)), RecordLook::Removed);
}

#[test]
fn a_release_ends_the_mark_and_leaves_the_record_to_another_holder() {
    let record = held("a", id(1));
    let last = mark(&record);
    let taken = taken_by_another(&record, "b", 1)
        .released(last, "t1")
        .unwrap();
    assert_eq!(taken.holding, taken_by_another(&record, "b", 1).holding);
    assert!(mark(&taken).has_ended);

    // An older mark of the term was put back: a later term may be running.
    let renewed = renewed(&record, "t1");
    assert_eq!(record.released(mark(&renewed), "t2"), None);
    let without = ElectionRecord {
        mark: None,
        ..record.clone()
    };
    assert_eq!(without.released(last, "t2"), None);
}

#[test]
fn an_epoch_is_greater_than_all_that_were_seen_than_the_transitions_and_than_the_wall_clock() {
    let next = |record: &ElectionRecord, wall| {
        let mut observed = ObservedRecord::default();
        observed.observe(at(0), WALL, record);
        observed.next_epoch(UnixMillis::new(wall)).map(Epoch::get)
    };
    let mut record = held("a", id(1));
    assert_eq!(next(&record, 7), Some(101));
    assert_eq!(next(&record, 5_000), Some(5_000));
    // A program that writes only what it knows removes the epoch. The mark has it, too.
    record.epoch = None;
    assert_eq!(next(&record, 7), Some(101));
    record.mark = None;
    record.holding.transitions = 200;
    assert_eq!(next(&record, 7), Some(201));

    let mut observed = ObservedRecord::default();
    observed.observe(at(0), WALL, &held("a", id(1)));
    observed.observe(at(1), WALL, &ElectionRecord::default());
    assert_eq!(observed.next_epoch(UnixMillis::new(7)), Epoch::new(101));
}

#[test]
fn an_epoch_beside_the_mark_counts_up_to_a_hundred_years_above_the_clock_and_blocks_nobody() {
    let wall = UnixMillis::new(1_800_000_000_000);
    let most = Epoch::most_asked_for(None, wall, true);
    let next = |raised: Epoch, mark: Option<TermMark>| {
        let mut record = emptied(&held("a", id(1)));
        record.mark = mark;
        let mut observed = ObservedRecord::default();
        let claim = |observed: &mut ObservedRecord, record: &ElectionRecord| {
            observed.claim(at(0), wall, Some(record), id(2), LEASE)
        };
        claim(&mut observed, &record);
        record.epoch = Some(raised);
        claim(&mut observed, &record);
        observed.next_epoch(wall)
    };
    let own = held("a", id(1)).mark;
    for mark in [None, own.clone()] {
        assert_eq!(next(most, mark.clone()), Epoch::new(most.get() + 1));
        for absurd in [Epoch::MAX, epoch(most.get() + 1)] {
            assert_eq!(next(absurd, mark.clone()), Epoch::new(wall.get()));
        }
    }
    // The mark of a term confirms every epoch.
    let confirmed = own.map(|mark| TermMark {
        epoch: epoch(most.get() + 7),
        ..mark
    });
    assert_eq!(next(epoch(100), confirmed), Epoch::new(most.get() + 8));
}

#[test]
fn a_holder_is_awaited_if_it_may_keep_the_record_for_more_than_twice_the_own_duration() {
    let awaited = |seconds| {
        let mut ghost = taken_by_another(&held("a", id(1)), "ghost", 1);
        ghost.holding.duration = Some(Duration::from_secs(seconds));
        let mut observed = ObservedRecord::default();
        assert_eq!(claim(&mut observed, 0, &ghost), RecordClaim::Held);
        observed.awaited(at(0), LEASE)
    };
    assert_eq!(awaited(30), None);
    for seconds in [31, i32::MAX.unsigned_abs().into()] {
        let long = AwaitedTerm {
            holder: Some("ghost".into()),
            leader: None,
            remaining: Duration::from_secs(seconds),
        };
        assert_eq!(awaited(seconds), Some(long));
    }
}

#[test]
fn a_candidate_does_not_wait_for_the_end_of_its_own_earlier_term() {
    let record = held("a", id(1));
    let mut a = ObservedRecord::default();
    a.claim(at(0), WALL, None, id(1), LEASE);
    a.observe(at(0), WALL, &record);
    // Another program takes the record for a second, and a begins another campaign.
    let mut taken = taken_by_another(&record, "other", 1);
    taken.holding.duration = Some(Duration::from_secs(1));
    let mut b = ObservedRecord::default();
    let mut claims = |millis, of_a, of_b| {
        let claimed = a.claim(at(millis), WALL, Some(&taken), id(3), LEASE);
        assert_eq!(claimed, of_a);
        assert_eq!(claim(&mut b, millis, &taken), of_b);
    };
    claims(1_000, RecordClaim::Held, RecordClaim::Held);
    claims(2_000, RecordClaim::Free, RecordClaim::Held);
    claims(16_000, RecordClaim::Free, RecordClaim::Free);
}

#[test]
fn transitions_count_the_changes_of_the_holder_and_stay_in_their_range() {
    let mut record = held("a", id(1));
    assert_eq!(record.holding.transitions, 0);
    record.holding.transitions = i32::MAX.unsigned_abs() - 1;
    for _ in 0..2 {
        let next = (&name("b"), id(2));
        record = ElectionRecord::granted(Some(&record), next, epoch(200), LEASE, "t1");
        assert_eq!(record.holding.transitions, i32::MAX.unsigned_abs());
        assert_eq!(record.running().map(|it| it.epoch), Some(epoch(200)));
    }
}
