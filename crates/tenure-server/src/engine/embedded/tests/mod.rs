//! The database as an engine.

mod slices;

use std::collections::BTreeMap;

use tenure_core::lease::{Acquire, LeaseDuration, LeaseId, Metadata, Operation, Record, Rules};
use tenure_core::lease::{Stored, TermEnd, apply};
use tenure_core::{Epoch, Instant, UnixMillis};

use super::backlog::BEGIN_AT;
use super::*;
use crate::engine::{Content, Deleted, Retired, Term};
use crate::table::{DELETED_LIMIT, Key};

/// Terms of a lease that are remembered.
const MOST: usize = 3;

/// Opens the database, whose revisions are small here.
fn open(data_dir: &Path, max_history: usize) -> Result<(Loaded, Embedded), OpenError> {
    super::open(data_dir, max_history, 0)
}

fn stored(metadata_len: usize) -> Stored {
    let request = Acquire {
        lease_id: LeaseId::from_random_bits(0, 1),
        holder: "a".parse().unwrap(),
        duration: LeaseDuration::Infinite,
        lock_delay: std::time::Duration::ZERO,
        min_epoch: None,
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
        retired: None,
        term: None,
    }
}

fn delete(revision: u64, of: u64, epoch: u64) -> Write {
    Write {
        key: Key::of_text(&format!("ns/job-{of}")),
        revision,
        content: Content::Deleted(Deleted {
            last: Epoch::new(epoch),
            retired: Vec::new(),
        }),
        retired: None,
        term: None,
    }
}

/// The end of the term `epoch` of the lease of `write(1, _)`.
fn end(revision: u64, epoch: u64) -> Write {
    let term = Term {
        epoch: Epoch::new(epoch).unwrap(),
        holder: "a".parse().unwrap(),
        began_at: UnixMillis::new(epoch),
        ended: Some((TermEnd::Released, UnixMillis::new(epoch + 1))),
        reason: None,
    };
    Write {
        key: Key::of_text("ns/job-1"),
        revision,
        content: Content::Lease(stored(10).into()),
        retired: None,
        term: Some(term.into()),
    }
}

fn commit(engine: &mut Embedded, writes: &[Write]) -> Result<(), CommitError> {
    let writes: Vec<&Write> = writes.iter().collect();
    engine.commit(&writes)
}

/// How many batches are not in their places.
fn recent(engine: &Embedded) -> u32 {
    let count = "SELECT count(*) FROM batches";
    let count = engine.connection.query_row(count, [], |row| row.get(0));
    count.unwrap()
}

/// The epochs of the terms of that lease.
fn epochs(engine: &Embedded) -> Vec<u64> {
    let terms = engine.archive();
    let terms = terms.terms(&Key::of_text("ns/job-1"), Epoch::MAX, 1_000);
    terms.unwrap().iter().map(|term| term.epoch.get()).collect()
}

#[test]
fn what_was_committed_is_loaded() {
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
        let key = Key::of_text(&format!("ns/job-{revision}"));
        (key, stored, revision)
    });
    assert_eq!(loaded.leases, expected.into());
}

#[test]
fn a_full_disk_undoes_the_batch_and_is_no_end() {
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
    let batch: Vec<Write> = (3..20).map(|revision| write(revision, 4_000)).collect();
    // The end of a term is undone with all that was to be committed with it.
    let batch: Vec<Write> = [end(2, 7)].into_iter().chain(batch).collect();
    for _ in 0..3 {
        let error = commit(&mut engine, &batch).unwrap_err();
        assert!(matches!(error, CommitError::DiskFull(_)), "{error}");
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
fn what_a_failed_transaction_left_in_the_log_is_cut_before_anything_is_written_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let timeout = std::time::Duration::from_millis(10);
    engine.connection.busy_timeout(timeout).unwrap();
    commit(&mut engine, &[write(1, 10)]).unwrap();
    // A backup reads what is in the log.
    let backup = Connection::open(folder.path().join("leases.db")).unwrap();
    backup.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    engine.has_leftovers = true;
    for _ in 0..2 {
        let error = commit(&mut engine, &[write(2, 10)]).unwrap_err();
        assert!(matches!(error, CommitError::Busy(_)), "{error}");
        assert!(engine.has_leftovers);
    }
    backup.execute_batch("COMMIT").unwrap();
    commit(&mut engine, &[write(3, 10)]).unwrap();
    assert!(!engine.has_leftovers);
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
    let error = commit(&mut engine, &[write(1, 10)]).unwrap_err();
    assert!(matches!(error, CommitError::Busy(_)), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    commit(&mut engine, &[write(2, 10)]).unwrap();
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
    for round in 0..120 {
        let batch: Vec<Write> = (0..200)
            .map(|n| write(round * 200 + n + 1, 1_000))
            .collect();
        commit(&mut engine, &batch).unwrap();
        engine.tidy().unwrap();
        most = most.max(log());
    }
    // Several times as much goes through it.
    assert!(most < 30_000_000, "{most}");
    engine.close().unwrap();
    assert_eq!(log(), 0);
}

#[test]
fn a_lost_log_is_noticed_also_after_one_was_moved_into_the_database() {
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
        let batch: Vec<Write> = (0..200).map(|n| write(revision + n, 1_000)).collect();
        commit(&mut engine, &batch).unwrap();
        engine.tidy().unwrap();
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
    let count = "SELECT count(*) FROM history";
    let count = engine.connection.query_row(count, [], |row| row.get(0));
    count.unwrap()
}

#[test]
fn old_terms_are_forgotten_when_newer_ones_are_put_in_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    for epoch in 1..=2 * BEGIN_AT.changes as u64 {
        commit(&mut engine, &[end(epoch, epoch)]).unwrap();
        engine.tidy().unwrap();
        assert!(recent(&engine) as usize <= BEGIN_AT.changes);
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
fn of_the_terms_as_many_segments_are_kept_as_have_the_last_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), 40).unwrap();
    for epoch in 1..=200 {
        commit(&mut engine, &[end(epoch, epoch)]).unwrap();
        engine.rest().unwrap();
        assert!(segments(&engine) <= 40 / terms::SEGMENT + 2);
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
fn what_was_noted_of_a_term_stays_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let say = |mut write: Write, reason: &str, is_over: bool| {
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
    let terms = engine.archive();
    let terms = terms
        .terms(&Key::of_text("ns/job-1"), Epoch::MAX, 9)
        .unwrap();
    let expected = say(end(3, 7), "first", true);
    assert_eq!(terms, [*expected.term.unwrap()]);
}

#[test]
fn while_somebody_reads_nothing_is_written_before_what_a_failed_transaction_left() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(1, 10)]).unwrap();
    let moment = std::time::Duration::from_millis(10);
    engine.connection.busy_timeout(moment).unwrap();
    engine.has_leftovers = true;

    let other = Connection::open(folder.path().join("leases.db")).unwrap();
    let read = |sql: &str| {
        other.execute_batch(sql).unwrap();
        let count = other.query_row("SELECT count(*) FROM leases", [], |_| Ok(()));
        count.unwrap();
    };
    read("BEGIN");
    for _ in 0..2 {
        let error = commit(&mut engine, &[write(2, 10)]).unwrap_err();
        assert!(matches!(error, CommitError::Busy(_)), "{error}");
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
fn what_was_noted_of_a_term_counts_the_same_before_and_after_it_is_put_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let told = |engine: &Embedded| {
        let terms = engine.archive();
        let terms = terms.terms(&Key::of_text("ns/job-1"), Epoch::MAX, 9);
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
        engine.rest().unwrap();
        assert_eq!(recent(engine), 0);
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
fn what_was_committed_last_is_checked_too() {
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
    Vec<(Key, Stored, u64)>,
    Option<Epoch>,
    Vec<Vec<Term>>,
    Vec<(Key, Vec<LeaseId>)>,
);

/// The terms of the first so many leases.
fn terms(engine: &Embedded, leases: u64) -> Vec<Vec<Term>> {
    let terms_of = |of: u64| {
        let key = Key::of_text(&format!("ns/job-{of}"));
        engine.archive().terms(&key, Epoch::MAX, MOST).unwrap()
    };
    (1..=leases).map(terms_of).collect()
}

/// All that a store knows of three leases after these batches, of which these were put in their places,
/// when it was closed or killed.
fn known_after(batches: &[Vec<Write>], in_place: impl Fn(usize) -> bool, is_closed: bool) -> Known {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    for (number, batch) in batches.iter().enumerate() {
        commit(&mut engine, batch).unwrap();
        if in_place(number) {
            engine.rest().unwrap();
            assert_eq!(recent(&engine), 0);
        }
    }
    let told = terms(&engine, 3);
    if is_closed {
        engine.close().unwrap();
    }
    drop(engine);
    let (loaded, engine) = open(folder.path(), MOST).unwrap();
    assert_eq!(recent(&engine), 0);
    assert_eq!(terms(&engine, 3), told);
    let left = left(&loaded);
    let leases = loaded.leases.into_iter().collect();
    (leases, loaded.floor, told, left)
}

/// What is left of deleted leases, by their names: the last that is said of each, unless it was made again.
fn left(loaded: &Loaded) -> Vec<(Key, Vec<LeaseId>)> {
    let mut left: BTreeMap<_, _> = loaded.deleted.iter().cloned().collect();
    for (key, ..) in &loaded.leases {
        left.remove(key);
    }
    left.into_iter().collect()
}

/// Batches of some leases that change, end terms, are deleted and made again, in some order; and the ids
/// that are retired of each at the end.
fn batches(leases: u64, revisions: std::ops::Range<u64>) -> (Vec<Vec<Write>>, Vec<Vec<LeaseId>>) {
    let mut batches = Vec::new();
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let mut retired = vec![Vec::new(); leases as usize + 1];
    for revision in revisions {
        let of = 1 + next(leases);
        let mut write = match next(12) {
            0 => delete(revision, of, 3 + revision / leases),
            1..4 => write(revision, (10 * revision % 700) as usize),
            _ => end(revision, 3 + revision / leases),
        };
        write.key = Key::of_text(&format!("ns/job-{of}"));
        // Each write of a lease but the first adds an id to those that are retired, and forgets some.
        let list = &mut retired[of as usize];
        match &mut write.content {
            Content::Deleted(deleted) => deleted.retired = std::mem::take(list),
            Content::Lease(stored) => {
                let before = list.clone();
                list.retain(|_| next(8) > 0);
                list.push(LeaseId::from_random_bits(0, revision));
                Arc::make_mut(stored).retired.clone_from(list);
                write.retired = Retired::between(before, list);
            }
        }
        if let Some(term) = &mut write.term {
            term.reason = (next(2) == 0).then(|| format!("at {revision}").into());
            term.ended = term.ended.filter(|_| next(3) > 0);
        }
        match batches.last_mut() {
            Some(batch) if next(2) == 0 => Vec::push(batch, write),
            _ => batches.push(vec![write]),
        }
    }
    (batches, retired)
}

#[test]
fn it_makes_no_difference_when_batches_are_put_in_their_places() {
    let (batches, retired) = batches(3, 10..70);
    let never = known_after(&batches, |_| false, false);
    assert!(!never.0.is_empty() && never.1.is_some() && !never.3.is_empty());
    assert!(never.2.iter().any(|terms| terms.len() == MOST));
    for (key, stored, _) in &never.0 {
        let of: usize = key.lease()[4..].parse().unwrap();
        assert_eq!(stored.retired, retired[of]);
    }
    let differences = batches
        .iter()
        .flatten()
        .filter(|write| write.retired.is_some());
    assert!(differences.count() > 10);
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
fn a_batch_that_can_not_be_put_in_its_place_stays_and_is_put_there_later() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let limit = |engine: &Embedded, pages: u32| {
        let limit = format!("PRAGMA max_page_count = {pages}");
        engine.connection.query_row(&limit, [], |_| Ok(())).unwrap();
    };
    let batch: Vec<Write> = (1..60).map(|revision| write(revision, 900)).collect();
    commit(&mut engine, &batch).unwrap();
    // The database may not grow, as on a disk without space.
    limit(&engine, 1);
    engine.rest().unwrap();
    assert_eq!(recent(&engine), 1);
    limit(&engine, 1_000_000);
    commit(&mut engine, &[write(60, 10)]).unwrap();
    engine.rest().unwrap();
    assert_eq!(recent(&engine), 0);
    drop(engine);
    let (loaded, _) = open(folder.path(), MOST).unwrap();
    assert_eq!(loaded.leases.len(), 60);
}

fn put_all_in_place(engine: &mut Embedded) {
    while matches!(engine.rest(), Ok(Rest::More)) {}
    assert_eq!(recent(engine), 0);
}

#[test]
fn of_deleted_leases_no_more_are_kept_than_their_limit_and_the_newest_of_them() {
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
            put_all_in_place(&mut engine);
        }
    }
    put_all_in_place(&mut engine);
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
