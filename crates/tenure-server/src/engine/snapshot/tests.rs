//! Snapshots are read as they were written, and damage is found.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use tenure_core::Epoch;

use super::*;
use crate::engine::entry::{
    EncodedLease, Entry, EntryKind, FRAME, Position, SnapshotHeader, frame_length,
};
use crate::engine::replica::Replica;
use crate::engine::tests::{batches, stored};
use crate::engine::{Batch, Document, Loaded, LoadedLease, OpenError};
use crate::model::{HistoryLimits, LeaseKey};

/// Writes a snapshot with this content, which covers entry 7.
fn write(path: &Path, content: &Loaded, leases: &[LoadedLease]) {
    let header = SnapshotHeader {
        store: content.store_id.clone().unwrap(),
        covers: Position {
            sequence: 7,
            checksum: 3,
        },
        revision: content.revision,
        is_final: false,
        is_guarded: false,
    };
    let mut bytes = Vec::new();
    let to = |part: &[u8]| {
        bytes.extend_from_slice(part);
        Ok::<_, OpenError>(())
    };
    let mut writer = SnapshotWriter::begin(to, header, content).unwrap();
    for (key, stored, revision) in leases {
        let lease = EncodedLease::new(stored, &[], *revision);
        writer.lease(key, &lease).unwrap();
    }
    let len = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, len);
    fs::write(path, bytes).unwrap();
}

/// Reads a snapshot after these changes.
fn read(path: &Path, batches: &[Batch]) -> Result<(Loaded, Vec<LoadedLease>), OpenError> {
    let mut replica = Replica::open(path, HistoryLimits::NONE)?;
    for batch in batches {
        let entry = Entry {
            sequence: replica.at.sequence + 1,
            follows: replica.at.checksum,
            kind: EntryKind::Changes,
            note: None,
            batch: Cow::Borrowed(batch),
        };
        replica.add(&entry, 3).unwrap();
    }
    let mut leases = Vec::new();
    replica.leases(|lease| leases.push(lease))?;
    // They would lack the leases of the file.
    assert!(replica.loaded().is_err(), "the leases of a file twice");
    Ok((replica.content, leases))
}

fn content() -> Loaded {
    let document = Document {
        name: "a".into(),
        revision: 4,
        content: vec![7; 3_000].into(),
    };
    let mut content = Loaded {
        store_id: "a1".repeat(16).try_into().ok(),
        revision: 9,
        documents: [("a".into(), document)].into(),
        ..Loaded::default()
    };
    content.floors.raise("ns", Epoch::new(1 << 50));
    content
}

#[test]
fn a_snapshot_of_a_snapshot_and_of_changes_has_what_the_changes_make() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (sets, _) = batches(60, 10..3_000);
    let mut revision = 9;
    let all: Vec<Batch> = sets
        .iter()
        .map(|sets| {
            let mut batch = Batch::default();
            batch.encode(revision, sets);
            revision = batch.revision;
            batch
        })
        .collect();
    // All changes at once, and a snapshot after each few of them.
    write(&path("none"), &content(), &[]);
    let (expected, leases) = read(&path("none"), &all).unwrap();
    assert!(leases.len() > 20, "{}", leases.len());
    fs::copy(path("none"), path("last")).unwrap();
    for some in all.chunks(97) {
        let (content, leases) = read(&path("last"), some).unwrap();
        write(&path("next"), &content, &leases);
        fs::rename(path("next"), path("last")).unwrap();
    }
    let (found, again) = read(&path("last"), &[]).unwrap();
    assert_eq!(again, leases);
    assert_eq!(found.documents, expected.documents);
    assert_eq!(found.floors, expected.floors);
    assert_eq!(
        (found.revision, &found.deleted),
        (revision, &expected.deleted)
    );
    let terms = |content: &Loaded| {
        let terms = content.history.iter();
        terms
            .map(|(key, term)| (key.clone(), term.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(terms(&found), terms(&expected));
}

#[test]
fn a_snapshot_with_more_than_one_frame_is_read_whole_and_a_missing_frame_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    let leases: Vec<_> = (0..3_000)
        .map(|number| {
            (
                LeaseKey::of_text(&format!("ns/{number:05}")),
                stored(1_500),
                number,
            )
        })
        .collect();
    write(&path, &content(), &leases);
    assert_eq!(read(&path, &[]).unwrap().1, leases);
    let bytes = fs::read(&path).unwrap();
    let mut frames = vec![bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1];
    while let Some(at) = frames.last()
        && let Some(len) = frame_length(&bytes[*at..])
    {
        frames.push(at + FRAME + len as usize);
    }
    assert!(frames.len() > 3, "{frames:?}");
    for frame in frames.windows(2) {
        let without = [&bytes[..frame[0]], &bytes[frame[1]..]].concat();
        fs::write(&path, without).unwrap();
        let error = read(&path, &[]).map(|_| ()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
}

#[test]
fn each_flipped_bit_and_each_missing_byte_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    let lease = |name: &str| (LeaseKey::of_text(name), stored(10), 5);
    write(&path, &content(), &[lease("ns/a"), lease("ns/b")]);
    let bytes = fs::read(&path).unwrap();
    let refused = |changed: &[u8], how: String| {
        fs::write(&path, changed).unwrap();
        let error = read(&path, &[]).map(|_| ()).expect_err(&how);
        let is_known = matches!(error, OpenError::Damaged { .. } | OpenError::Newer { .. });
        assert!(is_known, "{how}: {error}");
        assert!(error.to_string().contains("snapshot"), "{how}: {error}");
    };
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        refused(&changed, format!("byte {at}"));
        refused(&bytes[..at], format!("{at} bytes"));
    }
    let mut longer = bytes.clone();
    longer.push(0);
    refused(&longer, "one more byte".into());
    // Leases in another order were written by another program.
    write(&path, &content(), &[lease("ns/b"), lease("ns/a")]);
    let error = read(&path, &[]).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("ns/a is not in order"), "{error}");
}
