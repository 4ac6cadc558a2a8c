//! Batches are read as they were written, and applied after any kind of crash.

use std::time::Duration;

use tenure_core::lease::{
    Grant, LeaseDuration, LeaseId, Metadata, Owner, Record, Stored, StoredState, TermEnd,
    WithoutStore,
};
use tenure_core::{CandidateId, Epoch, Instant, UnixMillis};

use super::*;
use crate::engine::{Loaded, tests};
use crate::model::{Deleted, DocumentChange, LeaseChange, LeaseKey, LeaseVersion, TermRecord};

const NOW: Instant = Instant::from_nanos(0);

fn id(number: u64) -> LeaseId {
    LeaseId::from_random_bits(0, number)
}

/// Returns a lease with these retired ids.
fn stored(retired: &[u64]) -> Stored {
    Stored {
        retired: retired.iter().copied().map(id).collect(),
        ..tests::stored(1)
    }
}

/// Returns a change of the only lease.
fn change(revision: u64, content: Content) -> LeaseChange {
    tests::change(1, revision, content)
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
    let (mut content, mut leases) = (Loaded::default(), ChangedLeases::new());
    content.revision = batches[0].previous;
    for batch in batches {
        content.apply(batch, &mut leases)?;
    }
    let (key, Some(change)) = leases.pop_first().unwrap() else {
        return Ok(None);
    };
    let before = before.map(|(revision, ids)| EncodedLease::new(&stored(ids), &[], revision));
    let (_, stored, revision) = change.after(before.as_ref())?.decode(&key)?;
    Ok(Some((stored, revision)))
}

#[test]
fn the_retired_ids_that_a_change_keeps_come_from_the_change_before() {
    let last = Ok(Some((stored(&[3, 4, 5]), 13)));
    assert_eq!(applied(&three(), None), last);
    assert_eq!(applied(&three()[1..], Some((11, &[1, 2, 3]))), last);
    assert_eq!(applied(&three()[2..], Some((12, &[2, 3, 4]))), last);
}

#[test]
fn a_change_that_keeps_ids_which_the_lease_does_not_have_is_an_error() {
    let error = applied(&three()[1..], Some((11, &[]))).unwrap_err();
    assert!(error.contains("more retired ids"), "{error}");
    let error = applied(&three()[1..], None).unwrap_err();
    assert!(error.contains("is missing"), "{error}");
}

#[test]
fn a_change_adds_only_the_new_retired_ids_if_the_others_stay_at_the_end() {
    let lists: [&[u64]; 7] = [
        &[],
        &[1, 2, 3, 4],
        &[1, 2, 3, 4, 5],
        &[2, 3, 4, 5],
        &[2, 4, 5, 3],
        &[3, 4, 5, 2],
        &[9, 8, 7],
    ];
    let ids = |ids: &[u64]| ids.iter().copied().map(id).collect::<Vec<_>>();
    for first in lists {
        let whole = EncodedLease::new(&stored(first), &[], 1);
        for second in lists {
            let change = EncodedLease::new(&stored(second), &ids(first), 2);
            let after = change.after(Some(&whole)).unwrap();
            let key = LeaseKey::of_text("ns/job-1");
            assert_eq!(after.decode(&key).unwrap().1, stored(second));
            for third in lists {
                let next = EncodedLease::new(&stored(third), &ids(second), 3);
                let both = next.after(Some(&change)).unwrap();
                let both = both.after(Some(&whole)).unwrap();
                assert_eq!(both.decode(&key).unwrap().1, stored(third));
            }
        }
    }
    let size = |before: &[u64], after: &[u64]| {
        let mut bytes = Vec::new();
        put(
            &mut bytes,
            &EncodedLease::new(&stored(after), &ids(before), 2),
        );
        bytes.len()
    };
    let many: Vec<u64> = (0..32).collect();
    assert!(size(&many, &[&many[1..], &[32]].concat()) < size(&[], &[32]) + 16);
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
    let (mut content, mut leases) = (Loaded::default(), ChangedLeases::new());
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
    let (mut content, mut leases) = (Loaded::default(), ChangedLeases::new());
    content.revision = 10;
    content.apply(&batch(10, &[both]), &mut leases).unwrap();
    assert_eq!(content.documents["a"].content, b"1".as_slice());
    content.apply(&batch(12, &[gone]), &mut leases).unwrap();
    let names: Vec<_> = content.documents.keys().map(String::as_str).collect();
    assert_eq!((names, content.revision), (vec!["b"], 13));
}

#[test]
fn floors_that_an_operator_raises_replace_those_before() {
    let (mut content, mut leases) = (Loaded::default(), ChangedLeases::new());
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
    let items: Vec<_> = Item::all(&batch.changes).collect::<Result<_, _>>().unwrap();
    let [
        Item::Lease("ns/job-1", released),
        Item::Term("ns/job-1", ended),
        Item::Lease("ns/job-1", granted),
        Item::Deleted("ns/job-1", deleted),
        Item::Lease("ns/job-1", made),
    ] = items.as_slice()
    else {
        panic!("{items:?}")
    };
    let key = LeaseKey::of_text("ns/job-1");
    let revisions = [released, granted, made].map(|it| it.decode(&key).unwrap().2);
    assert_eq!(revisions, [4, 5, 7]);
    assert_eq!(ended.as_ref(), &term);
    assert_eq!((deleted.last, &deleted.retired), (last, &vec![id(4)]));
    assert_eq!(released.decode(&key).unwrap().1.retired, [id(4)]);
    assert_eq!(made.decode(&key).unwrap().1.retired, [id(4)]);
}

#[test]
fn a_lease_is_decoded_as_it_was_encoded() {
    let holder: CandidateId = "a-1".parse().unwrap();
    let states = [
        StoredState::Available,
        StoredState::Leased,
        StoredState::Breaking(Duration::from_nanos(5_000_001)),
        StoredState::Broken,
        StoredState::Expired,
    ];
    for state in states {
        let full = Stored {
            state,
            grant: Some(Grant {
                lease_id: id(1),
                holder: holder.clone(),
                owner: Some(Owner::new("worker")),
                epoch: Epoch::MAX,
                granted_at: UnixMillis::new(7),
                duration: LeaseDuration::Fixed(Duration::from_secs(15)),
                lock_delay: Duration::from_millis(3),
                without_store: Some(Box::new(WithoutStore {
                    periods: 2,
                    from: UnixMillis::new(5),
                    to: UnixMillis::new(9),
                    total: Duration::from_millis(3),
                })),
            }),
            metadata: Metadata::from([("address".into(), "\"ä\n".into())]),
            reserved: Some((holder.clone(), Duration::from_secs(1))),
            retired: vec![id(2), id(3)],
        };
        let key = LeaseKey::of_text("ns/lease");
        for stored in [full, stored(&[])] {
            let mut bytes = Vec::new();
            put(&mut bytes, &EncodedLease::new(&stored, &[], 9));
            let lease: EncodedLease<'_> = read(&bytes).unwrap();
            assert_eq!(lease.decode(&key), Ok((key.clone(), stored, 9)));
            for at in 0..bytes.len() {
                assert!(read::<EncodedLease<'_>>(&bytes[..at]).is_err(), "{at}");
            }
        }
    }
}

#[test]
fn an_entry_is_read_as_it_was_written_and_its_frame_covers_all_of_it() {
    let kinds = [
        EntryKind::Changes,
        EntryKind::Begun,
        EntryKind::Vacant,
        EntryKind::Retired,
    ];
    for kind in kinds {
        let entry = Entry {
            sequence: 7,
            follows: u32::MAX,
            kind,
            note: (kind == EntryKind::Vacant).then(|| "restored \"ä".into()),
            batch: Cow::Owned(Batch {
                previous: 3,
                revision: 1 << 52,
                changes: vec![9; if kind == EntryKind::Changes { 5_000 } else { 0 }],
            }),
        };
        let mut bytes = Vec::new();
        let sum = put_frame(&mut bytes, 5, |to| entry.encode(to));
        bytes.extend(b"behind");
        assert!(bytes.len() < 100, "{}", bytes.len());
        let (content, found, rest) = frame(&bytes, 5).unwrap();
        assert_eq!((found, rest), (sum, b"behind".as_slice()));
        assert_eq!(Entry::decode(content), Ok(entry));
        for at in 0..bytes.len() - 6 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(frame(&changed, 5).is_none(), "{at}");
            assert!(frame(&bytes[..at], 5).is_none(), "{at} bytes");
            assert!(Entry::decode(&content[..at.min(content.len() - 1)]).is_err());
        }
        assert!(frame(&bytes, 6).is_none(), "a frame after another one");
    }
}

#[test]
fn the_form_on_disk_is_the_one_of_format_1() {
    let term = TermRecord {
        epoch: Epoch::new(7).unwrap(),
        holder: "a".parse().unwrap(),
        owner: Some(Owner::new("o")),
        began_at: UnixMillis::new(7),
        ended: Some((TermEnd::Released, UnixMillis::new(9))),
        reason: Some("r".into()),
        without_store: None,
    };
    let mut changed = set(None, 11, &[]);
    changed.changes[0].content = Content::Lease(stored(&[4]).into());
    changed.changes[0].term = Some(Box::new(term));
    let gone = Deleted {
        last: Epoch::new(9),
        retired: vec![],
    };
    changed.changes.push(change(12, Content::Deleted(gone)));
    let mut bytes = batch(10, &[changed]).changes;
    put(&mut bytes, &Item::Floors(Cow::Owned(Floors::default())));
    put(&mut bytes, &Item::End);
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // A lease and its term, a deletion, floors, and the end of a snapshot.
    let expected = "00086e732f6a6f622d31001000000000000040008000000000000004\
         220b0101000000000000400080000000000000010161000707010000000\
         1016b01780002086e732f6a6f622d3107016101016f070100090101720001\
         086e732f6a6f622d310109000400000000\
         06";
    assert_eq!(text, expected);
}

#[test]
fn a_batch_that_is_not_valid_is_an_error() {
    let [mut batch, ..] = three();
    batch.changes.truncate(batch.changes.len() - 1);
    let (mut content, mut leases) = (Loaded::default(), ChangedLeases::new());
    content.revision = batch.previous;
    let error = content.apply(&batch, &mut leases).unwrap_err();
    assert_eq!(error, "the batch up to revision 11 is not valid");
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
