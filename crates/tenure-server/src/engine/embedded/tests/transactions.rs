//! A batch is either committed, or changes nothing.

use super::*;

#[test]
fn a_full_disk_undoes_the_batch_and_later_ones_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(1, 10)]).unwrap();
    // The database may not grow, as on a full disk.
    let limit = |engine: &Embedded, pages: u32| {
        engine
            .connection
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
            .unwrap();
    };
    limit(&engine, 1);
    let batch: Vec<LeaseChange> = (3..20).map(|revision| write(revision, 4_000)).collect();
    // The end of a term is undone with everything that was to be committed with it.
    let batch: Vec<LeaseChange> = [end(2, 7)].into_iter().chain(batch).collect();
    for _ in 0..3 {
        let error = commit(&mut engine, &batch).unwrap_err();
        assert!(matches!(error, AppendError::DiskFull(_)), "{error}");
        assert!(epochs(&engine).is_empty());
    }
    limit(&engine, 1_000_000);
    commit(&mut engine, &[write(40, 4_000)]).unwrap();
    assert!(epochs(&engine).is_empty());
    drop(engine);
    let (loaded, _) = open(folder.path(), MOST).unwrap();
    let mut revisions: Vec<u64> = loaded.leases.iter().map(|lease| lease.2).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [1, 40]);
}

#[test]
fn while_another_program_locks_the_database_a_batch_fails_and_later_ones_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    engine
        .connection
        .busy_timeout(Duration::from_millis(10))
        .unwrap();
    let other = Connection::open(folder.path().join("leases.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = commit(&mut engine, &[write(1, 10)]).unwrap_err();
    assert!(matches!(error, AppendError::Busy(_)), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    commit(&mut engine, &[write(2, 10)]).unwrap();
}

#[test]
fn an_error_that_is_not_known_to_be_harmless_leaves_the_outcome_unknown() {
    use rusqlite::ffi::{self, Error};
    for (code, harmless) in [
        (ffi::SQLITE_FULL, true),
        (ffi::SQLITE_BUSY, true),
        (ffi::SQLITE_IOERR_FSYNC, false),
        (SQLITE_IOERR_WRITE, false),
        (ffi::SQLITE_IOERR, false),
        (ffi::SQLITE_CORRUPT, false),
        (ffi::SQLITE_READONLY, false),
        (ffi::SQLITE_NOMEM, false),
    ] {
        let error = rusqlite::Error::SqliteFailure(Error::new(code), None);
        let is_fatal = |at_limit| matches!(classify(&error, at_limit), AppendError::Unknown(_));
        assert_eq!(is_fatal(false), !harmless, "{code}");
        // A file that may not grow is a full disk, and nothing else changes with it.
        let is_write = code == SQLITE_IOERR_WRITE;
        assert_eq!(is_fatal(true), !harmless && !is_write, "{code}");
    }
}

#[test]
fn a_lost_write_ahead_log_is_noticed_also_after_one_was_moved_into_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let size = || {
        std::fs::metadata(folder.path().join("leases.db"))
            .unwrap()
            .len()
    };
    let before = size();
    let mut revision = 10;
    while size() == before {
        let batch: Vec<LeaseChange> = (0..200).map(|n| write(revision + n, 1_000)).collect();
        commit(&mut engine, &batch).unwrap();
        engine.checkpoint(Load::Busy).unwrap();
        revision += 200;
        assert!(
            revision < 100_000,
            "the log was never moved into the database"
        );
    }
    // Copies the folder as it would be if the store were killed now and its write-ahead log lost.
    let lost = || {
        let lost = tempfile::tempdir().unwrap();
        for name in ["FORMAT", "RUNNING", "leases.db"] {
            // One of these files does not exist after a clean close.
            let _ = std::fs::copy(folder.path().join(name), lost.path().join(name));
        }
        lost
    };
    commit(&mut engine, &[write(revision, 10)]).unwrap();
    match open(lost().path(), MOST) {
        Err(OpenError::Damaged { path, .. }) => assert!(path.ends_with("leases.db-wal")),
        other => panic!("{other:?}"),
    }
    // After a clean close there is nothing to lose.
    engine.close().unwrap();
    assert!(open(lost().path(), MOST).is_ok());
}

#[test]
fn while_another_program_reads_nothing_is_written_before_frames_of_a_failed_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(1, 10)]).unwrap();
    let moment = Duration::from_millis(10);
    engine.connection.busy_timeout(moment).unwrap();
    engine.has_leftovers = true;

    let other = Connection::open(folder.path().join("leases.db")).unwrap();
    let read = |sql: &str| {
        other.execute_batch(sql).unwrap();
        let count = other.query_row("SELECT count(*) FROM lease_rows", [], |_| Ok(()));
        count.unwrap();
    };
    read("BEGIN");
    for _ in 0..2 {
        let error = commit(&mut engine, &[write(2, 10)]).unwrap_err();
        assert!(matches!(error, AppendError::Busy(_)), "{error}");
    }
    // While the write-ahead log is needed, the folder is not marked as closed either.
    engine.close().unwrap();
    assert!(folder.path().join("RUNNING").exists());
    read("COMMIT");
    commit(&mut engine, &[write(3, 10)]).unwrap();
    assert!(!engine.has_leftovers);
    engine.close().unwrap();
    assert!(!folder.path().join("RUNNING").exists());
}

#[test]
fn a_start_checks_the_batches_too() {
    for damage in [
        "UPDATE batches SET changes = zeroblob(length(changes))",
        "UPDATE batches SET changes = x''",
        "UPDATE batches SET revision = revision + 100",
        "UPDATE batches SET previous = previous + 1",
        "UPDATE batches SET crc = crc + 1",
        "DELETE FROM batches WHERE revision = (SELECT min(revision) FROM batches)",
        "DELETE FROM batches WHERE revision = 3",
        "DROP TABLE batches",
        "INSERT INTO batches SELECT revision + 7, previous + 7, changes, crc FROM batches",
        "UPDATE meta SET revision = revision - 1",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (_, mut engine) = open(folder.path(), MOST).unwrap();
        commit(&mut engine, &[write(1, 10), end(2, 7)]).unwrap();
        commit(&mut engine, &[end(3, 8)]).unwrap();
        commit(&mut engine, &[end(4, 9)]).unwrap();
        drop(engine);
        let database = Connection::open(folder.path().join("leases.db")).unwrap();
        database.execute_batch(damage).unwrap();
        drop(database);
        let refused = open(folder.path(), MOST).map(|_| ());
        assert!(
            matches!(refused, Err(OpenError::Damaged { .. })),
            "{damage}: {refused:?}"
        );
    }
}

#[test]
fn a_log_that_another_store_has_appended_to_is_not_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(2, 10)]).unwrap();
    for load in [Load::Busy, Load::Idle] {
        // If the tables contain all batches, `meta` has the last revision.
        engine.checkpoint(load).unwrap();
        let mut batch = Batch::default();
        batch.encode(1, &[alone(write(9, 10))]);
        let error = engine.append(&batch, &[]).unwrap_err();
        assert!(matches!(error, AppendError::NotOwner(_)), "{error}");
    }
    commit(&mut engine, &[write(3, 10)]).unwrap();
}
