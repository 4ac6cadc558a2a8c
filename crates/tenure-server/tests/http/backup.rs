//! Backups of running stores, and restores from them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{
    Answer, Api, Running, answer, assert_ok, assert_refused, id, killed, minute, newest_log, start,
};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::{BackupError, Contents, Existing, OpenError, RestoreError, Store, StoreConfig};
use tenure_server::{backup, final_backup, is_guarded, mark_guarded, restore};

/// A running store, and a directory for its backups and restored stores.
struct Bench {
    server: Option<Running>,
    store: TempDir,
    place: TempDir,
}

impl Bench {
    fn new() -> Self {
        let store = tempfile::tempdir().unwrap();
        Self {
            server: Some(start(StoreConfig::folder(store.path()))),
            store,
            place: tempfile::tempdir().unwrap(),
        }
    }

    fn api(&self) -> &Api {
        &self.server.as_ref().unwrap().api
    }

    async fn stop(&mut self) {
        self.server.take().unwrap().stop().await.unwrap();
    }

    fn file(&self) -> PathBuf {
        self.place.path().join("backup")
    }

    fn restored(&self) -> PathBuf {
        self.place.path().join("restored")
    }

    async fn backup(&self, existing: Existing) -> Result<Contents, BackupError> {
        let (store, file) = (self.store.path().to_owned(), self.file());
        let backup = move || backup(&store, &file, existing);
        tokio::task::spawn_blocking(backup).await.unwrap()
    }
}

/// Acquires the lease "job" of another namespace than that of the other tests.
async fn acquire_in(api: &Api, namespace: &str, body: Value) -> Answer {
    let path = format!("/v1/namespaces/{namespace}/leases/job/acquire");
    let request = api.request(Method::POST, &path).json(&body);
    answer(request.send().await.unwrap()).await
}

fn open(folder: &Path) -> Result<Store, OpenError> {
    Store::open(StoreConfig::folder(folder))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_has_every_change_acknowledged_before_it() {
    let mut bench = Bench::new();
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let (api, stop) = (bench.api().clone(), Arc::clone(&stop));
            let acknowledged = Arc::clone(&acknowledged);
            tokio::spawn(async move {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let lease = format!("{client}-{}", number % 300);
                    let id = client * 1_000_000 + number + 1;
                    let granted = api.acquire(&lease, id).await;
                    assert_ok(&granted);
                    let epoch = granted.1["epoch"].as_u64().unwrap();
                    acknowledged.lock().unwrap().insert(lease.clone(), epoch);
                    assert_ok(&api.release(&lease, id).await);
                }
            })
        })
        .collect();
    let mut revision = 0;
    for round in 0..10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = acknowledged.lock().unwrap().clone();
        let contents = bench.backup(Existing::Replace).await.unwrap();
        assert!(contents.revision > revision, "{contents:?}");
        revision = contents.revision;
        let restored = bench.place.path().join(format!("restored-{round}"));
        assert_eq!(
            restore(&bench.file(), &restored).unwrap().contents,
            contents
        );
        let server = start(StoreConfig::folder(&restored));
        for (lease, epoch) in &before {
            let (_, history) = server.api.history(lease).await;
            let last = history["terms"][0]["epoch"].as_u64();
            assert!(last >= Some(*epoch), "{round}: {lease} {epoch} {history}");
        }
        server.stop().await.unwrap();
        fs::remove_dir_all(&restored).unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    // The backup did not damage the store's log: a store that is killed now starts with everything.
    let copy = killed(bench.store.path());
    let again = start(StoreConfig::folder(copy.path()));
    let all = acknowledged.lock().unwrap().clone();
    for (lease, epoch) in all {
        let (_, granted) = again.api.acquire(&lease, 9_999_999).await;
        assert!(granted["epoch"].as_u64() > Some(epoch), "{granted}");
    }
    // The directory of the backup has no other files.
    assert_eq!(names(bench.place.path()), ["backup"]);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_reports_its_contents() {
    let bench = Bench::new();
    let lasting = |number, duration, lock_delay: u64| {
        json!({"holder": "c", "lease_id": id(number), "duration_ms": duration,
            "lock_delay_ms": lock_delay})
    };
    let api = bench.api();
    assert_ok(&api.post("a", "acquire", lasting(1, json!(15_000), 0)).await);
    assert_ok(
        &api.post("b", "acquire", lasting(2, json!(20_000), 3_000))
            .await,
    );
    assert_ok(&api.release("b", 2).await);
    let (_, last) = api
        .post("c", "acquire", lasting(3, json!("infinite"), 0))
        .await;
    let contents = bench.backup(Existing::Keep).await.unwrap();
    assert_eq!(
        (contents.leases, contents.held, contents.infinite),
        (3, 2, 1)
    );
    assert_eq!(Some(contents.revision), last["revision"].as_u64());
    assert!(contents.last_epoch >= last["epoch"].as_u64());
    assert_eq!(contents.longest, Duration::from_secs(23));
    let metadata = fs::metadata(bench.file()).unwrap();
    assert_eq!(contents.bytes, metadata.len());
    // The file contains lease ids.
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_replaces_a_file_only_on_request() {
    let bench = Bench::new();
    fs::write(bench.file(), "precious").unwrap();
    let refused = bench.backup(Existing::Keep).await.unwrap_err();
    assert!(matches!(refused, BackupError::Exists { .. }), "{refused}");
    assert!(refused.to_string().contains("backup exists"));
    assert_eq!(fs::read_to_string(bench.file()).unwrap(), "precious");
    bench.backup(Existing::Replace).await.unwrap();
    assert!(
        fs::read(bench.file())
            .unwrap()
            .starts_with(b"tenure snapshot 1\n")
    );

    let inside = bench.store.path().join("copy");
    let refused = backup(bench.store.path(), &inside, Existing::Replace).unwrap_err();
    let is_inside = matches!(refused, BackupError::InsideStore { .. });
    assert!(is_inside, "{refused}");
    let nowhere = bench.place.path().join("no/such/folder/backup");
    let refused = backup(bench.store.path(), &nowhere, Existing::Keep).unwrap_err();
    assert!(matches!(refused, BackupError::Io { .. }), "{refused}");
    let empty = tempfile::tempdir().unwrap();
    let refused = backup(empty.path(), &bench.file(), Existing::Keep).unwrap_err();
    assert!(matches!(refused, BackupError::NoStore { .. }), "{refused}");
    assert_eq!(names(empty.path()), [""; 0]);
    assert_ok(&bench.api().acquire("job", 1).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_store_is_not_backed_up() {
    let mut bench = Bench::new();
    for number in 1..=40 {
        assert_ok(&bench.api().acquire(&format!("job-{number}"), number).await);
    }
    let dead = killed(bench.store.path());
    bench.stop().await;
    let refused = |folder: &Path, file: &Path| {
        let error = backup(folder, &bench.file(), Existing::Keep).unwrap_err();
        let is_damage = matches!(error, BackupError::Store(OpenError::Damaged { .. }));
        assert!(is_damage, "{error}");
        assert!(
            error.to_string().contains(&file.display().to_string()),
            "{error}"
        );
        assert_eq!(names(bench.place.path()), [""; 0]);
    };
    // This changes a bit in the middle of the log, of a killed store and of one that was stopped.
    for folder in [dead.path(), bench.store.path()] {
        let log = newest_log(folder);
        let mut bytes = fs::read(&log).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[used / 2] ^= 1;
        fs::write(&log, bytes).unwrap();
        refused(folder, &log);
    }
    fs::remove_file(newest_log(dead.path())).unwrap();
    refused(dead.path(), dead.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn epochs_and_revisions_of_a_restored_store_are_above_all_of_the_lost_one() {
    let mut bench = Bench::new();
    let api = bench.api();
    assert_ok(&api.acquire("held", 1).await);
    assert_ok(&api.acquire("free", 2).await);
    assert_ok(&api.release("free", 2).await);
    let contents = bench.backup(Existing::Keep).await.unwrap();
    // The backup does not have these grants.
    let mut told = Vec::new();
    assert_ok(&api.release("held", 1).await);
    for (number, lease) in (3..).zip(["held", "free", "new"]) {
        let (_, granted) = api.acquire(lease, number).await;
        told.push((
            granted["epoch"].as_u64().unwrap(),
            granted["revision"].as_u64().unwrap(),
        ));
    }
    let wall = u64::try_from(chrono::Utc::now().timestamp_millis()).unwrap();
    bench.stop().await;

    let restored = restore(&bench.file(), &bench.restored()).unwrap();
    assert_eq!(restored.contents, contents);
    // This holds even if the clock of the lost store was ahead by hours.
    let hours = 23 * 60 * 60 * 1000;
    let most = told.iter().max().unwrap().0 + hours;
    assert!(restored.epochs_above > most && restored.epochs_above > wall + hours);
    let server = start(StoreConfig::folder(bench.restored()));
    let api = &server.api;
    // The lease was held when the backup was taken. Its term continues with its epoch, and the next
    // term has a greater one.
    let (_, held) = api.get("held").await;
    assert!(held["epoch"].as_u64() <= contents.last_epoch);
    assert_refused(&api.renew("held", 3).await, 409, "lease_id_mismatch");
    assert_ok(&api.renew("held", 1).await);
    assert_ok(&api.release("held", 1).await);
    for (number, lease) in (10..).zip(["held", "free", "new", "newer"]) {
        let (status, granted) = api.acquire(lease, number).await;
        assert_eq!(status, 200, "{granted}");
        let epoch = granted["epoch"].as_u64().unwrap();
        assert!(
            epoch > most && epoch > restored.epochs_above,
            "{lease}: {epoch}"
        );
        let revision = granted["revision"].as_u64().unwrap();
        let last = told.iter().map(|(_, revision)| *revision).max().unwrap();
        assert!(revision > last + 1_000_000_000_000, "{lease}: {revision}");
        // All JSON readers represent the numbers in a view exactly.
        assert!(revision.max(epoch) < 1 << 53);
    }
    // This stays true after the restored store restarts.
    server.stop().await.unwrap();
    let server = start(StoreConfig::folder(bench.restored()));
    assert_ok(&server.api.release("newer", 13).await);
    let (_, granted) = server.api.acquire("newest", 20).await;
    assert!(granted["epoch"].as_u64() > Some(most), "{granted}");
    let (_, granted) = server.api.acquire("newer", 21).await;
    assert!(granted["epoch"].as_u64() > Some(most), "{granted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_backup_is_refused_and_leaves_no_store() {
    let bench = Bench::new();
    for number in 1..=40 {
        assert_ok(&bench.api().acquire(&format!("job-{number}"), number).await);
    }
    bench.backup(Existing::Keep).await.unwrap();
    let good = fs::read(bench.file()).unwrap();
    let bad = bench.place.path().join("bad-file");
    let mut refused = 0;
    for at in (0..good.len()).step_by(31) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&bad, bytes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let error = restore(&bad, folder.path()).unwrap_err().to_string();
        assert!(error.contains("bad-file"), "{error}");
        assert_eq!(names(folder.path()), [""; 0], "{at}");
        refused += 1;
    }
    assert!(refused > 10, "{refused}");
    for bytes in [
        &good[..good.len() / 2],
        &good[..good.len() - 1],
        b"",
        b"words",
    ] {
        fs::write(&bad, bytes).unwrap();
        let error = restore(&bad, &bench.restored()).unwrap_err();
        assert!(matches!(error, RestoreError::Damaged { .. }), "{error}");
        assert!(!bench.restored().exists());
    }
    // The refused restores left nothing that prevents the restore of a valid backup.
    restore(&bench.file(), &bench.restored()).unwrap();
    drop(open(&bench.restored()).unwrap());
    let gone = restore(
        &bench.place.path().join("gone"),
        &bench.place.path().join("nowhere"),
    );
    assert!(gone.unwrap_err().to_string().contains("gone"));
    assert!(!bench.place.path().join("nowhere").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_restored_over_a_store() {
    let mut bench = Bench::new();
    assert_ok(&bench.api().acquire("job", 1).await);
    bench.backup(Existing::Keep).await.unwrap();
    let error = restore(&bench.file(), bench.store.path()).unwrap_err();
    let is_in_use = matches!(error, RestoreError::Folder(OpenError::InUse { .. }));
    assert!(is_in_use, "{error}");
    let dead = killed(bench.store.path());
    bench.stop().await;
    for folder in [bench.store.path(), dead.path()] {
        let error = restore(&bench.file(), folder).unwrap_err();
        assert!(matches!(error, RestoreError::StoreThere { .. }), "{error}");
        let again = start(StoreConfig::folder(folder));
        assert_ok(&again.api.renew("job", 1).await);
        again.stop().await.unwrap();
    }
    // A restore is also refused if the directory has any part of a store.
    for part in ["log-00000000000000000003", "snapshot-00000000000000000000"] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(part), "").unwrap();
        let error = restore(&bench.file(), folder.path()).unwrap_err();
        assert!(matches!(error, RestoreError::StoreThere { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_restore_leaves_no_store_and_can_be_repeated() {
    let mut bench = Bench::new();
    bench.backup(Existing::Keep).await.unwrap();
    let (_, granted) = bench.api().acquire("job", 1).await;
    bench.backup(Existing::Replace).await.unwrap();
    bench.stop().await;
    let whole = fs::read(bench.file()).unwrap();
    // These are the files after a kill at each step: nothing was written yet, a half, all of it, and
    // all of it with the file of the log.
    let half = &whole[..whole.len() / 2];
    let stages: [&[(&str, &[u8])]; 4] = [
        &[("snapshot.restoring", b"")],
        &[("snapshot.restoring", half), ("RESTORED", b"at some time")],
        &[("snapshot.restoring", &whole)],
        &[
            ("snapshot.restoring", &whole),
            ("log-00000000000000000009", b"tenure log 1\n"),
        ],
    ];
    for stage in stages {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in stage {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let before = names(folder.path());
        for _ in 0..2 {
            let error = open(folder.path()).unwrap_err();
            assert!(
                matches!(error, OpenError::RestoreCutShort { .. }),
                "{error}"
            );
            assert!(error.to_string().contains("snapshot.restoring"), "{error}");
        }
        let error = backup(folder.path(), &bench.place.path().join("x"), Existing::Keep);
        assert!(matches!(
            error,
            Err(BackupError::Store(OpenError::RestoreCutShort { .. }))
        ));
        let mut expected = before;
        expected.push("lock".into());
        expected.sort();
        assert_eq!(names(folder.path()), expected);

        restore(&bench.file(), folder.path()).unwrap();
        let restored = names(folder.path());
        assert!(restored.contains(&"RESTORED".to_owned()), "{restored:?}");
        let again = start(StoreConfig::folder(folder.path()));
        assert_eq!(again.api.get("job").await.1["epoch"], granted["epoch"]);
        assert_ok(&again.api.renew("job", 1).await);
        again.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_epochs_of_deleted_leases_bound_their_namespace_across_restarts_and_restores() {
    let mut bench = Bench::new();
    let wall = u64::try_from(chrono::Utc::now().timestamp_millis()).unwrap();
    let far = wall + 29 * 24 * 60 * 60 * 1000;
    let mut ahead = minute(1);
    ahead["min_epoch"] = json!(far);
    assert_ok(&bench.api().post("gone", "acquire", ahead).await);
    assert_ok(&bench.api().release("gone", 1).await);
    assert_eq!(bench.api().delete("gone").await.0, 204);
    bench.backup(Existing::Keep).await.unwrap();
    bench.stop().await;
    let moved = bench.place.path().join("moved-file");
    let final_restore = bench.place.path().join("moved");
    let check = async |folder: &Path, first: u32, moves_others: bool| {
        let server = start(StoreConfig::folder(folder));
        let epoch = |granted: Answer| granted.1["epoch"].as_u64().unwrap();
        for (number, lease) in (first..).zip(["gone", "new"]) {
            assert!(epoch(server.api.acquire(lease, number).await) > far);
            assert_ok(&server.api.release(lease, number).await);
        }
        let of_other = epoch(acquire_in(&server.api, "other", minute(5)).await);
        assert_eq!(of_other > wall + 60_000, moves_others, "{folder:?}");
        server.stop().await.unwrap();
    };
    check(bench.store.path(), 3, false).await;
    final_backup(bench.store.path(), &moved, Existing::Keep).unwrap();
    restore(&moved, &final_restore).unwrap();
    check(&final_restore, 10, false).await;
    restore(&bench.file(), &bench.restored()).unwrap();
    check(&bench.restored(), 20, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_keeps_its_id_across_a_restart_a_backup_and_a_restore() {
    let folder = tempfile::tempdir().unwrap();
    let id_of = |data_dir: &Path| {
        let store = Store::open(StoreConfig::folder(data_dir)).unwrap();
        store.id().to_owned()
    };
    let (first, other) = (folder.path().join("first"), folder.path().join("other"));
    let id = id_of(&first);
    assert_eq!((id.len(), id_of(&first)), (32, id.clone()));
    assert_ne!(id_of(&other), id, "another data directory is another store");
    let (file, restored) = (folder.path().join("backup"), folder.path().join("restored"));
    backup(&first, &file, Existing::Keep).unwrap();
    restore(&file, &restored).unwrap();
    assert_eq!(id_of(&restored), id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_had_access_control_is_marked_after_a_restore_and_a_move() {
    let mut bench = Bench::new();
    assert_ok(&bench.api().acquire("job", 1).await);
    bench.stop().await;
    let folder = |name: &str| bench.place.path().join(name);
    backup(bench.store.path(), &bench.file(), Existing::Keep).unwrap();
    restore(&bench.file(), &folder("open")).unwrap();
    assert!(!is_guarded(&folder("open")));
    mark_guarded(bench.store.path()).unwrap();
    backup(bench.store.path(), &bench.file(), Existing::Replace).unwrap();
    restore(&bench.file(), &folder("closed")).unwrap();
    assert!(is_guarded(&folder("closed")));
    final_backup(&folder("closed"), &folder("final"), Existing::Keep).unwrap();
    restore(&folder("final"), &folder("moved")).unwrap();
    assert!(is_guarded(&folder("moved")));
    drop(open(&folder("moved")).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_backup_closes_the_folder_and_its_restore_goes_on_where_the_store_ended() {
    let mut bench = Bench::new();
    let granted = bench.api().acquire("job", 1).await;
    assert_ok(&granted);
    assert_ok(&bench.api().release("job", 1).await);
    let last = granted.1["epoch"].as_u64().unwrap();
    let (store, file) = (bench.store.path().to_owned(), bench.file());
    let made = {
        let (store, file) = (store.clone(), file.clone());
        let backup = move || final_backup(&store, &file, Existing::Keep);
        tokio::task::spawn_blocking(backup).await.unwrap()
    };
    assert!(matches!(made, Err(BackupError::Running { .. })), "{made:?}");
    assert!(!file.exists());
    bench.stop().await;

    let contents = final_backup(&store, &file, Existing::Keep).unwrap();
    let refused = open(&store).unwrap_err();
    assert!(matches!(refused, OpenError::Moved { .. }), "{refused}");
    assert!(refused.to_string().contains("backup"), "{refused}");
    // The file that says so is missing.
    let lost = killed(&store);
    let log = names(lost.path())
        .into_iter()
        .filter(|name| name.starts_with("log-"));
    fs::remove_file(lost.path().join(log.max().unwrap())).unwrap();
    let refused = open(lost.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    // A usual backup of the same folder does not say that it is final.
    let usual = bench.place.path().join("usual-file");
    backup(&store, &usual, Existing::Keep).unwrap();
    let restored = restore(&usual, &bench.place.path().join("usual")).unwrap();
    assert!(!restored.is_final);
    assert!(restored.epochs_above > last + 86_000_000);

    let restored = restore(&file, &bench.restored()).unwrap();
    assert!(restored.is_final);
    assert_eq!(restored.epochs_above, last);
    assert_eq!(restored.revisions_above, contents.revision);
    let again = start(StoreConfig::folder(bench.restored()));
    let (_, granted) = again.api.acquire("job", 2).await;
    let epoch = granted["epoch"].as_u64().unwrap();
    assert!(epoch > last && epoch < last + 3_600_000, "{granted}");
    again.stop().await.unwrap();
    // A backup of the restored store is no final one, although it came from one.
    backup(&bench.restored(), &usual, Existing::Replace).unwrap();
    let restored = restore(&usual, &bench.place.path().join("again")).unwrap();
    assert!(!restored.is_final);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_backup_can_be_repeated_and_one_that_fails_leaves_the_store_open() {
    let mut bench = Bench::new();
    assert_ok(&bench.api().acquire("job", 1).await);
    bench.stop().await;
    let (store, file) = (bench.store.path().to_owned(), bench.file());
    let contents = final_backup(&store, &file, Existing::Keep).unwrap();
    // As after a crash between the two steps, the folder is closed and there is no file.
    fs::remove_file(&file).unwrap();
    assert_eq!(
        final_backup(&store, &file, Existing::Keep).unwrap(),
        contents
    );
    // If the file can't get its name, the store of the folder goes on.
    let mut other = Bench::new();
    assert_ok(&other.api().acquire("job", 1).await);
    other.stop().await;
    fs::create_dir(other.file()).unwrap();
    let failed = final_backup(other.store.path(), &other.file(), Existing::Replace);
    assert!(matches!(failed, Err(BackupError::Io { .. })), "{failed:?}");
    let again = start(StoreConfig::folder(other.store.path()));
    assert_ok(&again.api.renew("job", 1).await);
    again.stop().await.unwrap();
}
