use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

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

#[test]
fn a_record_is_free_when_it_is_unchanged_for_its_duration_since_it_was_first_seen() {
    let record = held("a", id(1));
    let mut observed = ObservedRecord::default();
    let mut claim = |millis, record: &ElectionRecord| {
        observed.claim(at(millis), Some(record), id(2), Duration::from_secs(1))
    };
    assert_eq!(claim(5_000, &record), RecordClaim::Held);
    assert_eq!(claim(19_999, &record), RecordClaim::Held);
    let renewed = record.renewed(LEASE, "t1");
    assert_eq!(claim(20_000, &renewed), RecordClaim::Held);
    assert_eq!(claim(34_999, &renewed), RecordClaim::Held);
    assert_eq!(claim(35_000, &renewed), RecordClaim::Free);
}

#[test]
fn a_record_without_a_holder_is_free_at_once_and_its_epoch_counts_on() {
    let mut observed = ObservedRecord::default();
    let released = held("a", id(1)).released("t2");
    assert_eq!(
        observed.claim(at(0), Some(&released), id(2), LEASE),
        RecordClaim::Free
    );
    assert_eq!(observed.next_epoch(UnixMillis::new(7)), Epoch::new(101));
    assert_eq!(released.holding.duration, Some(Duration::from_secs(1)));
    assert_eq!(observed.claim(at(0), None, id(2), LEASE), RecordClaim::Free);
}

#[test]
fn a_deleted_record_counts_until_it_would_have_expired() {
    let mut observed = ObservedRecord::default();
    let record = held("a", id(1));
    assert_eq!(
        observed.claim(at(0), Some(&record), id(2), LEASE),
        RecordClaim::Held
    );
    assert_eq!(
        observed.claim(at(14_999), None, id(2), LEASE),
        RecordClaim::Held
    );
    assert_eq!(
        observed.claim(at(15_000), None, id(2), LEASE),
        RecordClaim::Free
    );
    assert_eq!(observed.next_epoch(UnixMillis::new(7)), Epoch::new(101));
}

#[test]
fn a_candidate_with_the_same_name_and_another_lease_id_does_not_own_the_record() {
    let mut observed = ObservedRecord::default();
    let record = held("a", id(1));
    assert_eq!(
        observed.claim(at(0), Some(&record), id(1), LEASE),
        RecordClaim::Own(epoch(100))
    );
    assert_eq!(
        observed.claim(at(0), Some(&record), id(2), LEASE),
        RecordClaim::Held
    );
}

#[test]
fn a_term_is_over_when_another_program_has_taken_the_record_even_under_the_same_name() {
    let record = held("a", id(1));
    for taken in [
        taken_by_another(&record, "b", 0),
        taken_by_another(&record, "a", 1),
    ] {
        assert_eq!(taken.epoch_of(id(1)), None);
        assert_eq!(taken.leader(), None);
    }
    assert_eq!(record.leader(), Some((&name("a"), epoch(100))));
}

#[test]
fn an_epoch_is_greater_than_all_that_were_seen_than_the_transitions_and_than_the_wall_clock() {
    let next = |record: &ElectionRecord, wall| {
        let mut observed = ObservedRecord::default();
        observed.observe(at(0), record);
        observed.next_epoch(UnixMillis::new(wall)).map(Epoch::get)
    };
    let mut record = held("a", id(1));
    assert_eq!(next(&record, 7), Some(101));
    assert_eq!(next(&record, 5_000), Some(5_000));
    // A program that writes only what it knows removes the epoch.
    record.epoch = None;
    record.holding.transitions = 200;
    assert_eq!(next(&record, 7), Some(201));

    let mut observed = ObservedRecord::default();
    observed.observe(at(0), &held("a", id(1)));
    let without = ElectionRecord {
        epoch: None,
        ..held("a", id(1))
    };
    observed.observe(at(1), &without);
    assert_eq!(observed.next_epoch(UnixMillis::new(7)), Epoch::new(101));
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
        assert_eq!(record.epoch_of(id(2)), Some(epoch(200)));
    }
}

/// A step of one of three candidates in the model, after a pause of some ticks.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Reads the record; the answer is used later.
    Read,
    /// Writes by the version that was read last, if the claim allows it.
    Write,
    /// Renews by the version of the last own write.
    Renew,
    Release,
}

#[derive(Default)]
struct Actor {
    observed: ObservedRecord,
    read: Option<(usize, ElectionRecord)>,
    held: Option<usize>,
    sent: u64,
}

/// The versions of a record, and the time until which the last holder may rely on it.
fn run(steps: &[(usize, u64, Step)]) {
    const TICKS: Duration = Duration::from_millis(10);
    let mut versions: Vec<ElectionRecord> = [ElectionRecord::default()].into();
    let mut actors: [Actor; 3] = Default::default();
    let (mut now, mut epochs) = (0, Vec::new());
    let mut relied: BTreeMap<usize, u64> = BTreeMap::new();
    for (index, pause, step) in steps {
        now += pause;
        let wall = format!("{now}");
        let (lease_id, candidate) = (id(*index as u64 + 1), name(&format!("c{index}")));
        let newest = versions.len() - 1;
        let actor = &mut actors[*index];
        match step {
            Step::Read => {
                // A request that was sent now; its answer arrives with the next step.
                actor.sent = now;
                actor.read = Some((newest, versions[newest].clone()));
            }
            Step::Write => {
                let Some((version, record)) = actor.read.take() else {
                    continue;
                };
                let claim = actor
                    .observed
                    .claim(at(now), Some(&record), lease_id, TICKS);
                if claim == RecordClaim::Held || version != newest {
                    continue;
                }
                for (other, until) in &relied {
                    let released = versions[newest].holding.holder.is_none();
                    assert!(
                        other == index || released || *until <= now,
                        "{candidate} took at {now} what c{other} holds until {until}"
                    );
                }
                let grant = match claim {
                    RecordClaim::Own(_) => record.renewed(TICKS, &wall),
                    _ => {
                        // The wall clock stands still, so only the record makes epochs increase.
                        let epoch = actor.observed.next_epoch(UnixMillis::new(0)).unwrap();
                        epochs.push(epoch);
                        let by = (&candidate, lease_id);
                        ElectionRecord::granted(Some(&record), by, epoch, TICKS, &wall)
                    }
                };
                versions.push(grant);
                actor.held = Some(versions.len() - 1);
                relied.retain(|other, _| other == index);
                relied.insert(*index, actor.sent + 10);
            }
            Step::Renew | Step::Release if actor.held == Some(newest) => {
                let next = match step {
                    Step::Renew => versions[newest].renewed(TICKS, &wall),
                    _ => versions[newest].released(&wall),
                };
                versions.push(next);
                let renews = matches!(step, Step::Renew);
                actor.held = renews.then_some(versions.len() - 1);
                if renews {
                    relied.insert(*index, now + 10);
                } else {
                    relied.remove(index);
                }
            }
            Step::Renew | Step::Release => {}
        }
    }
    assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn candidates_that_judge_a_record_never_hold_it_together_and_epochs_increase(
        steps in proptest::collection::vec(
            (0..3_usize, 0..6_u64, prop_oneof![
                Just(Step::Read), Just(Step::Write), Just(Step::Write), Just(Step::Renew),
                Just(Step::Release),
            ]),
            1..120,
        ),
    ) {
        run(&steps);
    }
}
