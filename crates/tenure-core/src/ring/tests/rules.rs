//! Rules one by one, on a ring of 16 slots.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::Instant;
use crate::ownership::*;

const ENGINE: HomeId = HomeId(7);
const SLOTS: u64 = 16;
const VERIFY: Duration = Duration::from_millis(250);
const LIMITS: RingLimits = RingLimits::new(SLOTS, VERIFY);
const NOW: Instant = Instant::from_nanos(0);

fn header(sequence: u64) -> Tail {
    Tail {
        home: ENGINE,
        generation: 1,
        sequence,
        undone: 0,
        state: TailState::Owned,
        owner: OwnerId(2),
        ownership: Duration::from_secs(3),
    }
}

fn base(covered: u64) -> Option<Base> {
    let newest = FileId(u128::from(covered));
    (covered > 0).then_some(Base { newest, covered })
}

/// Returns an entry whose version and checksum are its sequence.
fn slot(sequence: u64, covered: u64) -> Slot<u64> {
    let checksum = |it| Checksum(u128::from(it));
    Slot {
        version: sequence,
        checksum: checksum(sequence),
        entry: Entry {
            header: header(sequence),
            previous: (sequence > 1).then(|| checksum(sequence - 1)),
            base: base(covered),
        },
    }
}

/// Returns the slots of a log up to this entry.
fn slots(tail: u64, covered: u64) -> Vec<SlotRead<u64>> {
    let mut slots = vec![SlotRead::Absent; SLOTS as usize];
    for sequence in 1..=tail {
        slots[(sequence % SLOTS) as usize] = SlotRead::Found(slot(sequence, covered));
    }
    slots
}

fn loaded(tail: u64, covered: u64) -> LogRing<u64> {
    let mut ring = LogRing::new(LIMITS);
    let seen = ring.load(ENGINE, slots(tail, covered));
    assert_eq!(seen, Loaded::Seen(observation(Found::Tail(header(tail)))));
    ring
}

fn observation(found: Found) -> Observation {
    Observation {
        home: ENGINE,
        found,
    }
}

fn unusable(refusal: Refusal) -> Observation {
    observation(Found::Unusable(refusal))
}

/// Returns the header of a take-over after this entry.
fn take_over(after: u64) -> Tail {
    Tail {
        generation: 2,
        owner: OwnerId(3),
        ..header(after + 1)
    }
}

fn unchanged(count: usize) -> Vec<SlotRead<u64>> {
    vec![SlotRead::Unchanged; count]
}

const SEAL: fn(&Entry) -> Checksum = |it| Checksum(u128::from(it.header.sequence));

#[test]
fn an_owner_acts_at_a_quarter_three_quarters_and_fifteen_sixteenths() {
    let mut ring = LogRing::<u64>::new(RingLimits::new(256, VERIFY));
    let pressures = [
        (63, Pressure::Low),
        (64, Pressure::WriteSegment),
        (191, Pressure::WriteSegment),
        (192, Pressure::RefuseChanges),
        (239, Pressure::RefuseChanges),
        (240, Pressure::Resign),
    ];
    for (sequence, pressure) in pressures {
        ring.accept(slot(sequence, 0));
        assert_eq!(ring.pressure(), pressure, "{sequence}");
        ring.accept(slot(sequence + 100, 100));
        assert_eq!(ring.pressure(), pressure, "{sequence}");
    }
}

#[test]
fn the_last_slots_are_for_take_overs_and_then_a_take_over_names_a_base() {
    for (tail, needs_base) in [(15, false), (16, true)] {
        let mut ring = loaded(tail, 0);
        assert_eq!(ring.needs_base(None), needs_base);
        let read = || unchanged(tail as usize);
        let append = ring.append(NOW, take_over(tail), read(), None, SEAL);
        assert_eq!(append == Err(Blocked::NeedsBase), needs_base);
        if needs_base {
            let covered = ring.begin_base().unwrap();
            let append = ring.append(NOW, take_over(tail), read(), base(covered), SEAL);
            let append = append.unwrap();
            assert_eq!((append.slot, append.expected), (1, Some(1)));
            assert_eq!(append.entry.base, base(tail));
        }
    }
}

#[test]
fn an_entry_names_a_base_only_if_it_contains_more_and_nothing_that_is_not_in_the_log() {
    for (new, named) in [(3, 4), (4, 4), (5, 5), (6, 6), (7, 4)] {
        let append = loaded(6, 4).append(NOW, take_over(6), unchanged(6), base(new), SEAL);
        assert_eq!(append.unwrap().entry.base, base(named), "{new}");
    }
}

#[test]
fn a_file_may_be_deleted_if_the_named_base_contains_as_much_without_it() {
    let named = loaded(6, 4).base().unwrap();
    let is_superseded = |file, covered| {
        let files = [FileId(4), FileId(2)];
        named.supersedes(&files, FileId(file), covered)
    };
    assert!(is_superseded(3, 3) && is_superseded(9, 4));
    assert!(!is_superseded(9, 5), "a server may write it and name it");
    assert!(!is_superseded(2, 2) && !is_superseded(4, 4), "a part");
    let other = [FileId(3), FileId(1)];
    assert!(!named.supersedes(&other, FileId(2), 2), "another base");
}

#[test]
fn a_home_that_lost_its_last_entry_is_refused_before_a_take_over() {
    let mut ring = loaded(20, 10);
    // The slot of entry 21 is as it was.
    let next = SlotRead::Found(slot(5, 0));
    let silence = Followed::Silent(observation(Found::Tail(header(20))));
    assert_eq!(ring.handle_read(ENGINE, next), silence);
    let blocked = |read| {
        let append = loaded(20, 10).append(
            NOW,
            take_over(20),
            [unchanged(14), vec![read]].concat(),
            None,
            SEAL,
        );
        append.err()
    };
    let newer = Blocked::Moved(observation(Found::Tail(header(36))));
    assert_eq!(blocked(SlotRead::Found(slot(36, 30))), Some(newer));
    let older = |sequence| Blocked::Moved(observation(Found::Tail(header(sequence))));
    assert_eq!(blocked(SlotRead::Absent), Some(older(19)));
    assert_eq!(blocked(SlotRead::Found(slot(4, 0))), Some(older(19)));
    let other = Slot {
        checksum: Checksum(99),
        ..slot(20, 10)
    };
    let forked = Blocked::Moved(unusable(Refusal::WentBack {
        known: header(20),
        found: Some(header(20)),
    }));
    assert_eq!(blocked(SlotRead::Found(other)), Some(forked));
    assert_eq!(blocked(SlotRead::Found(slot(20, 10))), None);
    // Entry 19 is lost, and entry 20 was written after that.
    let mut reads = unchanged(15);
    reads[13] = SlotRead::Absent;
    let append = loaded(20, 10).append(NOW, take_over(20), reads, None, SEAL);
    assert_eq!(append, Err(older(18)));
    let unread = ring.append(NOW, take_over(20), vec![], None, SEAL);
    assert_eq!(unread, Err(Blocked::Behind));
}

#[test]
fn an_owner_reads_all_that_it_appended_since_the_last_read() {
    let there = |sequence| SlotRead::Found(slot(sequence, 0));
    let header_of = |ownership: &mut Ownership| ownership.append(NOW).unwrap();
    let (mut ownership, mut ring) = owner();
    let early = NOW + VERIFY.saturating_sub(Duration::from_nanos(1));
    for sequence in 2..=3 {
        let header = header_of(&mut ownership);
        assert!(ring.unverified(early, &header).is_empty());
        ring.append(early, header, vec![], None, SEAL).unwrap();
        let done = SlotReplaced::Done(sequence);
        let _ = ring.handle_replaced(&mut ownership, NOW, ENGINE, done);
    }
    let (header, late) = (header_of(&mut ownership), NOW + VERIFY);
    assert_eq!(ring.unverified(late, &header), 1..4);
    let mut append = |reads: &[_]| ring.append(late, header, reads.to_vec(), None, SEAL).err();
    assert_eq!(append(&[there(1), there(2)]), Some(Blocked::Behind));
    // The home lost entry 2, and then the owner appended entry 3.
    let older = Blocked::Moved(observation(Found::Tail(slot(1, 0).entry.header)));
    let lost = [there(1), SlotRead::Absent, there(3)];
    assert_eq!(append(&lost), Some(older));
    assert_eq!(append(&[there(1), there(2), there(3)]), None);
    assert!(ring.unverified(late, &header).is_empty());
    assert_eq!(ring.unverified(late + VERIFY, &header), 3..4);
    // After a failure the home may have been restored.
    let failed = SlotReplaced::Unknown;
    let _ = ring.handle_replaced(&mut ownership, late, ENGINE, failed);
    assert_eq!(ring.unverified(late, &header), 3..4);
}

#[test]
fn an_entry_that_does_not_follow_the_own_tail_shows_that_the_log_went_back() {
    let went_back = |found| {
        let (known, found) = (header(4), Some(header(found)));
        unusable(Refusal::WentBack { known, found })
    };
    let foreign = Slot {
        entry: Entry {
            previous: Some(Checksum(99)),
            ..slot(5, 0).entry
        },
        ..slot(5, 0)
    };
    let read = loaded(4, 0).handle_read(ENGINE, SlotRead::Found(foreign));
    assert_eq!(read, Followed::Silent(went_back(5)));
    let mut reads = slots(6, 0);
    reads[4] = SlotRead::Found(Slot {
        checksum: Checksum(99),
        ..slot(4, 0)
    });
    let load = loaded(4, 0).load(ENGINE, reads);
    assert_eq!(load, Loaded::Seen(went_back(6)));
}

#[test]
fn a_slot_without_a_value_is_silence_in_the_first_round_and_deleted_after_it() {
    for (tail, refusal) in [(4, None), (20, Some(Refusal::SlotDeleted { slot: 5 }))] {
        let known = observation(Found::Tail(header(tail)));
        let seen = refusal.map_or(known, unusable);
        let read = loaded(tail, 10).handle_read(ENGINE, SlotRead::Absent);
        assert_eq!(read, Followed::Silent(seen));
    }
    let refusal = Refusal::SlotDeleted { slot: 5 };
    assert_eq!(refusal.to_string(), "slot 5 was deleted");
    // Its entry is in the base, so a server that starts has all others.
    let mut reads = slots(20, 10);
    reads[5] = SlotRead::Absent;
    let mut ring = LogRing::new(LIMITS);
    let seen = Loaded::Seen(observation(Found::Tail(header(20))));
    assert_eq!(ring.load(ENGINE, reads), seen);
    let append = ring.append(NOW, take_over(20), unchanged(15), None, SEAL);
    assert_eq!(append, Err(Blocked::Moved(unusable(refusal))));
}

#[test]
fn a_gap_is_read_again_and_is_damage_if_the_log_stood_still() {
    let with_gap = |tail, gap| {
        let mut reads = slots(tail, 10);
        reads[5] = gap;
        reads
    };
    for (gap, refusal) in [
        (SlotRead::Absent, Refusal::SlotDeleted { slot: 5 }),
        (
            SlotRead::Found(slot(5, 0)),
            Refusal::SlotDamaged { slot: 5 },
        ),
    ] {
        let mut ring = LogRing::new(LIMITS);
        for tail in [22, 23] {
            let load = ring.load(ENGINE, with_gap(tail, gap.clone()));
            assert_eq!(load, Loaded::Again);
        }
        let load = ring.load(ENGINE, with_gap(23, gap));
        assert_eq!(load, Loaded::Seen(unusable(refusal)));
        assert_eq!(ring.tail(), None);
    }
    let mut ring = loaded(22, 10);
    assert!(!ring.handle_missing_file());
    ring.load(ENGINE, slots(23, 10));
    assert!(!ring.handle_missing_file() && ring.handle_missing_file());
}

/// Returns a machine that owns the log since entry 1, and its ring.
fn owner() -> (Ownership, LogRing<u64>) {
    let now = Instant::default();
    let timings = OwnershipTimings::new(Duration::from_secs(3)).unwrap();
    let mut ownership = Ownership::new(timings, OwnerId(2), now);
    let mut ring = LogRing::new(LIMITS);
    assert_eq!(ownership.poll_output(), Some(OwnershipOutput::Look));
    let Loaded::Seen(seen) = ring.load(ENGINE, slots(0, 0)) else {
        unreachable!();
    };
    ownership.handle_tail(now, Look::Found(seen));
    let Some(OwnershipOutput::Append(header)) = ownership.poll_output() else {
        unreachable!();
    };
    assert!(ring.append(NOW, header, vec![], None, SEAL).is_ok());
    let outcome = ring.handle_replaced(&mut ownership, now, ENGINE, SlotReplaced::Done(1));
    assert_eq!(outcome, AppendOutcome::Committed);
    ownership.handle_loaded(now, 1);
    assert!(ownership.poll_output().is_some());
    (ownership, ring)
}

#[test]
fn one_outcome_follows_from_each_answer_of_the_home() {
    let own = Slot {
        version: 2,
        ..slot(2, 0)
    };
    let other = Slot {
        entry: Entry {
            header: take_over(1),
            ..slot(2, 0).entry
        },
        ..slot(2, 0)
    };
    for (answer, outcome) in [
        (SlotReplaced::Done(2), AppendOutcome::Committed),
        (
            SlotReplaced::Changed(SlotRead::Found(own)),
            AppendOutcome::Committed,
        ),
        (SlotReplaced::NotApplied, AppendOutcome::Refused),
        (SlotReplaced::Unknown, AppendOutcome::Unknown),
        // The home shows the expected value: the attempt may still be applied.
        (
            SlotReplaced::Changed(SlotRead::Absent),
            AppendOutcome::Unknown,
        ),
        (
            SlotReplaced::Changed(SlotRead::Found(other)),
            AppendOutcome::Superseded(observation(Found::Tail(take_over(1)))),
        ),
    ] {
        let (mut ownership, mut ring) = owner();
        let header = ownership.append(Instant::default()).unwrap();
        let append = ring.append(NOW, header, vec![], None, SEAL).unwrap();
        assert_eq!((append.slot, append.expected), (2, None));
        let now = Instant::default();
        let told = ring.handle_replaced(&mut ownership, now, ENGINE, answer.clone());
        assert_eq!(told, outcome, "{answer:?}");
        let again = ring.append(NOW, header, unchanged(1), base(1), |_| Checksum(99));
        let is_same = again == Ok(append);
        assert_eq!(is_same, outcome == AppendOutcome::Unknown, "{answer:?}");
        let tail = ring.tail().map(|it| it.version);
        let applied = if outcome == AppendOutcome::Committed {
            2
        } else {
            1
        };
        assert_eq!(tail, Some(applied), "{answer:?}");
    }
}

#[test]
fn an_answer_of_another_home_ends_the_ownership_whatever_stands_there() {
    for read in [
        SlotRead::Absent,
        SlotRead::Unchanged,
        SlotRead::Found(slot(2, 0)),
    ] {
        let (mut ownership, mut ring) = owner();
        let header = ownership.append(Instant::default()).unwrap();
        ring.append(NOW, header, vec![], None, SEAL).unwrap();
        let (now, answer) = (Instant::default(), SlotReplaced::Changed(read.clone()));
        let told = ring.handle_replaced(&mut ownership, now, HomeId(8), answer);
        assert!(
            matches!(told, AppendOutcome::Superseded(_)),
            "{read:?}: {told:?}"
        );
        let (written, answering) = (ENGINE, HomeId(8));
        let refusal = Refusal::OtherHome { written, answering };
        assert_eq!(ownership.refusal(), Some(refusal), "{read:?}");
    }
}

#[test]
fn an_owner_that_misses_the_slot_of_its_next_entry_resigns_and_takes_nothing_over() {
    let (mut ownership, mut ring) = owner();
    for sequence in 2..=SLOTS {
        let header = ownership.append(Instant::default()).unwrap();
        ring.append(NOW, header, vec![], base(sequence - 1), SEAL)
            .unwrap();
        let done = SlotReplaced::Done(sequence);
        let outcome = ring.handle_replaced(&mut ownership, Instant::default(), ENGINE, done);
        assert_eq!(outcome, AppendOutcome::Committed);
    }
    let header = ownership.append(Instant::default()).unwrap();
    let append = ring.append(NOW, header, vec![], None, SEAL).unwrap();
    assert_eq!((append.slot, append.expected), (1, Some(1)));
    let absent = SlotReplaced::Changed(SlotRead::Absent);
    let outcome = ring.handle_replaced(&mut ownership, Instant::default(), ENGINE, absent);
    assert!(matches!(outcome, AppendOutcome::Superseded(_)));
    let refusal = Refusal::SlotDeleted { slot: 1 };
    assert_eq!(ownership.refusal(), Some(refusal));
    assert_eq!(ownership.role(Instant::default()), OwnershipRole::Refusing);
}
