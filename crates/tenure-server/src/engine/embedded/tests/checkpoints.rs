//! What checkpoints keep, and when they happen.

use super::*;

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
