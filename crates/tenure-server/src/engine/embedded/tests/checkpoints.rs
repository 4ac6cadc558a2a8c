//! Checkpoints do not change the state that a start loads.

use super::*;

/// Returns everything that a store knows of three leases after these batches. A checkpoint follows
/// some of the batches. Then the store is closed or killed.
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
    (
        in_order(loaded.leases),
        loaded.floors.of_new("ns"),
        told,
        left,
    )
}

/// Returns whether the batch has a change with a delta of the retired ids.
fn has_delta(sets: &[ChangeSet]) -> bool {
    let mut batch = Batch::default();
    batch.encode(0, sets);
    let changes = batch.changes().unwrap();
    changes.iter().any(|change| change.delta.is_some())
}

#[test]
fn the_times_of_checkpoints_do_not_change_the_loaded_state() {
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
    assert_eq!(left.len(), 1, "only the lock may be left: {left:?}");
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
