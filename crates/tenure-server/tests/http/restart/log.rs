//! Write-ahead logs: a changed or lost log is refused, and a torn end is not.

use super::*;

/// Creates a folder with the log as a killed process leaves it, with several transactions in it.
async fn folder_with_a_log() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    for number in 1..=10 {
        assert_ok(&server.api.post("job", "acquire", minute(number)).await);
        assert_ok(&server.api.release("job", number).await);
    }
    assert_ok(&server.api.post("job", "acquire", minute(11)).await);
    // This transaction does not fit into one page.
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
async fn a_log_with_a_torn_tail_is_read_up_to_the_tear() {
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
    // The first transaction is that of the start. It was on disk before the store answered any
    // request, so its loss is damage.
    for len in [32, 10, 0] {
        let copy = killed(folder.path());
        fs::write(copy.path().join("leases.db-wal"), &log[..len]).unwrap();
        let error = open(copy.path()).unwrap_err().to_string();
        assert!(error.contains("leases.db-wal"), "{len}: {error}");
    }
    // A power cut may also leave the last frame with other content.
    let copy = killed(folder.path());
    let mut torn = log.clone();
    let last = torn.len() - 2000;
    torn[last..].fill(0);
    fs::write(copy.path().join("leases.db-wal"), torn).unwrap();
    drop(open(copy.path()).unwrap());

    // The same holds for another frame of that transaction, which the store did not acknowledge.
    let copy = killed(folder.path());
    let mut torn = log.clone();
    torn[log.len() - 4120 - 2000] ^= 1;
    fs::write(copy.path().join("leases.db-wal"), torn).unwrap();
    let server = crate::common::serve(open(copy.path()).unwrap());
    let (_, view) = server.api.get("job").await;
    assert_eq!(
        (&view["holder"], &view["metadata"]),
        (&json!("c11"), &json!({}))
    );
}

#[tokio::test]
async fn a_missing_log_is_refused_after_a_kill_and_accepted_after_a_stop() {
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

    // Another program that reads the database may move the log into it. A missing log is valid
    // then.
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
        "a start without changes also closes cleanly"
    );
}

#[tokio::test]
async fn a_missing_marker_never_causes_a_fresh_start() {
    let closed = closed_folder().await;
    let log = folder_with_a_log().await;
    for folder in [&closed, &log] {
        let copy = killed(folder.path());
        fs::remove_file(copy.path().join("FORMAT")).unwrap();
        assert_damaged(copy.path(), "FORMAT", "no marker");
    }
}

#[tokio::test]
async fn a_revision_in_running_without_its_checksum_is_refused() {
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
