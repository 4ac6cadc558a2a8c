//! The database as an engine.

use tenure_core::lease::{Acquire, LeaseDuration, LeaseId, Metadata, Operation, Record, Rules};
use tenure_core::lease::{Stored, apply};
use tenure_core::{Epoch, Instant, UnixMillis};

use super::*;
use crate::table::Key;

/// Terms of a lease that are remembered.
const MOST: usize = 3;

fn stored(metadata_len: usize) -> Stored {
    let request = Acquire {
        lease_id: LeaseId::from_random_bits(0, 1),
        holder: "a".parse().unwrap(),
        duration: LeaseDuration::Infinite,
        lock_delay: std::time::Duration::ZERO,
        metadata: Metadata::from([("k".into(), "x".repeat(metadata_len))]),
    };
    let now = Instant::default();
    let mut record = Record::default();
    let acquire = Operation::Acquire(request, UnixMillis::new(7));
    apply(&mut record, &acquire, now, &Rules::NATIVE).unwrap();
    record.store(now)
}

fn write(revision: u64, metadata_len: usize) -> Write {
    Write {
        key: Key::of_text(&format!("ns/job-{revision}")),
        revision,
        content: Content::Lease(stored(metadata_len).into()),
        term: None,
    }
}

fn delete(revision: u64, of: u64, epoch: u64) -> Write {
    Write {
        key: Key::of_text(&format!("ns/job-{of}")),
        revision,
        content: Content::Deleted(Epoch::new(epoch)),
        term: None,
    }
}

#[test]
fn what_was_committed_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    engine.commit(&[write(1, 10), write(2, 20)]).unwrap();
    engine.commit(&[delete(3, 1, 99), write(4, 5)]).unwrap();
    engine.commit(&[delete(5, 77, 12)]).unwrap();
    drop(engine);
    let (loaded, _) = open(folder.path(), MOST).unwrap();
    // The start took one.
    assert_eq!((loaded.revision, loaded.floor), (6, Epoch::new(99)));
    let expected = [(2, stored(20)), (4, stored(5))];
    let expected = expected.map(|(revision, stored)| {
        let key = Key::of_text(&format!("ns/job-{revision}"));
        (key, stored, revision)
    });
    assert_eq!(loaded.leases, expected);
}

#[test]
fn a_full_disk_undoes_the_batch_and_is_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    engine.commit(&[write(1, 10)]).unwrap();
    // The database may not grow, as on a disk without space.
    let limit = |engine: &Embedded, pages: u32| {
        engine
            .connection
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
            .unwrap();
    };
    limit(&engine, 1);
    let batch: Vec<Write> = (2..20).map(|revision| write(revision, 4_000)).collect();
    for _ in 0..3 {
        let error = engine.commit(&batch).unwrap_err();
        assert!(matches!(error, CommitError::DiskFull(_)), "{error}");
    }
    limit(&engine, 1_000_000);
    engine.commit(&[write(40, 4_000)]).unwrap();
    drop(engine);
    let (loaded, _) = open(folder.path(), MOST).unwrap();
    let revisions: Vec<u64> = loaded.leases.iter().map(|lease| lease.2).collect();
    assert_eq!(revisions, [1, 40]);
}

#[test]
fn a_database_locked_by_somebody_else_is_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    engine
        .connection
        .busy_timeout(std::time::Duration::from_millis(10))
        .unwrap();
    let other = Connection::open(folder.path().join("leases.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = engine.commit(&[write(1, 10)]).unwrap_err();
    assert!(matches!(error, CommitError::Busy(_)), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    engine.commit(&[write(2, 10)]).unwrap();
}

#[test]
fn errors_that_are_not_known_to_be_harmless_are_the_end() {
    use rusqlite::ffi::{self, Error};
    for (code, harmless) in [
        (ffi::SQLITE_FULL, true),
        (ffi::SQLITE_BUSY, true),
        (ffi::SQLITE_IOERR_FSYNC, false),
        (ffi::SQLITE_IOERR_WRITE, false),
        (ffi::SQLITE_IOERR, false),
        (ffi::SQLITE_CORRUPT, false),
        (ffi::SQLITE_READONLY, false),
        (ffi::SQLITE_NOMEM, false),
    ] {
        let error = rusqlite::Error::SqliteFailure(Error::new(code), None);
        let is_fatal = matches!(classify(&error), CommitError::Fatal(_));
        assert_eq!(is_fatal, !harmless, "{code}");
    }
}

#[test]
fn the_log_is_moved_into_the_database_now_and_then() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let log = || {
        std::fs::metadata(folder.path().join("leases.db-wal"))
            .unwrap()
            .len()
    };
    let mut most = 0;
    for round in 0..60 {
        let batch: Vec<Write> = (0..200)
            .map(|n| write(round * 200 + n + 1, 1_000))
            .collect();
        engine.commit(&batch).unwrap();
        engine.tidy().unwrap();
        most = most.max(log());
    }
    // Several times as much goes through it.
    assert!(most < 15_000_000, "{most}");
    engine.close();
    assert_eq!(log(), 0);
}
