//! A batch is either committed, or changes nothing.

use super::*;

#[test]
fn a_start_loads_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(1, 10), write(2, 20)]).unwrap();
    commit(&mut engine, &[delete(3, 1, 99), write(4, 5)]).unwrap();
    commit(&mut engine, &[delete(5, 77, 12)]).unwrap();
    drop(engine);
    let (loaded, _) = open(folder.path(), MOST).unwrap();
    // The start took one revision.
    assert_eq!(
        (loaded.revision, loaded.floors.of_new("ns")),
        (6, Epoch::new(99))
    );
    let expected = [(2, stored(20)), (4, stored(5))];
    let expected = expected.map(|(revision, stored)| {
        let key = LeaseKey::of_text(&format!("ns/job-{revision}"));
        (key, stored, revision)
    });
    assert_eq!(in_order(loaded.leases), expected);
}

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
fn frames_of_a_failed_transaction_are_removed_before_others_are_written_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let timeout = Duration::from_millis(10);
    engine.connection.busy_timeout(timeout).unwrap();
    commit(&mut engine, &[write(1, 10)]).unwrap();
    // A backup is reading the content of the log.
    let backup = Connection::open(folder.path().join("leases.db")).unwrap();
    backup.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    engine.has_leftovers = true;
    for _ in 0..2 {
        let error = commit(&mut engine, &[write(2, 10)]).unwrap_err();
        assert!(matches!(error, AppendError::Busy(_)), "{error}");
        assert!(engine.has_leftovers);
    }
    backup.execute_batch("COMMIT").unwrap();
    commit(&mut engine, &[write(3, 10)]).unwrap();
    assert!(!engine.has_leftovers);
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
fn the_write_ahead_log_is_moved_into_the_database_from_time_to_time() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let log = || {
        std::fs::metadata(folder.path().join("leases.db-wal"))
            .unwrap()
            .len()
    };
    let mut most = 0;
    for round in 0..120 {
        let batch: Vec<LeaseChange> = (0..200)
            .map(|n| write(round * 200 + n + 1, 1_000))
            .collect();
        commit(&mut engine, &batch).unwrap();
        engine.checkpoint(Load::Busy).unwrap();
        most = most.max(log());
    }
    // Several times this amount goes through the log.
    assert!(most < 30_000_000, "{most}");
    engine.close().unwrap();
    assert_eq!(log(), 0);
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
fn readers_and_commits_do_not_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(1, 10), end(2, 7)]).unwrap();
    let other = Connection::open(folder.path().join("leases.db")).unwrap();
    other.execute_batch("BEGIN").unwrap();
    let count = "SELECT count(*) FROM batches";
    let seen: u32 = other.query_row(count, [], |row| row.get(0)).unwrap();
    commit(&mut engine, &[end(3, 8)]).unwrap();
    assert_eq!((seen, epochs(&engine)), (1, vec![8, 7]));
    // Committed terms are also readable while a transaction writes.
    let transaction = engine.connection.unchecked_transaction().unwrap();
    transaction.execute("DELETE FROM batches", []).unwrap();
    assert_eq!(epochs(&engine), [8, 7]);
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
fn a_batch_stays_in_the_log_if_the_tables_can_not_grow_and_is_applied_later() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let limit = |engine: &Embedded, pages: u32| {
        let limit = format!("PRAGMA max_page_count = {pages}");
        engine.connection.query_row(&limit, [], |_| Ok(())).unwrap();
    };
    let batch: Vec<LeaseChange> = (1..60).map(|revision| write(revision, 900)).collect();
    commit(&mut engine, &batch).unwrap();
    // The database may not grow, as on a full disk.
    limit(&engine, 1);
    engine.checkpoint(Load::Idle).unwrap();
    assert_eq!(batch_count(&engine), 1);
    limit(&engine, 1_000_000);
    commit(&mut engine, &[write(60, 10)]).unwrap();
    engine.checkpoint(Load::Idle).unwrap();
    assert_eq!(batch_count(&engine), 0);
    drop(engine);
    let (loaded, _) = open(folder.path(), MOST).unwrap();
    assert_eq!(loaded.leases.len(), 60);
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
