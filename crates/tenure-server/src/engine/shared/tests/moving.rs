//! Backups of a log while a server writes, final ones, and restores into a log.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use tempfile::TempDir;
use tenure_core::ownership::{EngineId, TailState};

use super::super::log::{
    Append, Appended, Connect as _, LogError, LoggedBatch, Place, PlaceRange, SharedLog, Sighting,
};
use super::super::recover::RecoverError;
use super::super::{backup, restore};
use super::*;
use crate::engine::backup::BackupFile;
use crate::engine::restore::Backup;
use crate::engine::{BackupError, Contents, Existing, RestoreError, Restored};

/// The number of leases: enough that their places need several appends.
const LEASES: u64 = 150;

/// A folder for backups.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("backup.db")
    }

    fn backup(&self, log: &mut dyn SharedLog, is_final: bool) -> Result<Contents, BackupError> {
        self.backup_with(log, is_final, |_| {})
    }

    fn backup_with(
        &self,
        log: &mut dyn SharedLog,
        is_final: bool,
        wait: impl FnMut(Duration),
    ) -> Result<Contents, BackupError> {
        let file = BackupFile::create(&self.path(), Existing::Replace, None).unwrap();
        backup(log, "the memory", file, is_final, wait)
    }

    fn restore(&self, log: &mut dyn SharedLog) -> Result<Restored, RestoreError> {
        restore(log, "the memory", &self.path(), |_| {})
    }
}

fn log(service: &Arc<MemoryService>) -> Box<dyn SharedLog> {
    service.connect().connect().unwrap()
}

/// A connection that does something before each call.
struct Busy<F> {
    inner: Box<dyn SharedLog>,
    work: F,
}

impl<F> fmt::Debug for Busy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<F: FnMut() + Send> SharedLog for Busy<F> {
    fn head(&mut self) -> Result<Sighting, LogError> {
        (self.work)();
        self.inner.head()
    }

    fn append(&mut self, append: &Append<'_>) -> Result<Appended, LogError> {
        (self.work)();
        self.inner.append(append)
    }

    fn batches(&mut self, after: u64) -> Result<Vec<LoggedBatch>, LogError> {
        (self.work)();
        self.inner.batches(after)
    }

    /// Pages are small, so that a server writes between the segments of a lease, too.
    fn places(&mut self, range: &PlaceRange) -> Result<Vec<Place>, LogError> {
        (self.work)();
        let most = range.most.min(7);
        self.inner.places(&PlaceRange {
            most,
            ..range.clone()
        })
    }
}

/// Checks the content of a backup.
fn check_backup(files: &Files, model: &Model) {
    let backup = Backup::open(&files.path()).unwrap();
    model.check(&backup.loaded, "the backup");
}

/// A log with many leases, that a server owns.
fn used(service: &Arc<MemoryService>, model: &mut Model) -> (Server, Owner) {
    let mut server = Server::new("first", service);
    let mut owner = server.own();
    let (batches, _) = batches(LEASES, owner.revision + 1..owner.revision + 1_500);
    for (number, batch) in batches.iter().enumerate() {
        owner.commit(batch).unwrap();
        model.apply(batch);
        if number % 3 == 0 {
            owner.engine.advance(1 + number % 30).unwrap();
        }
    }
    (server, owner)
}

#[test]
fn a_backup_of_a_log_during_commits_has_everything_as_of_one_commit() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    let first = owner.revision + 1;
    let (batches, _) = batches(60, first..first + 9_000);
    let mut batches = batches.into_iter().enumerate();
    let (mut model, mut models) = (Model::default(), BTreeMap::new());
    let mut commit = |count: usize| {
        for (number, batch) in batches.by_ref().take(count) {
            owner.commit(&batch).unwrap();
            model.apply(&batch);
            models.insert(owner.revision, model.clone());
            // Places follow, so that pages differ in their age.
            owner.engine.advance(1 + number % 40).unwrap();
        }
        owner.revision
    };
    let files = Files::new();
    let mut backups = Vec::new();
    commit(700);
    for round in 0..6 {
        let began = commit(50);
        let mut calls = 0;
        let mut busy = Busy {
            inner: log(&service),
            work: || {
                calls += 1;
                commit(usize::from(calls % (round + 2) == 0));
            },
        };
        let contents = files.backup(&mut busy, false).unwrap();
        assert!(contents.revision >= began, "{contents:?}");
        let examined = std::fs::read(files.path()).unwrap();
        backups.push((contents.revision, examined));
    }
    let mut moved_on = 0;
    for (revision, bytes) in backups {
        std::fs::write(files.path(), bytes).unwrap();
        check_backup(&files, &models[&revision]);
        moved_on += 1;
    }
    assert_eq!(moved_on, 6);
}

#[test]
fn a_final_backup_deposes_the_owner_and_no_server_takes_the_log_over() {
    let service = MemoryService::new();
    let mut model = Model::default();
    let (server, mut owner) = used(&service, &mut model);
    let mut standby = Server::new("standby", &service);
    assert!(standby.follower.step().unwrap().is_none());
    let files = Files::new();
    let mut waited = Duration::ZERO;
    let began = Instant::now();
    let contents = files
        .backup_with(&mut *log(&service), true, |time| waited += time)
        .unwrap();
    // The owner may answer from memory for the ownership duration. A part of it passed meanwhile.
    assert!(waited <= T && waited + began.elapsed() >= T, "{waited:?}");
    assert_eq!(contents.revision, owner.revision);
    check_backup(&files, &model);
    let before = head_of(&service.content());
    assert_eq!(before.head.state, TailState::Retired);

    let error = owner.write().unwrap_err();
    assert!(
        matches!(&error, AppendError::NotOwner(reason) if reason.contains("final backup")),
        "{error}"
    );
    drop(owner);
    for _ in 0..200 {
        standby.advance(T / 10);
        assert!(standby.follower.step().unwrap().is_none());
    }
    let refusal = standby.status().view().refusal.unwrap();
    assert!(refusal.contains("tenure restore"), "{refusal}");
    assert_eq!(head_of(&service.content()), before);
    drop(server);

    // The file may be made again, after the same wait. Nothing can be recovered or restored there.
    let mut waited = Duration::ZERO;
    let began = Instant::now();
    let again = files.backup_with(&mut *log(&service), true, |time| waited += time);
    assert_eq!(again.unwrap(), contents);
    assert!(waited + began.elapsed() >= T, "{waited:?}");
    let error = files.restore(&mut *log(&service)).unwrap_err().to_string();
    assert!(error.contains("overwrites nothing"), "{error}");
}

#[test]
fn a_final_backup_of_a_log_that_was_left_does_not_wait() {
    let service = MemoryService::new();
    let mut model = Model::default();
    let (_server, mut owner) = used(&service, &mut model);
    owner.engine.close().unwrap();
    drop(owner);
    let files = Files::new();
    let mut waited = Duration::ZERO;
    let made = files.backup_with(&mut *log(&service), true, |time| waited += time);
    made.unwrap();
    assert_eq!(waited, Duration::ZERO);
    check_backup(&files, &model);
}

#[test]
fn a_final_backup_wins_against_an_owner_that_appends_and_has_all_that_it_committed() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    let (mut calls, mut committed) = (0, 0);
    let mut busy = Busy {
        inner: log(&service),
        work: || {
            calls += 1;
            // The owner is quicker at first.
            if calls < 40 && owner.write().is_ok() {
                committed = owner.revision;
            }
        },
    };
    let files = Files::new();
    let contents = files.backup(&mut busy, true).unwrap();
    assert_eq!(contents.revision, committed);
    assert!(contents.leases > 20, "{contents:?}");
}

#[test]
fn a_final_backup_whose_answer_is_lost_retires_the_log_once() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest] {
        let service = MemoryService::new();
        let mut server = Server::new("first", &service);
        let mut owner = server.own();
        owner.write().unwrap();
        let before = head_of(&service.content()).head;
        let connect = service.connect();
        connect.fail_appends([Some(fault), Some(fault), None]);
        let files = Files::new();
        files
            .backup(&mut *connect.connect().unwrap(), true)
            .unwrap();
        let after = head_of(&service.content()).head;
        assert_eq!(after.sequence, before.sequence + 1, "{fault:?}");
        assert_eq!(after.generation, before.generation + 1, "{fault:?}");
    }
}

#[test]
fn a_log_in_another_service_is_not_retired() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    service.change(|content| content.engine = EngineId(8));
    let files = Files::new();
    let error = files.backup(&mut *log(&service), true).unwrap_err();
    assert!(
        error.to_string().contains("tenure cluster recover"),
        "{error}"
    );
    assert_eq!(head_of(&service.content()).head.state, TailState::Owned);
}

#[test]
fn a_restored_log_has_everything_and_a_final_backup_goes_on_where_it_ended() {
    let service = MemoryService::new();
    let mut model = Model::default();
    let (_server, owner) = used(&service, &mut model);
    for is_final in [false, true] {
        let files = Files::new();
        let contents = files.backup(&mut *log(&service), is_final).unwrap();
        let target = MemoryService::new();
        let restored = files.restore(&mut *log(&target)).unwrap();
        assert_eq!(restored.is_final, is_final);
        assert_eq!(restored.contents.leases, contents.leases);
        let mut server = Server::new("next", &target);
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
        let before = head_of(&service.content()).content.store;
        assert_eq!(next.loaded.store_id, Some(before));
    }
}

#[test]
fn an_interrupted_restore_leaves_a_log_that_no_server_uses_and_can_be_repeated() {
    let service = MemoryService::new();
    let mut model = Model::default();
    let (_server, _owner) = used(&service, &mut model);
    let files = Files::new();
    files.backup(&mut *log(&service), true).unwrap();
    let mut interrupted = 0;
    for appends in 1.. {
        let target = MemoryService::new();
        let connect = target.connect();
        connect.fail_appends((0..appends).map(|_| None));
        connect.fail_appends([Some(Fault::Full)]);
        let restored = files.restore(&mut *connect.connect().unwrap());
        if connect.has_planned_faults() {
            restored.unwrap();
            break;
        }
        let error = restored.unwrap_err().to_string();
        assert!(error.contains("the memory: no space"), "{error}");
        interrupted += 1;
        assert_eq!(head_of(&target.content()).head.state, TailState::Restoring);
        let mut server = Server::new("next", &target);
        for _ in 0..30 {
            server.advance(T / 3);
            assert!(server.follower.step().unwrap().is_none());
        }
        assert_eq!(head_of(&target.content()).head.state, TailState::Restoring);
        let half = Files::new().backup(&mut *log(&target), false);
        let error = half.unwrap_err().to_string();
        assert!(
            error.contains("restore into the log is not complete"),
            "{error}"
        );
        // Something that the repeated restore would not overwrite.
        target.change(|content| {
            if let Some((key, value)) = content.places.pop_first() {
                content.places.insert(format!("{key}-x"), value);
            }
        });
        files.restore(&mut *log(&target)).unwrap();
        let owner = Server::new("last", &target).own();
        model.check(&owner.loaded, "restored");
    }
    assert!(interrupted > 3, "{interrupted}");
}

#[test]
fn nothing_is_restored_over_a_log() {
    let service = MemoryService::new();
    let mut model = Model::default();
    let (_server, owner) = used(&service, &mut model);
    let files = Files::new();
    files.backup(&mut *log(&service), false).unwrap();
    drop(owner);
    let before = service.content();
    let error = files.restore(&mut *log(&service)).unwrap_err().to_string();
    assert!(error.contains("last written by first"), "{error}");
    service.change(|content| content.head = None);
    let error = files.restore(&mut *log(&service)).unwrap_err();
    let RestoreError::Log {
        error: RecoverError::NotEmpty(detail),
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert!(detail.contains("no head"), "{detail}");
    assert_eq!(service.content().places, before.places);
}
