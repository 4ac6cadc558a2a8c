//! Batches are read as they were written, and applied after any kind of crash.

use std::time::Duration;

use tenure_core::lease::{
    Acquire, LeaseDuration, LeaseId, Metadata, Operation, Record, Rules, Stored, TermEnd,
    WithoutStore, apply,
};
use tenure_core::{Instant, UnixMillis};

use super::*;
use crate::engine::Loaded;
use crate::model::{Cause, Deleted, LeaseVersion};

const NOW: Instant = Instant::from_nanos(0);

fn id(number: u64) -> LeaseId {
    LeaseId::from_random_bits(0, number)
}

/// Returns a lease with these retired ids.
fn stored(retired: &[u64]) -> Stored {
    let request = Acquire {
        lease_id: id(1_000),
        holder: "a".parse().unwrap(),
        duration: LeaseDuration::Infinite,
        lock_delay: Duration::ZERO,
        min_epoch: None,
        by_operator: false,
        metadata: Metadata::new(),
    };
    let mut record = Record::default();
    let acquire = Operation::Acquire(request, UnixMillis::new(7));
    apply(&mut record, &acquire, NOW, &Rules::NATIVE).unwrap();
    Stored {
        retired: retired.iter().copied().map(id).collect(),
        ..record.store(NOW)
    }
}

fn change(revision: u64, content: Content) -> LeaseChange {
    LeaseChange {
        key: LeaseKey::of_text("ns/job"),
        revision,
        content,
        term: None,
        cause: Cause::Deleted,
        grant_path: None,
        waiters: 0,
        remaining_ms: None,
        trace: None,
    }
}

/// Returns a change of the lease. `before` is the earlier revision of the lease, with its retired
/// ids.
fn set(before: Option<(u64, &[u64])>, revision: u64, after: &[u64]) -> ChangeSet {
    let before = before.map_or_else(LeaseVersion::default, |(revision, ids)| LeaseVersion {
        record: Record::restore(stored(ids), NOW),
        revision,
        terms: 0,
    });
    ChangeSet {
        before,
        changes: vec![change(revision, Content::Lease(stored(after).into()))],
        ..ChangeSet::default()
    }
}

fn batch(previous: u64, sets: &[ChangeSet]) -> Batch {
    let mut batch = Batch::default();
    batch.encode(previous, sets);
    batch
}

/// Returns three batches. Their retired ids are 1 2 3, then 2 3 4, then 3 4 5. All but the first
/// batch have a delta.
fn three() -> [Batch; 3] {
    [
        batch(10, &[set(None, 11, &[1, 2, 3])]),
        batch(11, &[set(Some((11, &[1, 2, 3])), 12, &[2, 3, 4])]),
        batch(12, &[set(Some((12, &[2, 3, 4])), 13, &[3, 4, 5])]),
    ]
}

/// Applies batches to a lease as of revision 10. Returns the lease.
fn applied(
    batches: &[Batch],
    before: Option<(u64, &[u64])>,
) -> Result<Option<(Stored, u64)>, String> {
    let (mut content, mut leases) = (Loaded::<()>::default(), ChangedLeases::new());
    content.revision = batches[0].previous;
    for batch in batches {
        content.apply(batch, &mut leases)?;
    }
    let (key, change) = leases.pop_first().unwrap();
    let before = before.map(|(revision, ids)| {
        let (mut bytes, stored) = (Vec::new(), stored(ids));
        put(
            &mut bytes,
            &columns(&key, &stored, &stored.retired, revision),
        );
        bytes
    });
    let after = change.finish(before.as_deref())?;
    let after = after.map(|bytes| decode(&mut Columns(&bytes)).unwrap());
    Ok(after.map(|(_, stored, revision)| (stored, revision)))
}

#[test]
fn deltas_are_applied_to_the_list_that_they_follow() {
    let last = Ok(Some((stored(&[3, 4, 5]), 13)));
    assert_eq!(applied(&three(), None), last);
    assert_eq!(applied(&three()[1..], Some((11, &[1, 2, 3]))), last);
    assert_eq!(applied(&three()[2..], Some((12, &[2, 3, 4]))), last);
}

#[test]
fn a_delta_that_does_not_follow_the_lease_is_an_error() {
    let error = applied(&three()[1..], Some((9, &[1, 2]))).unwrap_err();
    assert!(error.contains("follows revision 11"), "{error}");
    assert!(applied(&three()[1..], None).is_err());
}

#[test]
fn a_missing_batch_is_an_error() {
    let [first, _, third] = three();
    let error = applied(&[first, third], None).unwrap_err();
    assert!(error.contains("after revision 11 are missing"), "{error}");
}

#[test]
fn a_lease_that_is_deleted_and_created_again_has_its_last_state() {
    let gone = Deleted {
        last: Epoch::new(9),
        retired: vec![id(4)],
    };
    let deletion = |revision| ChangeSet {
        changes: vec![change(revision, Content::Deleted(gone.clone()))],
        ..set(Some((12, &[2, 3, 4])), revision, &[])
    };
    let [first, second, _] = three();
    let deleted = [second.clone(), batch(12, &[deletion(13)])];
    assert_eq!(applied(&deleted, Some((11, &[1, 2, 3]))), Ok(None));
    let again = batch(13, &[set(None, 14, &[4])]);
    let delta = batch(14, &[set(Some((14, &[4])), 15, &[4, 5])]);
    let all = [first, second, batch(12, &[deletion(13)]), again, delta];
    assert_eq!(applied(&all, None), Ok(Some((stored(&[4, 5]), 15))));
    let (mut content, mut leases) = (Loaded::<()>::default(), ChangedLeases::new());
    content.revision = 10;
    for batch in &all {
        content.apply(batch, &mut leases).unwrap();
    }
    assert_eq!(content.floors.of_new("ns"), Epoch::new(9));
    assert_eq!(content.deleted.len(), 1);
}

#[test]
fn documents_are_read_as_they_were_written() {
    let change = |name: &str, revision, content: Option<&'static [u8]>| DocumentChange {
        name: name.into(),
        revision,
        content: content.map(Bytes::from_static),
    };
    let documents = |documents| ChangeSet {
        documents,
        ..ChangeSet::default()
    };
    let both = documents(vec![
        change("a", 11, Some(b"1")),
        change("b", 12, Some(b"")),
    ]);
    let gone = documents(vec![change("a", 13, None)]);
    let (mut content, mut leases) = (Loaded::<()>::default(), ChangedLeases::new());
    content.revision = 10;
    content.apply(&batch(10, &[both]), &mut leases).unwrap();
    assert_eq!(content.documents["a"].content, b"1".as_slice());
    content.apply(&batch(12, &[gone]), &mut leases).unwrap();
    let names: Vec<_> = content.documents.keys().map(String::as_str).collect();
    assert_eq!((names, content.revision), (vec!["b"], 13));
}

#[test]
fn floors_that_an_operator_raises_replace_those_before() {
    let (mut content, mut leases) = (Loaded::<()>::default(), ChangedLeases::new());
    content.revision = 10;
    let mut raised = Floors::default();
    raised.raise("ns", Epoch::new(9));
    let batch = Batch::of_floors(10, 500, &raised);
    content.apply(&batch, &mut leases).unwrap();
    assert_eq!((content.floors, content.revision), (raised, 500));
}

#[test]
fn changes_are_read_as_they_were_written() {
    let term = TermRecord {
        epoch: Epoch::new(7).unwrap(),
        holder: "a".parse().unwrap(),
        owner: None,
        began_at: UnixMillis::new(7),
        ended: Some((TermEnd::Released, UnixMillis::new(9))),
        reason: None,
        without_store: Some(Box::new(WithoutStore {
            periods: 1,
            from: UnixMillis::new(7),
            to: UnixMillis::new(8),
            total: Duration::from_millis(1),
        })),
    };
    let mut released = set(Some((3, &[1, 2, 3])), 4, &[1, 2, 3, 4]);
    released.changes[0].term = Some(Box::new(term.clone()));
    let granted = change(5, Content::Lease(stored(&[2, 3, 4]).into()));
    released.changes.push(granted);
    let last = Epoch::new(9);
    let retired = vec![id(4)];
    let deleted = change(6, Content::Deleted(Deleted { last, retired }));
    released.changes.push(deleted);
    // A lease that was created again has all its ids.
    let made = change(7, Content::Lease(stored(&[4]).into()));
    released.changes.push(made);

    let batch = batch(3, &[released]);
    assert_eq!((batch.previous, batch.revision), (3, 7));
    let changes = batch.encoded_changes().unwrap().leases;
    let revisions: Vec<u64> = changes.iter().map(|change| change.revision).collect();
    assert_eq!(revisions, [4, 5, 6, 7]);
    let follows = |change: &EncodedChange<'_>| change.delta.as_ref().map(|delta| delta.follows);
    assert_eq!(
        changes.iter().map(follows).collect::<Vec<_>>(),
        [Some(3), Some(4), None, None]
    );
    assert_eq!(changes[0].term, Some(term));
    assert!(changes[1..].iter().all(|change| change.term.is_none()));
    let deleted = changes[2].deleted.as_ref().unwrap();
    assert_eq!((deleted.last, &deleted.retired), (last, &vec![id(4)]));
    let (_, made, _) = decode(&mut Columns(changes[3].lease.unwrap())).unwrap();
    assert_eq!(made.retired, [id(4)]);
}

#[test]
fn a_batch_that_is_not_valid_is_an_error() {
    let [mut batch, ..] = three();
    batch.changes.truncate(batch.changes.len() - 1);
    assert!(batch.encoded_changes().is_err());
}

#[test]
fn equal_changes_are_decompressed_and_a_length_beyond_any_compression_is_refused() {
    let changes = vec![7; 1 << 20];
    let mut bytes = lz4_flex::compress_prepend_size(&changes);
    assert!(bytes.len() < changes.len() / 200, "{}", bytes.len());
    assert_eq!(decompressed(&bytes).as_ref(), Some(&changes));
    bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decompressed(&bytes), None);
}
