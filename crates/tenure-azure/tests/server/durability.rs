//! Blobs after a restart, and damaged blobs.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tenure_azure::server::{Azure, AzureConfig, AzureError};
use tenure_server::{BackupError, Existing, OpenError, RestoreError, Store, StoreConfig};
use tenure_server::{backup, restore};

use crate::client::{Az, development, start};
use crate::common::id;

async fn fill(az: &Az) {
    az.put("/leases?restype=container", &[("x-ms-meta-of", "c")])
        .await
        .assert(201);
    let headers = [
        ("x-ms-meta-name", "value"),
        ("x-ms-blob-content-type", "text/x"),
    ];
    az.put_block("/leases/a%2Fb", &headers, b"body")
        .await
        .assert(201);
    let page = [
        ("x-ms-blob-type", "PageBlob"),
        ("x-ms-blob-content-length", "512"),
    ];
    az.put("/leases/page", &page).await.assert(201);
}

async fn acquire(az: &Az, number: u32) -> u16 {
    let id = id(number);
    let headers = [
        ("x-ms-lease-action", "acquire"),
        ("x-ms-lease-duration", "60"),
        ("x-ms-proposed-lease-id", &*id),
    ];
    az.put("/leases/a%2Fb?comp=lease", &headers).await.status
}

#[tokio::test]
async fn containers_blobs_and_their_leases_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (running, az) = start(StoreConfig::folder(folder.path()), development());
    fill(&az).await;
    az.put_block("/leases/gone", &[], b"x").await.assert(201);
    az.delete("/leases/gone", &[]).await.assert(202);
    assert_eq!(acquire(&az, 1).await, 201);
    let before = az.get("/leases/a%2Fb", &[]).await;
    running.stop().await.unwrap();

    let (running, az) = start(StoreConfig::folder(folder.path()), development());
    let after = az.get("/leases/a%2Fb", &[]).await;
    assert_eq!(after.assert(200).body, b"body");
    for name in [
        "etag",
        "last-modified",
        "x-ms-creation-time",
        "tenure-epoch",
        "x-ms-lease-state",
    ] {
        assert_eq!(after.header(name), before.header(name), "{name}");
        assert!(!after.header(name).is_empty(), "{name}");
    }
    assert_eq!(after.header("x-ms-meta-name"), "value");
    assert_eq!(after.header("content-type"), "text/x");
    assert_eq!(acquire(&az, 2).await, 409);
    assert_eq!(acquire(&az, 1).await, 201);
    assert_eq!(az.get("/leases/page", &[]).await.body, [0; 512]);
    az.get("/leases/gone", &[])
        .await
        .assert_refused(404, "BlobNotFound");
    let container = az.get("/leases?restype=container", &[]).await;
    assert_eq!(container.header("x-ms-meta-of"), "c");
    // ETags remain different after the restart.
    let lease = id(1);
    let put = az
        .put_block("/leases/a%2Fb", &[("x-ms-lease-id", &lease)], b"body")
        .await;
    assert_ne!(put.assert(201).header("etag"), before.header("etag"));
    running.stop().await.unwrap();
}

/// Opens the store of this directory with the protocol.
fn open(folder: &Path) -> Result<Azure, AzureError> {
    let store = Store::open(StoreConfig::folder(folder))?;
    Azure::open(&store, development())
}

fn assert_damaged(folder: &Path) {
    match open(folder) {
        Err(AzureError::Open(OpenError::Damaged { path, .. })) => {
            assert_eq!(path, newest_log(folder));
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the newest file of the log in this directory.
fn newest_log(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let is_log = |path: &PathBuf| path.to_string_lossy().contains("/log-");
    files.filter(is_log).max().expect("a log")
}

#[tokio::test]
async fn the_refusal_of_damaged_blobs_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (running, az) = start(StoreConfig::folder(folder.path()), development());
    fill(&az).await;
    running.stop().await.unwrap();
    let log = newest_log(folder.path());
    let bytes = fs::read(&log).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    // The header has 128 bytes, and the last entry is the end of the store.
    for at in (128..used - 200).step_by(53) {
        let copy = as_killed(folder.path());
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(newest_log(copy.path()), damaged).unwrap();
        assert_damaged(copy.path());
    }
    assert!(open(folder.path()).is_ok());
}

/// Returns a copy of the directory, in the state that a killed store leaves.
fn as_killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    // It has the place of the directory, of which this is a copy.
    fs::write(copy.path().join("lock"), "").unwrap();
    copy
}

#[tokio::test]
async fn a_damaged_log_is_refused_and_a_torn_end_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, az) = start(StoreConfig::folder(folder.path()), development());
    fill(&az).await;
    az.put_block("/leases/last", &[], b"x").await.assert(201);
    let whole = as_killed(folder.path());
    let (_running, az) = start(StoreConfig::folder(whole.path()), development());
    az.get("/leases/last", &[]).await.assert(200);

    // A torn change was not acknowledged.
    let torn = as_killed(folder.path());
    let mut bytes = fs::read(newest_log(torn.path())).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used - 50..].fill(0);
    fs::write(newest_log(torn.path()), &bytes).unwrap();
    let (_running, az) = start(StoreConfig::folder(torn.path()), development());
    az.get("/leases/page", &[]).await.assert(200);
    az.get("/leases/last", &[])
        .await
        .assert_refused(404, "BlobNotFound");

    let damaged = as_killed(folder.path());
    let mut bytes = fs::read(newest_log(damaged.path())).unwrap();
    bytes[used / 2] ^= 1;
    fs::write(newest_log(damaged.path()), &bytes).unwrap();
    assert_damaged(damaged.path());
    let after = fs::read(newest_log(damaged.path())).unwrap();
    assert!(after == bytes, "it is unchanged");
}

#[tokio::test]
async fn blobs_are_accepted_up_to_their_limits() {
    let config = AzureConfig {
        max_blob_bytes: 4096,
        max_total_bytes: 10 * 1024,
        ..development()
    };
    let (_running, az) = start(StoreConfig::memory(), config);
    az.put("/leases?restype=container", &[]).await.assert(201);
    let too_large = (413, "RequestBodyTooLarge");
    az.put_block("/leases/a", &[], &[0; 4096]).await.assert(201);
    let over = az.put_block("/leases/a", &[], &[0; 4097]).await;
    assert_eq!(over.outcome(), too_large);
    assert!(over.text().contains("4097") && over.text().contains("4096"));
    let page = |length| {
        [
            ("x-ms-blob-type", "PageBlob"),
            ("x-ms-blob-content-length", length),
        ]
    };
    az.put("/leases/p", &page("4608"))
        .await
        .assert_refused(413, "RequestBodyTooLarge");
    az.put_block("/leases/b", &[], &[0; 3072]).await.assert(201);
    assert_eq!(
        az.put_block("/leases/c", &[], &[0; 4096]).await.outcome(),
        too_large
    );
    // A replacement counts only once, and a deletion frees its bytes.
    az.put_block("/leases/a", &[], &[1; 4096]).await.assert(201);
    az.delete("/leases/b", &[]).await.assert(202);
    az.put_block("/leases/c", &[], &[0; 3072]).await.assert(201);
    let mut refused = false;
    for number in 0..40 {
        refused |= az
            .put_block(&format!("/leases/n{number}"), &[], b"")
            .await
            .status
            == 413;
    }
    assert!(refused, "names count towards the limit, too");
}

#[tokio::test]
async fn a_backup_has_the_blobs_and_a_restore_restores_them() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("backup");
    let (running, az) = start(StoreConfig::folder(&data), development());
    fill(&az).await;
    assert_eq!(acquire(&az, 1).await, 201);
    let before = az.get("/leases/a%2Fb", &[]).await;
    backup(&data, &file, Existing::Keep).unwrap();
    let again = backup(&data, &file, Existing::Keep);
    assert!(matches!(again, Err(BackupError::Exists { .. })));
    az.put_block("/leases/later", &[], b"").await.assert(201);
    backup(&data, &file, Existing::Replace).unwrap();
    running.stop().await.unwrap();
    // A restore over a store is refused.
    let over = restore(&file, &data);
    assert!(matches!(over, Err(RestoreError::StoreThere { .. })));

    let other = folder.path().join("other");
    restore(&file, &other).unwrap();
    let (running, az) = start(StoreConfig::folder(&other), development());
    let after = az.get("/leases/a%2Fb", &[]).await;
    assert_eq!(after.assert(200).body, b"body");
    assert_eq!(after.header("etag"), before.header("etag"));
    assert_eq!(after.header("x-ms-lease-state"), "leased");
    az.get("/leases/later", &[]).await.assert(200);
    running.stop().await.unwrap();
}
