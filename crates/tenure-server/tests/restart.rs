//! What a store in a folder knows after its process was killed, and what it refuses to believe.

mod common;

use std::fs;
use std::path::Path;

use common::{assert_ok, assert_refused, id, minute, start};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::{OpenError, Store, StoreConfig};

/// What a process that is killed now leaves behind: the files as they are.
fn killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        // The shared memory of a process that is gone is made anew.
        if file.file_name() != "leases.db-shm" {
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
    }
    copy
}

/// A folder with some leases, closed in order: all is in the database file.
async fn closed_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    for number in 1..=40 {
        let lease = format!("job-{number}");
        assert_ok(&server.api.acquire(&lease, number + 100).await);
        let release = json!({"lease_id": id(number + 100), "reason": "for the next"});
        assert_ok(&server.api.post(&lease, "release", release).await);
        assert_ok(&server.api.acquire(&lease, number).await);
    }
    assert_ok(&server.api.acquire("gone", 1).await);
    assert_ok(&server.api.release("gone", 1).await);
    assert_eq!(server.api.delete("gone").await.0, 204);
    server.stop().await.unwrap();
    folder
}

fn open(folder: &Path) -> Result<Store, OpenError> {
    Store::open(StoreConfig::embedded(folder))
}

/// The folder is refused with a message that names `file`, and stays as it is.
#[track_caller]
fn assert_damaged(folder: &Path, file: &str, how: &str) {
    // No log is as good as an empty one.
    let content = |file: &str| fs::read(folder.join(file)).unwrap_or_default();
    let before = [
        content("leases.db"),
        content("leases.db-wal"),
        content("FORMAT"),
    ];
    let error = open(folder).expect_err(how);
    assert!(matches!(error, OpenError::Damaged { .. }), "{how}: {error}");
    let text = error.to_string();
    assert!(
        text.contains(&folder.join(file).display().to_string()),
        "{how}: {text}"
    );
    assert!(text.contains("backup"), "{how}: {text}");
    let after = [
        content("leases.db"),
        content("leases.db-wal"),
        content("FORMAT"),
    ];
    assert!(before == after, "{how}: the files were touched");
}

#[tokio::test]
async fn a_holder_keeps_its_lease_and_epochs_go_on_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    let body = json!({"holder": "c1", "duration_ms": 60_000, "lease_id": id(1),
        "metadata": {"k": "v"}, "lock_delay_ms": 5});
    let (_, held) = server.api.post("held", "acquire", body).await;
    let (_, released) = server.api.acquire("released", 2).await;
    assert_ok(&server.api.release("released", 2).await);
    assert_ok(&server.api.acquire("broken", 3).await);
    assert_ok(
        &server
            .api
            .post("broken", "break", json!({"break_period_ms": 0}))
            .await,
    );
    assert_ok(&server.api.acquire("changed", 4).await);
    let change = json!({"lease_id": id(4), "proposed_lease_id": id(5)});
    let (_, last) = server.api.post("changed", "change", change).await;

    let copy = killed(folder.path());
    let server = start(StoreConfig::embedded(copy.path()));
    let (_, view) = server.api.get("held").await;
    for field in [
        "holder",
        "epoch",
        "duration_ms",
        "granted_at",
        "metadata",
        "revision",
    ] {
        assert_eq!(view[field], held[field], "{field}");
    }
    assert!(view["remaining_ms"].as_u64().unwrap() > 59_000);
    assert_ok(&server.api.renew("held", 1).await);
    assert_refused(&server.api.acquire("held", 9).await, 409, "lease_held");
    assert_eq!(server.api.get("released").await.1["state"], "available");
    assert_refused(
        &server.api.acquire("released", 2).await,
        409,
        "lease_id_retired",
    );
    assert_eq!(server.api.get("broken").await.1["state"], "broken");
    assert_refused(
        &server.api.renew("changed", 4).await,
        409,
        "lease_id_mismatch",
    );
    assert_ok(&server.api.renew("changed", 5).await);

    let (_, again) = server.api.acquire("released", 9).await;
    assert!(again["epoch"].as_u64() > released["epoch"].as_u64());
    assert!(again["revision"].as_u64() > last["revision"].as_u64());
}

#[tokio::test]
async fn an_expiry_that_somebody_saw_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    let body = json!({"holder": "c1", "duration_ms": 1_000, "lease_id": id(1)});
    let (_, view) = server.api.post("job", "acquire", body).await;
    let polled = format!(
        "{}?after={}&wait_ms=60000",
        server.api.url("job", ""),
        view["revision"]
    );
    let seen: Value = {
        let response = server.api.http.get(polled).send().await.unwrap();
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
    };
    assert_eq!(seen["state"], "expired");
    let copy = killed(folder.path());
    let server = start(StoreConfig::embedded(copy.path()));
    assert_eq!(server.api.get("job").await.1["state"], "expired");
}

#[tokio::test]
async fn a_deleted_lease_stays_deleted_and_its_epochs_are_not_granted_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    assert_ok(&server.api.acquire("job", 1).await);
    let mut last = 0;
    // Faster than the clock's milliseconds, so that the epochs run ahead of it.
    for number in 2..200 {
        assert_ok(
            &server
                .api
                .post("job", "break", json!({"break_period_ms": 0}))
                .await,
        );
        last = server.api.acquire("job", number).await.1["epoch"]
            .as_u64()
            .unwrap();
    }
    assert_ok(&server.api.release("job", 199).await);
    assert_eq!(server.api.delete("job").await.0, 204);

    let copy = killed(folder.path());
    let server = start(StoreConfig::embedded(copy.path()));
    // The start put it in its place.
    let kept = Connection::open(copy.path().join("leases.db")).unwrap();
    let floor: u64 = kept
        .query_row("SELECT floor FROM meta", [], |row| row.get(0))
        .unwrap();
    drop(kept);
    assert_eq!(floor, last);
    assert_refused(&server.api.get("job").await, 404, "unknown_lease");
    let (_, again) = server.api.acquire("job", 200).await;
    assert!(again["epoch"].as_u64().unwrap() > last);
}

#[tokio::test]
async fn a_deletion_brings_no_id_back_over_stops_and_kills() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    for lease in ["gone", "made-again"] {
        assert_ok(&server.api.acquire(lease, 1).await);
        assert_ok(&server.api.release(lease, 1).await);
        assert_eq!(server.api.delete(lease).await.0, 204);
    }
    assert_ok(&server.api.acquire("made-again", 2).await);
    let killed_at_once = killed(folder.path());
    server.stop().await.unwrap();
    for folder in [folder, killed_at_once] {
        for _ in 0..2 {
            let server = start(StoreConfig::embedded(folder.path()));
            let api = &server.api;
            assert_refused(&api.acquire("gone", 1).await, 409, "lease_id_retired");
            assert_refused(&api.get("gone").await, 404, "unknown_lease");
            assert_refused(&api.acquire("made-again", 1).await, 409, "lease_id_retired");
            server.stop().await.unwrap();
        }
        let server = start(StoreConfig::embedded(folder.path()));
        let api = &server.api;
        assert_ok(&api.acquire("gone", 3).await);
        assert_ok(&api.renew("made-again", 2).await);
        assert_ok(&api.release("made-again", 2).await);
        assert_eq!(api.delete("made-again").await.0, 204);
        server.stop().await.unwrap();
        let server = start(StoreConfig::embedded(folder.path()));
        let api = &server.api;
        for (lease, number) in [("made-again", 1), ("made-again", 2), ("gone", 1)] {
            let refused = api.acquire(lease, number).await;
            assert_refused(&refused, 409, "lease_id_retired");
        }
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn nobody_can_ask_for_an_epoch_that_leaves_none_for_other_leases() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    let asking = |number, least: u64| {
        let mut body = minute(number);
        body["min_epoch"] = json!(least);
        body
    };
    let greatest = (1_u64 << 53) - 1;
    let asked = server.api.post("job", "acquire", asking(1, greatest)).await;
    assert_refused(&asked, 422, "out_of_range");
    let detail = asked.1["detail"].as_str().unwrap();
    assert!(detail.contains(&greatest.to_string()), "{detail}");

    // What is taken is forgotten with its lease, and stays a floor for all that are made.
    let wall = u64::try_from(chrono::Utc::now().timestamp_millis()).unwrap();
    let ahead = wall + 99 * 365 * 24 * 60 * 60 * 1000;
    let asked = server.api.post("job", "acquire", asking(2, ahead)).await;
    assert_ok(&asked);
    assert_eq!(asked.1["epoch"], ahead);
    assert_ok(&server.api.release("job", 2).await);
    assert_eq!(server.api.delete("job").await.0, 204);
    assert_ok(&server.api.acquire("other", 3).await);
    // It is no step to the next one.
    let further = server
        .api
        .post("job", "acquire", asking(4, ahead + ahead))
        .await;
    assert_refused(&further, 422, "out_of_range");

    let copy = killed(folder.path());
    let server = start(StoreConfig::embedded(copy.path()));
    let (status, granted) = server.api.acquire("another", 5).await;
    assert_eq!((status, granted["epoch"].as_u64()), (200, Some(ahead + 1)));
}

#[tokio::test]
async fn many_clients_killed_in_the_middle_find_all_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    let mut clients = Vec::new();
    for client in 0..16 {
        let api = server.api.clone();
        clients.push(tokio::spawn(async move {
            let lease = format!("job-{client}");
            let mut last = Value::Null;
            for round in 0..10 {
                let number = client * 100 + round;
                assert_ok(&api.acquire(&lease, number).await);
                last = api.release(&lease, number).await.1;
            }
            last
        }));
    }
    let mut expected = Vec::new();
    for client in clients {
        expected.push(client.await.unwrap());
    }
    let copy = killed(folder.path());
    let server = start(StoreConfig::embedded(copy.path()));
    for view in expected {
        let (_, found) = server.api.get(view["lease"].as_str().unwrap()).await;
        assert_eq!(
            (&found["revision"], &found["state"]),
            (&view["revision"], &view["state"])
        );
    }
}

#[tokio::test]
async fn the_folder_and_its_files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let server = start(StoreConfig::embedded(&folder));
    assert_ok(&server.api.acquire("job", 1).await);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let mut count = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        count += 1;
    }
    assert_eq!(count, 7);
}

#[tokio::test]
async fn a_second_store_on_a_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains(&folder.path().display().to_string())
    );
    assert_ok(&server.api.acquire("job", 1).await);
}

#[tokio::test]
async fn a_folder_that_can_not_be_one_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(open(&file), Err(OpenError::NotAFolder { .. })));
    let error = open(&file.join("below")).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    assert!(error.to_string().contains("below"), "{error}");
}

#[tokio::test]
async fn a_start_that_was_cut_short_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("leases.db"), "").unwrap();
    drop(open(folder.path()).unwrap());
    // All but the marker was written.
    fs::remove_file(folder.path().join("FORMAT")).unwrap();
    drop(open(folder.path()).unwrap());
    assert!(folder.path().join("FORMAT").exists());
}

#[tokio::test]
async fn somebody_elses_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.db");
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        .unwrap();
    drop(other);
    let error = open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("leases.db") && error.contains("another program"),
        "{error}"
    );
    let count: u32 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn a_folder_of_a_newer_version_is_refused() {
    let folder = closed_folder().await;
    let copy = killed(folder.path());
    fs::write(copy.path().join("FORMAT"), "tenure-store 6\n").unwrap();
    let error = open(copy.path()).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::Newer {
                found: 6,
                known: 1,
                ..
            }
        ),
        "{error}"
    );

    let copy = killed(folder.path());
    let database = Connection::open(copy.path().join("leases.db")).unwrap();
    database.pragma_update(None, "user_version", 7).unwrap();
    drop(database);
    let error = open(copy.path()).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::Newer {
                found: 7,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_database_that_is_missing_or_another_one_is_never_a_fresh_start() {
    let folder = closed_folder().await;
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("missing", |path| fs::remove_file(path).unwrap()),
        ("empty", |path| fs::write(path, "").unwrap()),
        ("text", |path| {
            fs::write(path, "not a database, but long enough").unwrap()
        }),
        ("cut off", |path| {
            let content = fs::read(path).unwrap();
            fs::write(path, &content[..content.len() / 2]).unwrap();
        }),
    ];
    for (how, damage) in damages {
        let copy = killed(folder.path());
        damage(&copy.path().join("leases.db"));
        assert_damaged(copy.path(), "leases.db", how);
        assert_eq!(copy.path().join("leases.db").exists(), how != "missing");
    }
    let copy = killed(folder.path());
    fs::write(copy.path().join("FORMAT"), "tenure\n").unwrap();
    assert_damaged(copy.path(), "FORMAT", "another marker");
}

#[tokio::test]
async fn rows_that_were_altered_lost_or_made_up_are_noticed() {
    let folder = closed_folder().await;
    for damage in [
        "UPDATE lease_rows SET holder = 'mallory' WHERE lease = 'job-7'",
        "UPDATE lease_rows SET epoch = epoch - 1 WHERE lease = 'job-7'",
        "UPDATE lease_rows SET state = 'available' WHERE lease = 'job-7'",
        "UPDATE lease_rows SET duration_ms = NULL WHERE lease = 'job-7'",
        "UPDATE lease_rows SET crc = crc + 1 WHERE lease = 'job-7'",
        "DELETE FROM lease_rows WHERE lease = 'job-7'",
        "DELETE FROM lease_rows",
        "DELETE FROM meta",
        "UPDATE meta SET revision = revision - 1",
        "UPDATE meta SET floor = 1",
        "UPDATE meta SET digest = digest + 1",
        "DROP TABLE lease_rows",
        "UPDATE term_rows SET terms = replace(terms, 'for the', 'for no') WHERE lease = 'job-7'",
        "UPDATE term_rows SET terms = '[]' WHERE lease = 'job-7'",
        "UPDATE term_rows SET term_count = term_count + 1 WHERE lease = 'job-7'",
        "UPDATE term_rows SET first_epoch = first_epoch - 1 WHERE lease = 'job-7'",
        "UPDATE term_rows SET lease = 'job-77' WHERE lease = 'job-7'",
        "UPDATE term_rows SET crc = crc + 1 WHERE lease = 'job-7'",
        "DELETE FROM term_rows WHERE lease = 'job-7'",
        "DELETE FROM term_rows",
        "INSERT INTO term_rows SELECT namespace, lease, first_epoch + 1, term_count, terms, crc FROM term_rows
            WHERE lease = 'job-7'",
        "DROP TABLE term_rows",
        "UPDATE deleted SET retired = x''",
        "UPDATE deleted SET lease = 'job-7'",
        "UPDATE deleted SET number = number + 1",
        "DELETE FROM deleted",
        "DROP TABLE deleted",
        "PRAGMA user_version = 0",
        "PRAGMA application_id = 7",
    ] {
        let copy = killed(folder.path());
        let path = copy.path().join("leases.db");
        let database = Connection::open(&path).unwrap();
        database.execute_batch(damage).unwrap();
        database
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
            .unwrap();
        drop(database);
        if damage.starts_with("DROP") {
            let error = open(copy.path()).unwrap_err();
            assert!(error.to_string().contains("leases.db"), "{error}");
        } else {
            assert_damaged(copy.path(), "leases.db", damage);
        }
    }
}

/// Bytes that fell over are noticed, or mean nothing: wherever it happens, either the folder is
/// refused or it says exactly what it said.
#[tokio::test]
async fn bits_that_fell_over_never_change_what_is_known() {
    let folder = closed_folder().await;
    let content = fs::read(folder.path().join("leases.db")).unwrap();
    let mut refused = 0;
    for at in (0..content.len()).step_by(61) {
        let copy = killed(folder.path());
        let mut damaged = content.clone();
        damaged[at] ^= 0x10;
        fs::write(copy.path().join("leases.db"), &damaged).unwrap();
        let Ok(store) = open(copy.path()) else {
            refused += 1;
            continue;
        };
        let server = common::serve(store);
        let (_, list) = server.api.list("?limit=1000").await;
        let leases = list["leases"].as_array().unwrap();
        assert_eq!(leases.len(), 40, "byte {at}");
        for lease in leases {
            let number = lease["lease"]
                .as_str()
                .unwrap()
                .strip_prefix("job-")
                .unwrap();
            assert_eq!(lease["holder"], format!("c{number}"), "byte {at}");
            let before = 100 + number.parse::<u32>().unwrap();
            let (_, history) = server.api.history(&format!("job-{number}")).await;
            let term = &history["terms"][1];
            assert_eq!(term["holder"], format!("c{before}"), "byte {at}");
            assert_eq!(term["reason"], "for the next", "byte {at}");
        }
    }
    assert!(refused > 10, "{refused}");
}

/// The log as a killed process leaves it, with several transactions in it.
async fn folder_with_a_log() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    for number in 1..=10 {
        assert_ok(&server.api.post("job", "acquire", minute(number)).await);
        assert_ok(&server.api.release("job", number).await);
    }
    assert_ok(&server.api.post("job", "acquire", minute(11)).await);
    // One that does not fit into a page.
    let metadata = json!({"lease_id": id(11), "metadata": {"long": "x".repeat(4_000)}});
    let put = server.api.http.put(server.api.url("job", "metadata"));
    assert!(
        put.json(&metadata)
            .send()
            .await
            .unwrap()
            .status()
            .is_success()
    );
    let copy = killed(folder.path());
    server.stop().await.unwrap();
    copy
}

#[tokio::test]
async fn a_log_with_damage_before_its_last_transaction_is_refused() {
    let folder = folder_with_a_log().await;
    let log = fs::read(folder.path().join("leases.db-wal")).unwrap();
    let frame = 24 + 4096;
    assert!(log.len() > 32 + 20 * frame, "{}", log.len());
    for (how, at) in [
        ("the log's magic number", 0),
        ("the log's salt", 17),
        ("a page of the first frame", 32 + 24 + 100),
        ("the first frame's number", 32 + 3),
        ("the first frame's salt", 32 + 9),
        ("a checksum in the middle", 32 + 9 * frame + 17),
        ("a page in the middle", 32 + 11 * frame + 2000),
    ] {
        let copy = killed(folder.path());
        let mut damaged = log.clone();
        damaged[at] ^= 1;
        fs::write(copy.path().join("leases.db-wal"), damaged).unwrap();
        assert_damaged(copy.path(), "leases.db-wal", how);
    }
}

#[tokio::test]
async fn a_log_whose_tail_was_torn_is_read_up_to_there() {
    let folder = folder_with_a_log().await;
    let path = folder.path().join("leases.db-wal");
    let log = fs::read(&path).unwrap();
    let cut = |len: usize| {
        let copy = killed(folder.path());
        fs::write(copy.path().join("leases.db-wal"), &log[..len]).unwrap();
        drop(open(copy.path()).unwrap_or_else(|error| panic!("{len}: {error}")));
    };
    for torn in [1, 100, 4120, 5000] {
        cut(log.len() - torn);
    }
    cut(32 + 24 + 4096 + 7);
    // The first transaction is that of the start, which was on disk before anything was told.
    for len in [32, 10, 0] {
        let copy = killed(folder.path());
        fs::write(copy.path().join("leases.db-wal"), &log[..len]).unwrap();
        let error = open(copy.path()).unwrap_err().to_string();
        assert!(error.contains("leases.db-wal"), "{len}: {error}");
    }
    // A power cut may also leave the last frame with another content.
    let copy = killed(folder.path());
    let mut torn = log.clone();
    let last = torn.len() - 2000;
    torn[last..].fill(0);
    fs::write(copy.path().join("leases.db-wal"), torn).unwrap();
    drop(open(copy.path()).unwrap());

    // Or without a frame before it: the transaction has several, and nobody was told of it.
    let copy = killed(folder.path());
    let mut torn = log.clone();
    torn[log.len() - 4120 - 2000] ^= 1;
    fs::write(copy.path().join("leases.db-wal"), torn).unwrap();
    let server = common::serve(open(copy.path()).unwrap());
    let (_, view) = server.api.get("job").await;
    assert_eq!(
        (&view["holder"], &view["metadata"]),
        (&json!("c11"), &json!({}))
    );
}

#[tokio::test]
async fn a_log_that_is_gone_after_a_kill_is_refused_and_after_a_stop_is_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    assert_ok(&server.api.acquire("job", 1).await);
    let killed = killed(folder.path());
    let log = killed.path().join("leases.db-wal");
    for lost in [true, false] {
        if lost {
            fs::remove_file(&log).unwrap();
        } else {
            fs::write(&log, b"").unwrap();
        }
        let error = open(killed.path()).unwrap_err().to_string();
        assert!(error.contains("leases.db-wal"), "{error}");
    }

    // Another program that reads the database may put the log into it, and that is all right.
    let read = self::killed(folder.path());
    let database = Connection::open(read.path().join("leases.db")).unwrap();
    database
        .query_row("SELECT revision FROM meta", [], |row| row.get::<_, u64>(0))
        .unwrap();
    drop(database);
    assert!(!read.path().join("leases.db-wal").exists());
    assert!(open(read.path()).is_ok());

    server.stop().await.unwrap();
    let _ = fs::remove_file(folder.path().join("leases.db-wal"));
    assert!(open(folder.path()).is_ok());
    assert!(
        open(folder.path()).is_ok(),
        "also after a start that did nothing"
    );
}

#[tokio::test]
async fn a_marker_that_is_gone_does_not_make_a_fresh_start() {
    let closed = closed_folder().await;
    let log = folder_with_a_log().await;
    for folder in [&closed, &log] {
        let copy = killed(folder.path());
        fs::remove_file(copy.path().join("FORMAT")).unwrap();
        assert_damaged(copy.path(), "FORMAT", "no marker");
    }
}

#[tokio::test]
async fn a_file_that_tells_how_far_the_log_had_come_is_believed_only_if_it_fits_its_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    assert_ok(&server.api.acquire("job", 1).await);
    let killed_at = killed(folder.path());
    server.stop().await.unwrap();
    let running = fs::read(killed_at.path().join("RUNNING")).unwrap();
    for at in 0..running.len() - 1 {
        let copy = killed(killed_at.path());
        let mut damaged = running.clone();
        damaged[at] ^= 1;
        fs::write(copy.path().join("RUNNING"), damaged).unwrap();
        assert_damaged(copy.path(), "RUNNING", &format!("byte {at}"));
    }
    for content in [b"".as_slice(), b"1\n", b"\xff\xff\n"] {
        let copy = killed(killed_at.path());
        fs::write(copy.path().join("RUNNING"), content).unwrap();
        assert_damaged(copy.path(), "RUNNING", "another content");
    }
    drop(open(killed_at.path()).unwrap());
}
