//! Slices of a checkpoint lose nothing, whatever happens between and after them.

use super::super::backlog::{CHANGES_PER_SLICE, SLICE};
use super::super::{Existing, backup, restore};
use super::*;

/// The number of leases: enough that a checkpoint of them takes several slices.
const LEASES: u64 = 60;

/// Opens the database without waits for the disk. That is enough for these tests, because only
/// processes of this machine read what was written.
fn open_quick(folder: &Path, max_history: usize) -> Embedded {
    let (_, engine) = open(folder, max_history).unwrap();
    let off = engine.connection.execute_batch("PRAGMA synchronous = OFF");
    off.unwrap();
    engine
}

/// Copies the folder as it is now, as a kill would leave it.
fn killed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["FORMAT", "RUNNING", "leases.db", "leases.db-wal"] {
        std::fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

/// Returns the leases, the floor and the terms that a start loads there. The store then commits one
/// more batch.
fn known(folder: &Path, more: &[LeaseChange]) -> Known {
    let (loaded, mut engine) = open(folder, MOST).unwrap();
    let told = terms(&engine, LEASES);
    assert_eq!(batch_count(&engine), 0);
    commit(&mut engine, more).unwrap();
    engine.close().unwrap();
    drop(engine);
    let (again, engine) = open(folder, MOST).unwrap();
    assert!(again.leases.len() >= loaded.leases.len());
    assert_eq!(terms(&engine, LEASES), told);
    let left = left(&loaded);
    (
        in_order(loaded.leases),
        loaded.floors.of_new("ns"),
        told,
        left,
    )
}

/// Returns the number of leases in the table.
fn placed(engine: &Embedded) -> usize {
    let count = "SELECT count(*) FROM lease_rows";
    let count = engine.connection.query_row(count, [], |row| row.get(0));
    count.unwrap()
}

#[test]
fn a_kill_after_any_slice_or_between_two_loses_nothing_and_a_start_goes_on() {
    // The same batches are committed to two stores. One of them writes nothing to its tables.
    let [folder, plain] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut engine = open_quick(folder.path(), MOST);
    let mut never = open_quick(plain.path(), MOST);
    let (batches, _) = batches(LEASES, 10..800);
    let (first, then) = batches.split_at(batches.len() * 3 / 4);
    for batch in first {
        commit_sets(&mut engine, batch).unwrap();
        commit_sets(&mut never, batch).unwrap();
    }
    let more = [write(9_000, 10)];
    let (mut slices, mut halfway) = (0, 0);
    for batch in then.chunks(then.len() / 6) {
        engine.checkpoint(Load::Idle).unwrap();
        slices += 1;
        halfway += usize::from(batch_count(&engine) > 0 && placed(&engine) > 0);
        let told = terms(&never, LEASES);
        assert_eq!(terms(&engine, LEASES), told, "slice {slices}");
        let expected = known(killed(plain.path()).path(), &more);
        assert_eq!(expected.2, told);
        let found = known(killed(folder.path()).path(), &more);
        assert_eq!(found, expected, "after slice {slices}");
        // The same holds if more is committed before the next slice.
        for batch in batch {
            commit_sets(&mut engine, batch).unwrap();
            commit_sets(&mut never, batch).unwrap();
        }
        assert_eq!(terms(&engine, LEASES), terms(&never, LEASES));
        let expected = known(killed(plain.path()).path(), &more);
        let found = known(killed(folder.path()).path(), &more);
        assert_eq!(found, expected, "before slice {}", slices + 1);
    }
    assert!(halfway > 4, "{halfway} of {slices}");
    while engine.checkpoint(Load::Idle).unwrap() == Progress::More {}
    assert_eq!(batch_count(&engine), 0);
    assert_eq!(terms(&engine, LEASES), terms(&never, LEASES));
    let expected = known(killed(plain.path()).path(), &more);
    assert!(expected.1.is_some());
    assert_eq!(known(killed(folder.path()).path(), &more), expected);
}

#[test]
fn a_backup_between_two_slices_is_complete() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let mut engine = open_quick(&at("store"), MOST);
    let (batches, _) = batches(LEASES, 10..900);
    for batch in &batches {
        commit_sets(&mut engine, batch).unwrap();
    }
    let (whole, _) = open(killed(&at("store")).path(), MOST).unwrap();
    let whole = in_order(whole.leases);
    for slice in 0..3 {
        assert_eq!(engine.checkpoint(Load::Idle).unwrap(), Progress::More);
        let [file, restored] = ["file", "restored"].map(|name| at(&format!("{name}-{slice}")));
        backup(&at("store"), &file, Existing::Keep).unwrap();
        restore(&file, &restored).unwrap();
        let (loaded, again) = open(&restored, MOST).unwrap();
        assert_eq!(in_order(loaded.leases), whole);
        assert_eq!(terms(&again, LEASES), terms(&engine, LEASES));
    }
}

/// The maximum number of rows that one transaction changes: rows of leases and terms, those of its
/// last lease, batches, and the row with the totals.
const MOST_ROWS: u64 = 2 * SLICE as u64 + 32 + 1;

/// Returns a change of this lease that ends a term and has much to write.
fn term_of(revision: u64, lease: u64) -> LeaseChange {
    let mut write = end(revision, revision);
    write.key = LeaseKey::of_text(&format!("ns/job-{lease}"));
    write
}

/// Commits `changes_at_once` changes at a time of these leases, in this order, without a pause.
/// Checks that no slice changes more rows than allowed, and that the number of changes that are
/// only in batches is bounded.
fn load(changes_at_once: u64, commits: u64, lease: impl Fn(u64) -> u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = open_quick(folder.path(), 100);
    let slices = changes_at_once.div_ceil(CHANGES_PER_SLICE as u64);
    let mut most = 0;
    for number in 0..commits {
        let first = 10 + number * changes_at_once;
        let revisions = first..first + changes_at_once;
        let batch: Vec<LeaseChange> = revisions.map(|at| term_of(at, lease(at))).collect();
        commit(&mut engine, &batch).unwrap();
        most = most.max(engine.backlog.size.changes);
        let before = engine.connection.total_changes();
        engine.checkpoint(Load::Busy).unwrap();
        let rows = engine.connection.total_changes() - before;
        assert!(rows <= slices * MOST_ROWS, "{rows} rows");
    }
    let in_batches = engine.backlog.size.changes;
    assert!(in_batches as u64 >= u64::from(batch_count(&engine)));
    let bound = 2 * BEGIN_AT.changes + changes_at_once as usize;
    assert!((BEGIN_AT.changes..=bound).contains(&most), "{most}");
    engine.close().unwrap();
    drop(engine);
    let (loaded, _) = open(folder.path(), 100).unwrap();
    assert!(loaded.revision > 9 + commits * changes_at_once);
}

#[test]
fn under_endless_load_slices_stay_small_and_batches_stay_bounded() {
    // The same leases change again and again, as with clients in a closed loop.
    load(32, 300, |at| at % 64);
    load(1, 6_000, |at| at % 64);
    // Each change is of another lease.
    load(33, 400, |at| at % 10_000);
    load(500, 24, |at| at);
    // Many leases change once, and then one lease changes repeatedly.
    load(32, 400, |at| at.min(4_000));
    load(200, 60, |at| at.min(4_000));
}

#[test]
fn tables_far_behind_the_log_catch_up_before_the_next_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    // This simulates changes that each needed many rows.
    for first in (10..12_010).step_by(500) {
        let batch: Vec<LeaseChange> = (first..first + 500).map(|at| term_of(at, at)).collect();
        commit(&mut engine, &batch).unwrap();
    }
    commit(&mut engine, &[write(20_000, 10)]).unwrap();
    engine.checkpoint(Load::Busy).unwrap();
    let left = engine.backlog.size.changes;
    assert!(left < 2 * BEGIN_AT.changes, "{left}");
}

#[test]
fn slices_keep_batches_that_a_start_could_not_write_to_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    commit(&mut engine, &[write(1, 10)]).unwrap();
    // This simulates a start on a full disk: there are batches that this process has not committed.
    engine.is_marked = true;
    engine.load(LeaseList::new()).unwrap();
    engine.backlog.max_age = Duration::MAX;
    commit(&mut engine, &[write(2, 10)]).unwrap();
    assert_eq!((batch_count(&engine), placed(&engine)), (2, 0));
    engine.checkpoint(Load::Idle).unwrap();
    assert_eq!((batch_count(&engine), placed(&engine)), (0, 2));
    drop(engine);
    let (loaded, _) = open(folder.path(), MOST).unwrap();
    assert_eq!(loaded.leases.len(), 2);
}

#[test]
fn a_failed_slice_delays_the_next_one_until_as_many_changes_again() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let limit = |engine: &Embedded, pages: u32| {
        let limit = format!("PRAGMA max_page_count = {pages}");
        engine.connection.query_row(&limit, [], |_| Ok(())).unwrap();
    };
    let mut revision = 10;
    let mut until = |engine: &mut Embedded, changes: usize| {
        while engine.backlog.size.changes < changes {
            let revisions = revision..revision + 32;
            let batch: Vec<LeaseChange> = revisions.map(|at| write(at, 200)).collect();
            commit(engine, &batch).unwrap();
            revision += 32;
        }
    };
    until(&mut engine, BEGIN_AT.changes);
    // The database may not grow, as on a full disk.
    limit(&engine, 1);
    assert_eq!(engine.checkpoint(Load::Idle).unwrap(), Progress::Done);
    engine.checkpoint(Load::Busy).unwrap();
    limit(&engine, 1_000_000);
    until(&mut engine, 2 * BEGIN_AT.changes - 64);
    engine.checkpoint(Load::Busy).unwrap();
    assert_eq!(placed(&engine), 0);
    until(&mut engine, 2 * BEGIN_AT.changes + 64);
    engine.checkpoint(Load::Busy).unwrap();
    assert!(placed(&engine) > 0);
}
