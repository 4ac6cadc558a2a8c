//! The first entry of a log, recoveries, backups of a log while a server writes, final ones, and restores.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use tempfile::TempDir;

use super::starts::of_later_format;
use super::*;
use crate::engine::backup::BackupFile;
use crate::engine::replica::Replica;
use crate::engine::restore::{REVISIONS_AHEAD, restore as restore_folder};
use crate::engine::{
    BackupError, Contents, Existing, LeaseList, RestoreError, backup as backup_folder, open,
};
use crate::model::{DocumentChange, EPOCHS_LEFT};

/// A folder for a backup.
struct Folder(TempDir);

fn no_wait(_: Duration) {}

/// The home, as a command of an operator reaches it.
fn reached(home: &FaultyHome) -> LogHome {
    home.open(&config("operator", T))
}

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("backup")
    }

    fn backup(&self, home: &FaultyHome, is_final: bool) -> Result<Contents, BackupError> {
        self.backup_with(home, is_final, &no_wait)
    }

    fn backup_with(
        &self,
        home: &FaultyHome,
        is_final: bool,
        wait: &dyn Fn(Duration),
    ) -> Result<Contents, BackupError> {
        let file = BackupFile::create(&self.path(), Existing::Replace, None).unwrap();
        OperatorLog::new(&reached(home), wait).backup(file, is_final)
    }

    fn restore(&self, home: &FaultyHome) -> Result<Restored, RestoreError> {
        OperatorLog::new(&reached(home), &no_wait).restore(&self.path())
    }

    /// Returns the content of the backup.
    fn loaded(&self) -> Loaded {
        let replica = Replica::open(&self.path(), HistoryLimits::NONE);
        replica.unwrap().loaded().unwrap()
    }

    /// Checks the content of the backup.
    fn check(&self, model: &Model) {
        model.check(&self.loaded(), "the backup");
    }
}

/// A log with many leases and documents, that a server owns.
fn used(home: &FaultyHome, model: &mut Model) -> (Server, Owner) {
    let mut server = Server::with_access("first", home, ClusterAccess::Guarded);
    let mut owner = server.own();
    let (batches, _) = batches(150, owner.revision + 1..owner.revision + 1_500);
    for batch in &batches {
        owner.commit(batch).unwrap();
        model.apply(batch);
    }
    let document = |name: &str, revision, content: Option<&str>| ChangeSet {
        documents: vec![DocumentChange {
            name: name.into(),
            revision,
            content: content.map(|it| it.to_owned().into()),
        }],
        ..ChangeSet::default()
    };
    let revision = owner.revision;
    let sets = [
        document("blob/a", revision + 1, Some("one")),
        document("blob/b", revision + 2, Some("two")),
        document("blob/a", revision + 3, None),
    ];
    owner.commit(&sets).unwrap();
    (server, owner)
}

/// Checks everything that a copy of the log of [`used`] has beside its leases.
fn check_rest(loaded: &Loaded) {
    let documents = loaded.documents.values();
    let documents: Vec<_> = documents
        .map(|it| (it.name.as_str(), it.content.as_ref()))
        .collect();
    assert_eq!(documents, [("blob/b", b"two".as_slice())]);
    assert!(loaded.is_guarded);
}

#[test]
fn the_first_server_takes_a_log_that_was_begun_over_at_once() {
    let home = FaultyHome::default();
    let store = init(&reached(&home), &no_wait).unwrap();
    let error = init(&reached(&home), &no_wait).unwrap_err().to_string();
    assert!(error.contains(store.as_str()), "{error}");
    let mut server = Server::new("first", &home);
    let owner = server.follow(T / 6).expect("a take-over");
    assert_eq!(owner.loaded.store_id, Some(store));
    assert_eq!(owner.generation, 2);
}

#[test]
fn a_backup_of_a_log_during_commits_has_everything_as_of_one_commit() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    let first = owner.revision + 1;
    let (batches, _) = batches(60, first..first + 9_000);
    let mut batches = batches.into_iter();
    let (mut model, models) = (Model::default(), Arc::new(Mutex::new(BTreeMap::new())));
    let noted = Arc::clone(&models);
    let commit = move |count: usize| {
        for batch in batches.by_ref().take(count) {
            owner.commit(&batch).unwrap();
            model.apply(&batch);
            noted.lock().unwrap().insert(owner.revision, model.clone());
        }
        owner.revision
    };
    let commit = Arc::new(Mutex::new(commit));
    let files = Folder::new();
    commit.lock().unwrap()(700);
    for round in 0..6 {
        let began = commit.lock().unwrap()(50);
        let busy = home.for_another();
        let (commit, mut calls) = (Arc::clone(&commit), 0);
        busy.before_each(move || {
            calls += 1;
            // The last rounds are quicker than the reads.
            commit.lock().unwrap()(if calls % (round + 2) == 0 {
                1 + 40 * round
            } else {
                0
            });
        });
        let contents = files.backup(&busy, false).unwrap();
        assert!(contents.revision >= began, "{contents:?}");
        files.check(&models.lock().unwrap()[&contents.revision]);
    }
}

#[test]
fn a_final_backup_deposes_the_owner_and_no_server_takes_the_log_over() {
    let home = FaultyHome::default();
    let mut model = Model::default();
    let (server, mut owner) = used(&home, &mut model);
    let mut standby = Server::new("standby", &home);
    assert!(standby.step().unwrap().is_none());
    let files = Folder::new();
    let waited = Cell::new(Duration::ZERO);
    let wait = |time| waited.set(waited.get() + time);
    let began = Instant::now();
    let contents = files.backup_with(&home, true, &wait).unwrap();
    // The owner may answer from memory for the ownership duration. A part of it passed meanwhile.
    assert!(
        waited.get() <= T && waited.get() + began.elapsed() >= T,
        "{waited:?}"
    );
    assert_eq!(contents.revision, owner.revision);
    files.check(&model);
    check_rest(&files.loaded());
    let before = tail_of(&home);
    assert_eq!(before.tail.state, TailState::Retired);

    let error = owner.write().unwrap_err();
    assert!(
        matches!(&error, AppendError::NotOwner(reason) if reason.contains("final backup")),
        "{error}"
    );
    assert!(!server.status().serving.check());
    drop(owner);
    assert!(standby.follow(20 * T).is_none());
    assert!(
        standby.refusal().contains("tenure restore"),
        "{}",
        standby.refusal()
    );
    assert_eq!(tail_of(&home), before);
    drop(server);

    // The file may be made again, after the same wait. Nothing can be recovered or restored there.
    waited.set(Duration::ZERO);
    let began = Instant::now();
    assert_eq!(files.backup_with(&home, true, &wait).unwrap(), contents);
    assert!(waited.get() + began.elapsed() >= T, "{waited:?}");
    let error = files.restore(&home).unwrap_err().to_string();
    assert!(error.contains("overwrites nothing"), "{error}");
    check_chain(&home);
}

#[test]
fn a_final_backup_of_a_log_that_was_left_does_not_wait() {
    let home = FaultyHome::default();
    let mut model = Model::default();
    let (_server, mut owner) = used(&home, &mut model);
    owner.log.close().unwrap();
    drop(owner);
    let files = Folder::new();
    let wait = |time: Duration| assert!(time.is_zero(), "{time:?}");
    files.backup_with(&home, true, &wait).unwrap();
    files.check(&model);
}

#[test]
fn a_final_backup_wins_against_an_owner_that_appends_and_has_all_that_it_committed() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    let committed = Arc::new(AtomicU64::new(0));
    let (noted, mut calls) = (Arc::clone(&committed), 0);
    let busy = home.for_another();
    busy.before_each(move || {
        calls += 1;
        // The owner is quicker at first.
        if calls < 60 && owner.write().is_ok() {
            noted.store(owner.revision, Ordering::SeqCst);
        }
    });
    let contents = Folder::new().backup(&busy, true).unwrap();
    assert_eq!(contents.revision, committed.load(Ordering::SeqCst));
    assert!(contents.leases > 20, "{contents:?}");
}

#[test]
fn a_final_backup_whose_answer_is_lost_retires_the_log_once() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest] {
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        let mut owner = server.own();
        owner.write().unwrap();
        let before = tail_of(&home).tail;
        let faulty = home.for_another();
        faulty.fail_replaces([Some(fault), Some(fault), None]);
        Folder::new().backup(&faulty, true).unwrap();
        let after = tail_of(&home).tail;
        assert_eq!(after.sequence, before.sequence + 1, "{fault:?}");
        assert_eq!(after.generation, before.generation + 1, "{fault:?}");
    }
}

#[test]
fn a_log_in_another_home_is_not_retired() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    server.own().write().unwrap();
    home.memory.promote(0);
    let error = Folder::new().backup(&home, true).unwrap_err().to_string();
    assert!(error.contains("tenure cluster recover"), "{error}");
    assert_eq!(tail_of(&home).tail.state, TailState::Owned);
}

#[test]
fn a_restored_log_has_everything_and_a_final_backup_goes_on_where_it_ended() {
    let home = FaultyHome::default();
    let mut model = Model::default();
    let (_server, owner) = used(&home, &mut model);
    for is_final in [false, true] {
        let files = Folder::new();
        let contents = files.backup(&home, is_final).unwrap();
        let target = FaultyHome::default();
        let restored = files.restore(&target).unwrap();
        assert_eq!(restored.is_final, is_final);
        assert_eq!(restored.contents.leases, contents.leases);
        // A server that starts, and one that has followed the restored log.
        let mut warm = Server::with_access("warm", &target, ClusterAccess::Guarded);
        warm.reached.fail_replaces([Some(Fault::NotApplied)]);
        assert!(warm.step().unwrap().is_none());
        for mut server in [
            Server::with_access("next", &target, ClusterAccess::Guarded),
            warm,
        ] {
            let next = server.own();
            assert_eq!(next.revision, restored.revisions_above);
            let mut expected = model.clone();
            if is_final {
                assert_eq!(next.revision, owner.revision);
                assert_eq!(Some(restored.epochs_above), contents.last_epoch);
            } else {
                assert!(next.revision > owner.revision + 1_000_000);
                let above = next.loaded.floors.of_existing("ns");
                let asked = contents.last_epoch.map(|it| it + Epoch::ASKED_AHEAD);
                assert!(above.map(Epoch::get) > asked);
                assert!(above >= Epoch::new(restored.epochs_above));
                expected.floor = above;
            }
            expected.check(&next.loaded, "restored");
            check_rest(&next.loaded);
            assert_eq!(next.loaded.store_id, Some(tail_of(&home).about.store));
        }
        assert!(tail_of(&target).about.is_guarded);
        check_chain(&target);
    }
}

#[test]
fn a_backup_of_a_folder_goes_on_in_a_cluster_and_back() {
    let folders = [Folder::new(), Folder::new()];
    let data = folders.each_ref().map(|it| it.0.path().join("data"));
    let mut leases = LeaseList::new();
    let (loaded, home) = open(Some(&data[0]), HISTORY, &mut leases).unwrap();
    let mut home = home.unwrap();
    let mut model = Model::default();
    let (changes, _) = batches(40, loaded.revision + 1..loaded.revision + 400);
    for batch in &changes {
        home.commit(batch).unwrap();
        model.apply(batch);
    }
    home.log.close().unwrap();
    drop(home);
    crate::engine::mark_guarded(&data[0]).unwrap();
    crate::engine::final_backup(&data[0], &folders[0].path(), Existing::Keep).unwrap();
    let home = FaultyHome::default();
    folders[0].restore(&home).unwrap();
    let mut server = Server::with_access("first", &home, ClusterAccess::Guarded);
    let mut owner = server.own();
    model.check(&owner.loaded, "in the cluster");
    assert!(owner.loaded.is_guarded);
    let (more, _) = batches(40, owner.revision + 1..owner.revision + 400);
    for batch in &more {
        owner.commit(batch).unwrap();
        model.apply(batch);
    }
    folders[1].backup(&home, true).unwrap();
    restore_folder(&folders[1].path(), &data[1]).unwrap();
    let mut leases = LeaseList::new();
    let (mut loaded, _) = open(Some(&data[1]), HISTORY, &mut leases).unwrap();
    loaded.leases = leases;
    model.check(&loaded, "in the folder");
    assert!(loaded.is_guarded);
    let copy = folders[1].0.path().join("copy");
    backup_folder(&data[1], &copy, Existing::Keep).unwrap();
}

#[test]
fn an_interrupted_restore_leaves_a_log_that_no_server_uses_and_can_be_repeated() {
    let home = FaultyHome::default();
    let mut model = Model::default();
    let (_server, _owner) = used(&home, &mut model);
    let files = Folder::new();
    files.backup(&home, true).unwrap();
    // No entry, no file, and no entry that names it.
    for step in 0..3 {
        let target = FaultyHome::default();
        let faulty = target.for_another();
        match step {
            0 => faulty.fail_replaces([Some(Fault::Full)]),
            1 => faulty.fail_files(Some(Fault::Full)),
            _ => faulty.fail_replaces([None, Some(Fault::Full)]),
        }
        let error = files.restore(&faulty).unwrap_err().to_string();
        assert_eq!(
            error,
            "nothing was restored into memory, cluster default: no space"
        );
        if step > 0 {
            let mut server = Server::new("next", &target);
            assert!(server.follow(10 * T).is_none());
            assert!(
                server
                    .refusal()
                    .contains("restore into the log is not complete")
            );
            assert_eq!(tail_of(&target).tail.state, TailState::Restoring);
            let error = Folder::new()
                .backup(&target, false)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("restore into the log is not complete"),
                "{error}"
            );
        }
        files.restore(&target).unwrap();
        let owner = Server::with_access("last", &target, ClusterAccess::Guarded).own();
        model.check(&owner.loaded, "restored");
        check_rest(&owner.loaded);
    }
}

#[test]
fn a_restore_whose_answers_are_lost_is_made_once() {
    let home = FaultyHome::default();
    let mut model = Model::default();
    let (_server, _owner) = used(&home, &mut model);
    let files = Folder::new();
    files.backup(&home, true).unwrap();
    for fault in [Fault::LoseAnswer, Fault::LoseRequest] {
        let target = FaultyHome::default();
        let faulty = target.for_another();
        faulty.fail_replaces([Some(fault), Some(fault), None, Some(fault), None]);
        files.restore(&faulty).unwrap();
        assert_eq!(tail_of(&target).tail.sequence, 2, "{fault:?}");
        let faulty = FaultyHome::default();
        faulty.fail_replaces([Some(fault), None]);
        let store = init(&reached(&faulty), &no_wait).unwrap();
        assert_eq!(tail_of(&faulty).about.store, store, "{fault:?}");
    }
}

#[test]
fn nothing_is_restored_over_a_log() {
    let home = FaultyHome::default();
    let mut model = Model::default();
    let (_server, owner) = used(&home, &mut model);
    let files = Folder::new();
    files.backup(&home, false).unwrap();
    drop(owner);
    let (before, names) = (entries_of(&home), files_of(&home));
    let error = files.restore(&home).unwrap_err().to_string();
    assert!(error.contains("last written by first"), "{error}");
    assert_eq!(entries_of(&home), before);
    (0..256).for_each(|slot| home.memory.remove(&slot_key(slot)));
    let error = files.restore(&home).unwrap_err().to_string();
    assert!(
        error.contains("the log has no entry, but the file"),
        "{error}"
    );
    assert_eq!(files_of(&home), names);
}

#[test]
fn after_a_recovery_epochs_and_revisions_are_far_above_and_all_leases_are_there() {
    // A young log, and one that has files.
    for is_young in [true, false] {
        let home = FaultyHome::default();
        let mut model = Model::default();
        let (_server, mut owner) = match is_young {
            true => {
                let mut server = Server::with_access("first", &home, ClusterAccess::Guarded);
                let mut owner = server.own();
                owner.write().unwrap();
                (server, owner)
            }
            false => used(&home, &mut model),
        };
        owner.write().unwrap();
        let count = Server::with_access("reader", &home.copied(), ClusterAccess::Guarded)
            .own()
            .loaded
            .leases
            .len();
        let before = tail_of(&home);
        drop(owner);
        home.memory.promote(0);
        let waited = RefCell::new(Vec::new());
        let recovered = recover(&reached(&home), &|time| waited.borrow_mut().push(time)).unwrap();
        assert_eq!(*waited.borrow(), [T]);
        assert_eq!(recovered.contents.leases, count as u64);
        assert!(recovered.epochs_above >= Epoch::ASKED_AHEAD);
        let after = tail_of(&home);
        assert_ne!(after.tail.home, before.tail.home);
        assert_eq!(after.about.store, before.about.store);
        assert!(after.about.is_guarded);
        assert_eq!(after.revision, before.revision + REVISIONS_AHEAD);
        assert_eq!(recovered.revisions_above, after.revision);

        // The next server accepts the log, with the changes after the recovery in one chain.
        let mut server = Server::with_access("next", &home, ClusterAccess::Guarded);
        let mut next = server.own();
        assert_eq!(next.generation, before.tail.generation + 2);
        assert_eq!(next.loaded.leases.len(), count);
        assert_eq!(next.revision, after.revision);
        let last = Contents::of(&next.loaded).last_epoch.unwrap();
        assert!(last >= recovered.epochs_above, "{last}");
        next.write().unwrap();
        check_chain(&home);
    }
}

#[test]
fn a_standby_that_runs_during_a_recovery_grants_no_lower_epochs_than_a_server_that_starts() {
    for entries in [3, 300] {
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        let mut owner = server.own();
        for _ in 0..entries {
            owner.write().unwrap();
        }
        owner.log.close().unwrap();
        let mut standby = Server::new("standby", &home);
        // It has a copy, and has not taken over yet.
        standby.reached.fail_replaces([Some(Fault::NotApplied)]);
        assert!(standby.step().unwrap().is_none());
        let recovered = recover(&reached(&home), &no_wait).unwrap();
        let next = standby.own();
        let last = Contents::of(&next.loaded).last_epoch.unwrap();
        assert_eq!(last, recovered.epochs_above);
        assert_eq!(next.loaded.leases.len(), entries);
    }
}

#[test]
fn a_log_that_a_server_writes_to_is_not_recovered() {
    let home = FaultyHome::default();
    let mut server = Server::new("store-1", &home);
    let mut owner = server.own();
    owner.write().unwrap();
    let owner = Mutex::new(owner);
    let opened = reached(&home);
    let error = recover(&opened, &|_| owner.lock().unwrap().write().unwrap()).unwrap_err();
    let text = "store-1 writes to the log: stop all servers of the cluster first";
    assert_eq!(error, RecoverError::Refused(text.into()));
    assert_eq!(tail_of(&home).tail.generation, 1);
}

#[test]
fn a_recovery_whose_answer_is_lost_is_not_made_twice() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest, Fault::NotApplied] {
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        server.own().write().unwrap();
        let before = tail_of(&home).tail.sequence;
        let first = (fault != Fault::NotApplied).then_some(fault);
        home.fail_replaces([first.or(Some(Fault::LoseRequest)), Some(fault), None]);
        recover(&reached(&home), &no_wait).unwrap();
        assert_eq!(tail_of(&home).tail.sequence, before + 1, "{fault:?}");
    }
}

#[test]
fn what_can_t_be_recovered_is_left_as_it_is() {
    /// The error of a recovery, which must change nothing.
    fn tried(home: &FaultyHome) -> RecoverError {
        let before = entries_of(home);
        let error = recover(&reached(home), &no_wait).unwrap_err();
        assert_eq!(entries_of(home), before);
        error
    }
    let used = || {
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        server.own().write().unwrap();
        home
    };
    let empty = tried(&FaultyHome::default()).to_string();
    assert!(empty.starts_with("the log is empty: "), "{empty}");
    for state in [TailState::Restoring, TailState::Retired] {
        let home = used();
        change_tail(&home, |value| value.tail.state = state);
        assert!(matches!(tried(&home), RecoverError::Refused(_)));
    }
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    let last = Epoch::MAX.get() - EPOCHS_LEFT;
    owner
        .commit(&[alone(delete(owner.revision + 1, 7, last))])
        .unwrap();
    drop(owner);
    let text = format!("the greatest epoch is {last}, which leaves too few epochs for grants");
    assert_eq!(tried(&home), RecoverError::Damaged(text));
    let home = used();
    overwrite(&home, 3, of_later_format());
    let error = recover(&reached(&home), &no_wait).unwrap_err().to_string();
    assert!(error.contains("format 2"), "{error}");
}
