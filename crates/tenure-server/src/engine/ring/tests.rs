//! The values of slots, files, replicas, and the log over a home in memory.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::FutureExt as _;
use tenure_core::ownership::{
    AppendOutcome, Found, HomeId, Observation, OwnerId, Ownership, OwnershipOutput,
    OwnershipTimings, Refusal, Tail, TailState,
};
use tenure_core::ring::{Base, Checksum, Entry as RingEntry, FileId};
use tenure_core::{Instant, Random as _, UnixMillis};
use tenure_register::memory::MemoryHome;
use tenure_register::{Failure, MOST_BYTES, Read, Register as _, RegisterKey};

use super::files::{FileKind, key};
use super::log::Appended;
use super::slot::BadSlot;
use super::*;
use crate::engine::Batch;
use crate::engine::entry::Position;
use crate::engine::entry::{put, put_frame};
use crate::engine::replica::Replica;
use crate::engine::tests::{alone, batches, delete};
use crate::model::{ChangeSet, HistoryLimits};
use crate::random::OsRandom;

/// Returns the outcome of work over a home in memory, which does not wait.
fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("an answer")
}

fn about() -> About {
    About {
        store: "a1".repeat(16).try_into().unwrap(),
        home: "memory/0, here".into(),
        server: "store-1".into(),
        address: "http://store-1".into(),
        since: UnixMillis::new(7),
        successor: None,
        is_guarded: false,
    }
}

fn draft(batch: &Batch) -> Draft<'_> {
    Draft {
        about: about(),
        note: None,
        batch: Cow::Borrowed(batch),
    }
}

fn tail(sequence: u64, state: TailState) -> Tail {
    Tail {
        home: HomeId(u128::MAX - 1),
        generation: 3,
        sequence,
        undone: 2,
        state,
        owner: OwnerId(9),
        ownership: Duration::from_millis(3_001),
    }
}

/// Returns a value of each form.
fn values() -> impl Iterator<Item = SlotValue> {
    let states = [
        TailState::Owned,
        TailState::Vacant,
        TailState::Restoring,
        TailState::Retired,
    ];
    states.into_iter().zip(1_000..).map(|(state, sequence)| {
        let header = RingEntry {
            header: tail(sequence, state),
            previous: sequence.is_multiple_of(2).then_some(Checksum(u128::MAX)),
            base: sequence.is_multiple_of(3).then_some(Base {
                newest: FileId(5),
                covered: 900,
            }),
        };
        let mut batch = Batch::default();
        batch.encode(6, &[alone(delete(7, 1, 5))]);
        let mut draft = draft(&batch);
        draft.about.successor = (state == TailState::Vacant).then(|| "store-2".into());
        draft.about.is_guarded = sequence.is_multiple_of(2);
        draft.note = (state == TailState::Vacant).then(|| "recovered in \"b\"".into());
        let before = Position {
            sequence: sequence - 1,
            checksum: 77,
        };
        SlotValue::new(&header, draft, Some(before))
    })
}

#[test]
fn the_value_of_a_slot_is_read_as_it_was_written_and_no_other_one_is() {
    for value in values() {
        let bytes = value.encode();
        assert!(bytes.len() < 500, "{}", bytes.len());
        assert_eq!(SlotValue::decode(&bytes), Ok(value));
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1 << (at % 8);
            assert_eq!(SlotValue::decode(&changed), Err(BadSlot::NotValid), "{at}");
            let cut = SlotValue::decode(&bytes[..at]);
            assert_eq!(cut, Err(BadSlot::NotValid), "{at} bytes");
        }
    }
}

#[test]
fn a_value_of_a_later_format_is_told_from_damage() {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, 0, |to| put(to, &(2_u32, "something else")));
    let bad = SlotValue::decode(&bytes).unwrap_err();
    assert_eq!(bad, BadSlot::Newer(2));
    assert_eq!(bad.refusal(9), Refusal::NewerFormat { found: 2 });
    assert_eq!(
        BadSlot::NotValid.refusal(9),
        Refusal::SlotDamaged { slot: 9 }
    );
}

/// Returns bytes that can't be compressed.
fn noise(len: usize) -> Vec<u8> {
    let words = std::iter::repeat_with(|| OsRandom.next_u64().to_le_bytes());
    words.take(len / 8).flatten().collect()
}

fn files(home: &MemoryHome) -> LogFiles {
    LogFiles::new(Arc::new(home.clone()), &key("log"))
}

/// The entries with these numbers, of about this size.
fn entries(numbers: std::ops::Range<u64>, len: usize) -> Vec<(Position, Bytes)> {
    let position = |sequence| Position {
        sequence,
        checksum: 0,
    };
    numbers
        .map(|it| (position(it), noise(len).into()))
        .collect()
}

#[test]
fn a_base_is_read_in_the_order_in_which_it_was_made_and_from_a_known_entry_on() {
    let home = MemoryHome::default();
    let files = files(&home);
    let snapshot = Bytes::from(noise(2_500_000));
    let (_, first) = now(files.write_snapshot(snapshot.clone(), 100)).unwrap();
    assert_eq!((first.names.len(), first.snapshot_bytes), (3, 2_500_000));
    let more = [entries(101..120, 100), entries(120..130, 200_000)];
    let (_, second) = now(files.write_segment(&first, &more[0])).unwrap();
    assert_eq!(second.names.len(), 4);
    // A file has as many entries as fit.
    let (base, third) = now(files.write_segment(&second, &more[1])).unwrap();
    assert_eq!((base.covered, third.names.len()), (129, 7));
    assert!((2_000_000..2_100_000).contains(&third.segment_bytes));

    let all = now(files.read_base(base, 0)).unwrap();
    let names: Vec<_> = all.iter().map(|it| it.name).collect();
    assert_eq!(names, third.names);
    let of_kind = |kind| all.iter().filter(move |it| it.kind == kind);
    let read: Vec<u8> = of_kind(FileKind::Snapshot)
        .flat_map(|it| it.content.to_vec())
        .collect();
    assert!(read == snapshot, "the parts of the snapshot");
    let read = of_kind(FileKind::Segment).flat_map(|it| it.entries());
    let read: Vec<_> = read.map(|it| it.unwrap().to_vec()).collect();
    let written = more.iter().flatten().map(|(_, it)| it.to_vec());
    assert!(read == written.collect::<Vec<_>>(), "the entries");
    for (known, count) in [(99, 7), (100, 4), (119, 3), (125, 2), (129, 1)] {
        assert_eq!(
            now(files.read_base(base, known)).unwrap().len(),
            count,
            "{known}"
        );
    }
    let mut listed = now(files.list()).unwrap();
    let mut names = third.names.clone();
    listed.sort_by_key(|it| it.id);
    names.sort_by_key(|it| it.id);
    assert_eq!(listed, names);
}

#[test]
fn a_damaged_or_missing_file_is_named_and_nothing_else_of_it_is_used() {
    let home = MemoryHome::default();
    let files = files(&home);
    let (_, first) = now(files.write_snapshot(noise(80).into(), 7)).unwrap();
    let (base, all) = now(files.write_segment(&first, &entries(8..10, 32))).unwrap();
    for name in &all.names {
        let key = files.key(*name);
        let whole = now(home.read_file(&key)).unwrap().unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.to_vec();
            changed[at] ^= 1 << (at % 8);
            for bytes in [changed, whole[..at].to_vec()] {
                now(home.write(&key, bytes.into())).unwrap();
                let error = now(files.read_base(base, 0)).unwrap_err();
                let BaseError::Damaged(text) = &error else {
                    panic!("{error:?}")
                };
                assert!(
                    text.starts_with(&format!("{key} is damaged: its ")),
                    "{text}"
                );
            }
        }
        now(home.delete(std::slice::from_ref(&key))).unwrap();
        let error = now(files.read_base(base, 0)).unwrap_err();
        assert_eq!(error.to_string(), format!("{key} is missing"));
        now(home.write(&key, whole)).unwrap();
    }
    now(files.read_base(base, 0)).unwrap();
}

/// The entries that these batches make.
fn chain(batches: &[Vec<ChangeSet>], revision: u64) -> Vec<Bytes> {
    let (mut before, mut previous, mut batch) = (None, revision, Batch::default());
    let entries = batches.iter().zip(1..).map(|(sets, sequence)| {
        batch.encode(previous, sets);
        previous = batch.revision;
        let header = RingEntry {
            header: tail(sequence, TailState::Owned),
            previous: None,
            base: None,
        };
        let value = SlotValue::new(&header, draft(&batch), before);
        before = Some(value.position);
        value.entry
    });
    entries.collect()
}

const HISTORY: HistoryLimits = HistoryLimits {
    of_lease: 5,
    in_all: 100,
};

/// Everything that a store gets from a replica.
fn content(replica: &mut Replica) -> String {
    let loaded = replica.loaded().unwrap();
    let keys = loaded.leases.iter().map(|(key, ..)| key);
    let terms = |key| loaded.history.terms(key).cloned().collect::<Vec<_>>();
    let terms: Vec<_> = keys.map(terms).collect();
    let (leases, deleted, floors) = (&loaded.leases, &loaded.deleted, &loaded.floors);
    let rest = (
        &loaded.documents,
        loaded.revision,
        loaded.is_guarded,
        &loaded.store_id,
    );
    format!("{leases:?} {deleted:?} {floors:?} {terms:?} {rest:?}")
}

#[test]
fn a_replica_is_the_same_after_a_snapshot_at_any_entry() {
    let (batches, _) = batches(20, 6..400);
    let entries = chain(&batches, 5);
    let mut whole = Replica::empty(HISTORY);
    whole.note(&about().store, true);
    entries.iter().for_each(|it| whole.apply(it).unwrap());
    let expected = content(&mut whole);
    for at in (0..=entries.len()).step_by(17) {
        let mut replica = Replica::empty(HISTORY);
        replica.note(&about().store, true);
        entries[..at]
            .iter()
            .for_each(|it| replica.apply(it).unwrap());
        let snapshot = replica.snapshot().unwrap();
        let mut read = Replica::read("a file", snapshot.to_vec(), HISTORY).unwrap();
        assert_eq!(read.at, replica.at);
        // An entry that the snapshot has is left out.
        entries.iter().for_each(|it| read.apply(it).unwrap());
        assert_eq!(content(&mut read), expected, "{at}");
        assert_eq!(read.at, whole.at);
    }
}

#[test]
fn a_replica_takes_only_the_next_entry_of_its_chain() {
    let (batches, _) = batches(5, 6..60);
    let entries = chain(&batches, 5);
    let mut replica = Replica::empty(HISTORY);
    replica.apply(&entries[0]).unwrap();
    let before = content(&mut replica);
    let error = replica.apply(&entries[2]).unwrap_err();
    assert_eq!(error, "entry 3 does not follow entry 1");
    // The second entry of another chain.
    let other = chain(
        &[vec![alone(delete(6, 9, 9))], vec![alone(delete(7, 9, 9))]],
        5,
    );
    let error = replica.apply(&other[1]).unwrap_err();
    assert_eq!(error, "entry 2 does not follow entry 1");
    assert!(replica.apply(b"hello").is_err());
    assert_eq!(content(&mut replica), before);
    replica.apply(&entries[1]).unwrap();
}

/// A server over a log in memory.
struct Node {
    home: MemoryHome,
    log: RingLog,
    machine: Ownership,
    revision: u64,
}

const T: Duration = Duration::from_secs(3);

impl Node {
    fn new(home: &MemoryHome, owner: u128) -> Self {
        let viewer = Box::new(|value: &SlotValue| value.tail.state);
        let files = Arc::new(home.clone());
        let timings = OwnershipTimings::new(T).unwrap();
        Self {
            home: home.clone(),
            log: RingLog::new(files, &key("log"), "here".into(), viewer, timings.poll()),
            machine: Ownership::new(timings, OwnerId(owner), Instant::default()),
            revision: 5,
        }
    }

    fn look(&mut self) -> Observation {
        now(self.log.look()).unwrap()
    }

    fn home(&mut self) -> HomeId {
        self.look().home
    }

    /// Takes an empty log over.
    fn begin(&mut self) {
        assert_eq!(self.machine.poll_output(), Some(OwnershipOutput::Look));
        let seen = self.look();
        assert_eq!(seen.found, Found::Empty);
        let look = tenure_core::ownership::Look::Found(seen);
        self.machine.handle_tail(Instant::default(), look);
        let Some(OwnershipOutput::Append(header)) = self.machine.poll_output() else {
            panic!("no take-over")
        };
        let batch = Batch {
            previous: 5,
            revision: 5,
            changes: Vec::new(),
        };
        assert_eq!(self.send(header, &batch).outcome, AppendOutcome::Committed);
        self.machine.handle_loaded(Instant::default(), 1);
    }

    fn send(&mut self, header: Tail, batch: &Batch) -> Appended {
        let (log, machine) = (&mut self.log, &mut self.machine);
        now(log.append(machine, Instant::default, header, draft(batch), None))
    }

    /// Appends a change with this number of bytes.
    fn append(&mut self, len: usize) -> Appended {
        let header = self.machine.append(Instant::default()).expect("the owner");
        let batch = Batch {
            previous: self.revision,
            revision: self.revision + 1,
            changes: noise(len),
        };
        let appended = self.send(header, &batch);
        if appended.outcome == AppendOutcome::Committed {
            self.revision += 1;
        }
        appended
    }

    fn slot(&self, slot: u64) -> Option<Bytes> {
        let key: RegisterKey = key(&format!("log/slot-{slot}"));
        match now(self.home.read(&key, None)).unwrap() {
            Read::Found { value, .. } => Some(value),
            _ => None,
        }
    }
}

#[test]
fn an_append_of_unknown_outcome_is_sent_again_with_exactly_the_same_bytes() {
    let home = MemoryHome::default();
    let mut owner = Node::new(&home, 1);
    owner.begin();
    home.delay_next();
    let header = owner.machine.append(Instant::default()).unwrap();
    let batch = |revision, len| Batch {
        previous: 5,
        revision,
        changes: noise(len),
    };
    assert_eq!(
        owner.send(header, &batch(6, 40)).outcome,
        AppendOutcome::Unknown
    );
    assert_eq!(home.deliver(), Some(true));
    let written = owner.slot(2);
    // Another content is not taken.
    assert_eq!(
        owner.send(header, &batch(7, 80)).outcome,
        AppendOutcome::Committed
    );
    assert_eq!(owner.slot(2), written);
    let tail = owner.log.tail().unwrap();
    assert_eq!((Some(tail.encode()), tail.revision), (written, 6));
}

#[test]
fn an_entry_that_no_segment_can_have_is_refused_and_the_log_goes_on() {
    let home = MemoryHome::default();
    let mut owner = Node::new(&home, 1);
    owner.begin();
    let refused = owner.append(MOST_BYTES - 50 * 1024);
    assert_eq!(refused.outcome, AppendOutcome::Refused);
    let Some(Failure::NotApplied(text)) = refused.failure else {
        panic!("{:?}", refused.failure)
    };
    assert!(
        text.ends_with("bytes, and an entry of the log at most 950272"),
        "{text}"
    );
    assert_eq!(owner.slot(2), None);
    // The greatest one can be put into a segment.
    assert_eq!(owner.append(900 * 1024).outcome, AppendOutcome::Committed);
    assert_eq!(owner.append(10).outcome, AppendOutcome::Committed);
    let value = SlotValue::decode(&owner.slot(2).unwrap()).unwrap();
    let entries = [(value.position, value.entry)];
    let (_, before) = now(owner.log.files.write_snapshot(noise(8).into(), 1)).unwrap();
    now(owner.log.files.write_segment(&before, &entries)).unwrap();
}

#[test]
fn a_follower_reads_many_entries_at_once_and_all_slots_when_a_round_has_passed() {
    let home = MemoryHome::default();
    let mut owner = Node::new(&home, 1);
    let mut follower = Node::new(&home, 2);
    assert_eq!(follower.look().found, Found::Empty);
    owner.begin();
    let tails = |node: &Node| node.log.tail().map(|it| it.tail);
    for count in [1, 3, 31, 33, 180] {
        (0..count).for_each(|_| drop(owner.append(10)));
        assert_eq!(follower.look().found, Found::Tail(tails(&owner).unwrap()));
        assert_eq!(tails(&follower), tails(&owner));
    }
    assert!(
        owner.log.rules().needs_base(None)
            || owner.log.rules().pressure() > tenure_core::ring::Pressure::Low
    );
}

#[test]
fn a_version_is_named_only_at_the_home_that_has_shown_it() {
    let home = MemoryHome::default();
    let mut owner = Node::new(&home, 1);
    owner.begin();
    drop(owner.append(10));
    let mut follower = Node::new(&home, 2);
    let before = follower.home();
    let tail = follower.log.tail().unwrap().tail;
    home.promote(0);
    for _ in 0..3 {
        let seen = follower.look();
        assert_eq!(seen.found, Found::Tail(tail));
        assert_ne!(seen.home, before);
    }
    // A take-over that was decided before the promotion is not sent.
    let header = Tail {
        generation: 2,
        sequence: tail.sequence + 1,
        owner: OwnerId(2),
        ..tail
    };
    let batch = Batch::default();
    let prepared = now(follower
        .log
        .prepare(Instant::default(), header, draft(&batch), None));
    let (outcome, _) = prepared.unwrap_err();
    assert!(
        matches!(outcome, AppendOutcome::Superseded(_)),
        "{outcome:?}"
    );
    assert_eq!(follower.slot(tail.sequence + 1), None);
}
