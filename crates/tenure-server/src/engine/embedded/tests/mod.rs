//! The database as an engine.

mod documents;
mod slices;

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::lease::{Acquire, LeaseDuration, LeaseId, Metadata, Operation, Record, Rules};
use tenure_core::lease::{Stored, TermEnd, apply};
use tenure_core::{Epoch, Instant as CoreInstant, UnixMillis};

use super::backlog::BEGIN_AT;
use super::restore::EPOCHS_LEFT;
use super::*;
use crate::engine;
use crate::engine::batch::{Item, RetiredIds};
use crate::model::{Cause, ChangeSet, DELETED_LIMIT, Deleted, LeaseVersion, TermRecord};

/// Terms of a lease that the store remembers.
const MOST: usize = 3;

/// Opens the database. Its revisions are small, and its tables are as old as a test wants.
fn open(data_dir: &Path, max_history: usize) -> Result<(Loaded, Embedded), OpenError> {
    let mut log = super::open(data_dir, max_history)?;
    log.backlog.max_age = Duration::MAX;
    let loaded = engine::begin(&mut log, 0)?;
    Ok((loaded, log))
}

fn stored(metadata_len: usize) -> Stored {
    let request = Acquire {
        lease_id: LeaseId::from_random_bits(0, 1),
        holder: "a".parse().unwrap(),
        duration: LeaseDuration::Infinite,
        lock_delay: Duration::ZERO,
        min_epoch: None,
        metadata: Metadata::from([("k".into(), "x".repeat(metadata_len))]),
    };
    let now = CoreInstant::default();
    let mut record = Record::default();
    let acquire = Operation::Acquire(request, UnixMillis::new(7));
    apply(&mut record, &acquire, now, &Rules::NATIVE).unwrap();
    record.store(now)
}

fn change(of: u64, revision: u64, content: Content) -> LeaseChange {
    LeaseChange {
        key: LeaseKey::of_text(&format!("ns/job-{of}")),
        revision,
        content,
        term: None,
        cause: Cause::Deleted,
        waiters: 0,
        remaining_ms: None,
    }
}

fn write(revision: u64, metadata_len: usize) -> LeaseChange {
    let stored = stored(metadata_len).into();
    change(revision, revision, Content::Lease(stored))
}

fn delete(revision: u64, of: u64, epoch: u64) -> LeaseChange {
    let deleted = Deleted {
        last: Epoch::new(epoch),
        retired: Vec::new(),
    };
    change(of, revision, Content::Deleted(deleted))
}

/// The end of the term `epoch` of the lease of `write(1, _)`.
fn end(revision: u64, epoch: u64) -> LeaseChange {
    let term = TermRecord {
        epoch: Epoch::new(epoch).unwrap(),
        holder: "a".parse().unwrap(),
        began_at: UnixMillis::new(epoch),
        ended: Some((TermEnd::Released, UnixMillis::new(epoch + 1))),
        reason: None,
    };
    LeaseChange {
        term: Some(term.into()),
        ..change(1, revision, Content::Lease(stored(10).into()))
    }
}

/// A change alone, which has all retired ids.
fn alone(change: LeaseChange) -> ChangeSet {
    let before = LeaseVersion {
        record: Record::default(),
        revision: 0,
    };
    ChangeSet {
        before,
        changes: vec![change],
        ..ChangeSet::default()
    }
}

fn commit(engine: &mut Embedded, changes: &[LeaseChange]) -> Result<(), AppendError> {
    let sets: Vec<ChangeSet> = changes.iter().cloned().map(alone).collect();
    commit_sets(engine, &sets)
}

fn commit_sets(engine: &mut Embedded, sets: &[ChangeSet]) -> Result<(), AppendError> {
    let last = "SELECT coalesce((SELECT max(revision) FROM batches), (SELECT revision FROM meta))";
    let last = engine.connection.query_row(last, [], |row| row.get(0));
    let mut batch = Batch::default();
    batch.encode(last.unwrap(), sets);
    engine.append(&batch, sets)
}

/// How many batches the log has.
fn batch_count(engine: &Embedded) -> u32 {
    let count = "SELECT count(*) FROM batches";
    let count = engine.connection.query_row(count, [], |row| row.get(0));
    count.unwrap()
}

/// The epochs of the terms of that lease.
fn epochs(engine: &Embedded) -> Vec<u64> {
    let terms = engine.terms();
    let terms = terms.terms(&LeaseKey::of_text("ns/job-1"), Epoch::MAX, 1_000);
    terms.unwrap().iter().map(|term| term.epoch.get()).collect()
}

#[test]
fn a_start_loads_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(1, 10), write(2, 20)]).unwrap();
    commit(&mut engine, &[delete(3, 1, 99), write(4, 5)]).unwrap();
    commit(&mut engine, &[delete(5, 77, 12)]).unwrap();
    drop(engine);
    let (loaded, _) = open(folder.path(), MOST).unwrap();
    // The start took one.
    assert_eq!((loaded.revision, loaded.floor), (6, Epoch::new(99)));
    let expected = [(2, stored(20)), (4, stored(5))];
    let expected = expected.map(|(revision, stored)| {
        let key = LeaseKey::of_text(&format!("ns/job-{revision}"));
        (key, stored, revision)
    });
    assert_eq!(loaded.leases, expected.into());
}

#[test]
fn a_full_disk_undoes_the_batch_and_later_ones_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(1, 10)]).unwrap();
    // The database may not grow, as on a disk without space.
    let limit = |engine: &Embedded, pages: u32| {
        engine
            .connection
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
            .unwrap();
    };
    limit(&engine, 1);
    let batch: Vec<LeaseChange> = (3..20).map(|revision| write(revision, 4_000)).collect();
    // The end of a term is undone with all that was to be committed with it.
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
    let revisions: Vec<u64> = loaded.leases.iter().map(|lease| lease.2).collect();
    assert_eq!(revisions, [1, 40]);
}

#[test]
fn frames_of_a_failed_transaction_are_removed_before_others_are_written_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let timeout = Duration::from_millis(10);
    engine.connection.busy_timeout(timeout).unwrap();
    commit(&mut engine, &[write(1, 10)]).unwrap();
    // A backup reads what is in the log.
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
        (ffi::SQLITE_IOERR_WRITE, false),
        (ffi::SQLITE_IOERR, false),
        (ffi::SQLITE_CORRUPT, false),
        (ffi::SQLITE_READONLY, false),
        (ffi::SQLITE_NOMEM, false),
    ] {
        let error = rusqlite::Error::SqliteFailure(Error::new(code), None);
        let is_fatal = matches!(classify(&error), AppendError::Unknown(_));
        assert_eq!(is_fatal, !harmless, "{code}");
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
    // Several times as much goes through it.
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
        assert!(revision < 100_000, "the log is not moved");
    }
    // The folder as it is if the store is killed now, and its log lost.
    let lost = || {
        let lost = tempfile::tempdir().unwrap();
        for name in ["FORMAT", "RUNNING", "leases.db"] {
            // One of them goes with an end in order.
            let _ = std::fs::copy(folder.path().join(name), lost.path().join(name));
        }
        lost
    };
    commit(&mut engine, &[write(revision, 10)]).unwrap();
    match open(lost().path(), MOST) {
        Err(OpenError::Damaged { path, .. }) => assert!(path.ends_with("leases.db-wal")),
        other => panic!("{other:?}"),
    }
    // After an end in order there is nothing to lose.
    engine.close().unwrap();
    assert!(open(lost().path(), MOST).is_ok());
}

/// How many rows have terms in their places.
fn segments(engine: &Embedded) -> usize {
    let count = "SELECT count(*) FROM term_rows";
    let count = engine.connection.query_row(count, [], |row| row.get(0));
    count.unwrap()
}

#[test]
fn old_terms_are_forgotten_when_newer_ones_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    for epoch in 1..=2 * BEGIN_AT.changes as u64 {
        commit(&mut engine, &[end(epoch, epoch)]).unwrap();
        engine.checkpoint(Load::Busy).unwrap();
        assert!(batch_count(&engine) as usize <= BEGIN_AT.changes);
        assert!(segments(&engine) <= 2);
    }
    commit(&mut engine, &[end(9_000, 9_000)]).unwrap();
    engine.close().unwrap();
    drop(engine);
    // All of it fits its checksums.
    let (_, engine) = open(folder.path(), MOST).unwrap();
    assert_eq!(epochs(&engine)[0], 9_000);
}

#[test]
fn as_many_segments_are_kept_as_have_the_last_terms() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), 40).unwrap();
    for epoch in 1..=200 {
        commit(&mut engine, &[end(epoch, epoch)]).unwrap();
        engine.checkpoint(Load::Idle).unwrap();
        assert!(segments(&engine) <= 40 / term_rows::SEGMENT + 2);
        let told = epochs(&engine);
        let newest = (1..=epoch).rev().take(40);
        assert!(told.iter().copied().take(40).eq(newest), "{told:?}");
    }
    // More than are remembered, from a store that remembered more: the first chance is taken.
    drop(engine);
    for (most, kept) in [(40, 5), (17, 3), (9, 2), (8, 1), (1, 1)] {
        let (_, engine) = open(folder.path(), most).unwrap();
        assert_eq!(segments(&engine), kept, "{most}");
        assert_eq!(epochs(&engine)[0], 200);
    }
}

#[test]
fn the_reason_of_a_term_stays_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let say = |mut write: LeaseChange, reason: &str, is_over: bool| {
        let term = write.term.as_mut().unwrap();
        term.reason = Some(reason.into());
        term.ended = term.ended.filter(|_| is_over);
        write
    };
    commit(&mut engine, &[say(end(1, 7), "first", false)]).unwrap();
    commit(&mut engine, &[say(end(2, 7), "second", false)]).unwrap();
    commit(&mut engine, &[say(end(3, 7), "last", true)]).unwrap();
    drop(engine);
    let (_, engine) = open(folder.path(), MOST).unwrap();
    let terms = engine.terms();
    let terms = terms
        .terms(&LeaseKey::of_text("ns/job-1"), Epoch::MAX, 9)
        .unwrap();
    let expected = say(end(3, 7), "first", true);
    assert_eq!(terms, [*expected.term.unwrap()]);
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
    // Nor is the folder said to be closed in order while the log is needed.
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
    // And while a transaction writes, what was committed is read.
    let transaction = engine.connection.unchecked_transaction().unwrap();
    transaction.execute("DELETE FROM batches", []).unwrap();
    assert_eq!(epochs(&engine), [8, 7]);
}

#[test]
fn a_record_of_a_term_counts_the_same_before_and_after_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let told = |engine: &Embedded| {
        let terms = engine.terms();
        let terms = terms.terms(&LeaseKey::of_text("ns/job-1"), Epoch::MAX, 9);
        terms.unwrap()
    };
    let note = |revision, epoch, reason: Option<&str>, has_ended: bool| {
        let mut write = end(revision, epoch);
        let term = write.term.as_mut().unwrap();
        term.reason = reason.map(Into::into);
        term.ended = term.ended.filter(|_| has_ended);
        write
    };
    // Somebody says why it is to end; then it ends, and another reason is given.
    let first = note(2, 7, Some("broken"), false);
    commit(&mut engine, &[write(1, 10), first]).unwrap();
    assert_eq!(told(&engine)[0].ended, None);
    let put_in_place = |engine: &mut Embedded| {
        engine.checkpoint(Load::Idle).unwrap();
        assert_eq!(batch_count(engine), 0);
    };
    drop(engine);
    for is_put_in_place in [false, true] {
        // A start puts it in its place.
        let folder = tempfile::tempdir().unwrap();
        let (_, mut engine) = open(folder.path(), MOST).unwrap();
        let first = note(2, 7, Some("broken"), false);
        commit(&mut engine, &[write(1, 10), first]).unwrap();
        if is_put_in_place {
            put_in_place(&mut engine);
        }
        let again = note(4, 7, Some("gave up"), true);
        commit(&mut engine, &[again, note(5, 9, None, true)]).unwrap();
        let before = told(&engine);
        put_in_place(&mut engine);
        assert_eq!(told(&engine), before);
        let reasons: Vec<_> = before.iter().map(|term| term.reason.as_deref()).collect();
        assert_eq!(reasons, [None, Some("broken")]);
        assert!(before.iter().all(|term| term.ended.is_some()));
    }
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

/// Leases, the floor, the terms of each lease, and what is left of those that were deleted.
type Known = (
    Vec<(LeaseKey, Stored, u64)>,
    Option<Epoch>,
    Vec<Vec<TermRecord>>,
    Vec<(LeaseKey, Vec<LeaseId>)>,
);

/// The terms of the first so many leases.
fn terms(engine: &Embedded, leases: u64) -> Vec<Vec<TermRecord>> {
    let terms_of = |of: u64| {
        let key = LeaseKey::of_text(&format!("ns/job-{of}"));
        engine.terms().terms(&key, Epoch::MAX, MOST).unwrap()
    };
    (1..=leases).map(terms_of).collect()
}

/// All that a store knows of three leases after these batches, if checkpoints follow these of them, and the
/// store is closed or killed.
fn known_after(
    batches: &[Vec<ChangeSet>],
    checkpoint_after: impl Fn(usize) -> bool,
    is_closed: bool,
) -> Known {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    for (number, batch) in batches.iter().enumerate() {
        commit_sets(&mut engine, batch).unwrap();
        if checkpoint_after(number) {
            engine.checkpoint(Load::Idle).unwrap();
            assert_eq!(batch_count(&engine), 0);
        }
    }
    let told = terms(&engine, 3);
    if is_closed {
        engine.close().unwrap();
    }
    drop(engine);
    let (loaded, engine) = open(folder.path(), MOST).unwrap();
    assert_eq!(batch_count(&engine), 0);
    assert_eq!(terms(&engine, 3), told);
    let left = left(&loaded);
    let leases = loaded.leases.into_iter().collect();
    (leases, loaded.floor, told, left)
}

/// What is left of deleted leases, by their names: the last that is said of each, unless it was made again.
fn left(loaded: &Loaded) -> Vec<(LeaseKey, Vec<LeaseId>)> {
    let mut left: BTreeMap<_, _> = loaded.deleted.iter().cloned().collect();
    for (key, ..) in &loaded.leases {
        left.remove(key);
    }
    left.into_iter().collect()
}

/// Batches of some leases that change, end terms, are deleted and made again, in some order; and the ids
/// that are retired of each at the end.
fn batches(
    leases: u64,
    revisions: std::ops::Range<u64>,
) -> (Vec<Vec<ChangeSet>>, Vec<Vec<LeaseId>>) {
    let mut batches: Vec<Vec<ChangeSet>> = Vec::new();
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let mut versions = vec![None; leases as usize + 1];
    let mut retired = vec![Vec::new(); leases as usize + 1];
    for revision in revisions {
        let of = 1 + next(leases);
        let mut change = match next(12) {
            0 => delete(revision, of, 3 + revision / leases),
            1..4 => write(revision, (10 * revision % 700) as usize),
            _ => end(revision, 3 + revision / leases),
        };
        change.key = LeaseKey::of_text(&format!("ns/job-{of}"));
        let (list, version) = (&mut retired[of as usize], &mut versions[of as usize]);
        let before = version.take().unwrap_or_else(|| LeaseVersion {
            record: Record::default(),
            revision: 0,
        });
        match &mut change.content {
            Content::Deleted(deleted) => deleted.retired = std::mem::take(list),
            Content::Lease(stored) => {
                // Each change adds an id to those that are retired, and forgets some.
                list.retain(|_| next(8) > 0);
                list.push(LeaseId::from_random_bits(0, revision));
                let stored = Arc::make_mut(stored);
                stored.retired.clone_from(list);
                let record = Record::restore(stored.clone(), CoreInstant::default());
                *version = Some(LeaseVersion { record, revision });
            }
        }
        if let Some(term) = &mut change.term {
            term.reason = (next(2) == 0).then(|| format!("at {revision}").into());
            term.ended = term.ended.filter(|_| next(3) > 0);
        }
        let set = ChangeSet {
            before,
            changes: vec![change],
            ..ChangeSet::default()
        };
        match batches.last_mut() {
            Some(batch) if next(2) == 0 => batch.push(set),
            _ => batches.push(vec![set]),
        }
    }
    (batches, retired)
}

/// Whether the batch has a change with a delta of the retired ids.
fn has_delta(sets: &[ChangeSet]) -> bool {
    let mut batch = Batch::default();
    batch.encode(0, sets);
    let mut items = batch.items();
    items.any(|item| matches!(item, Ok(Item::Lease(_, RetiredIds::Delta { .. }))))
}

#[test]
fn it_makes_no_difference_when_checkpoints_are_made() {
    let (batches, retired) = batches(3, 10..70);
    let never = known_after(&batches, |_| false, false);
    assert!(!never.0.is_empty() && never.1.is_some() && !never.3.is_empty());
    assert!(never.2.iter().any(|terms| terms.len() == MOST));
    for (key, stored, _) in &never.0 {
        let of: usize = key.lease()[4..].parse().unwrap();
        assert_eq!(stored.retired, retired[of]);
    }
    assert!(batches.iter().filter(|batch| has_delta(batch)).count() > 10);
    for is_closed in [false, true] {
        assert_eq!(known_after(&batches, |_| false, is_closed), never);
        assert_eq!(known_after(&batches, |_| true, is_closed), never);
        for every in [2, 3, 7] {
            let placed = known_after(&batches, |number| number % every == 0, is_closed);
            assert_eq!(placed, never, "{every}");
        }
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
    // The database may not grow, as on a disk without space.
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

fn checkpoint_all(engine: &mut Embedded) {
    while matches!(engine.checkpoint(Load::Idle), Ok(Progress::More)) {}
    assert_eq!(batch_count(engine), 0);
}

#[test]
fn only_the_newest_deleted_leases_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let most = DELETED_LIMIT as u64;
    let ids = |number| vec![LeaseId::from_random_bits(0, number)];
    for number in 1..=most + 5 {
        let mut deleted = delete(10 + number, number, number);
        if let Content::Deleted(deleted) = &mut deleted.content {
            deleted.retired = ids(number);
        }
        commit(&mut engine, &[deleted]).unwrap();
        if number % 1_000 == 0 {
            checkpoint_all(&mut engine);
        }
    }
    checkpoint_all(&mut engine);
    let count = |engine: &Embedded| -> u64 {
        let count = "SELECT count(*) FROM deleted";
        engine
            .connection
            .query_row(count, [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(count(&engine), most);
    drop(engine);
    let (loaded, _) = open(folder.path(), MOST).unwrap();
    let (first, last) = (
        &loaded.deleted[0],
        &loaded.deleted[loaded.deleted.len() - 1],
    );
    assert_eq!((first.0.lease(), &first.1), ("job-6", &ids(6)));
    let name = format!("job-{}", most + 5);
    assert_eq!((last.0.lease(), &last.1), (name.as_str(), &ids(most + 5)));
}

#[test]
fn a_backup_that_leaves_no_epochs_is_not_restored() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let last = Epoch::MAX.get() - EPOCHS_LEFT;
    let (loaded, mut engine) = open(&at("store"), 1).unwrap();
    commit(&mut engine, &[delete(loaded.revision + 1, 1, last)]).unwrap();
    backup(&at("store"), &at("file"), Existing::Keep).unwrap();
    let error = restore(&at("file"), &at("restored")).unwrap_err();
    assert!(
        matches!(error, RestoreError::EpochsUsedUp { .. }),
        "{error}"
    );
    assert!(error.to_string().contains(&last.to_string()), "{error}");
    let left: Vec<_> = at("restored").read_dir().unwrap().collect();
    assert_eq!(left.len(), 1, "but for the lock: {left:?}");
}

#[test]
fn a_log_that_another_store_has_appended_to_is_not_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(2, 10)]).unwrap();
    for load in [Load::Busy, Load::Idle] {
        // If all batches are in the tables, `meta` has the last revision.
        engine.checkpoint(load).unwrap();
        let mut batch = Batch::default();
        batch.encode(1, &[alone(write(9, 10))]);
        let error = engine.append(&batch, &[]).unwrap_err();
        assert!(matches!(error, AppendError::NotOwner(_)), "{error}");
    }
    commit(&mut engine, &[write(3, 10)]).unwrap();
}

#[test]
fn the_tables_contain_a_change_that_is_old_also_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(2, 10)]).unwrap();
    engine.checkpoint(Load::Busy).unwrap();
    assert_eq!(batch_count(&engine), 1);
    engine.backlog.max_age = Duration::ZERO;
    commit(&mut engine, &[write(3, 10)]).unwrap();
    engine.checkpoint(Load::Busy).unwrap();
    assert_eq!(batch_count(&engine), 0);
}
