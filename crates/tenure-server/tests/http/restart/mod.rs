//! A store after its process was killed: it has the same leases, and refuses damaged folders.

mod damage;
mod folder;
mod kills;

use std::fs;
use std::path::Path;

use crate::common::{assert_ok, assert_refused, id, killed, minute, newest_log, start};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::{OpenError, Store, StoreConfig};

/// Creates a folder with some leases and closes its store cleanly.
async fn closed_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
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
    Store::open(StoreConfig::folder(folder))
}

/// Checks that the store refuses the folder with a message that names `file`, and does not change
/// it.
#[track_caller]
fn assert_damaged(folder: &Path, file: &str, how: &str) {
    let contents = || {
        let names = names(folder).into_iter();
        names
            .map(|name| fs::read(folder.join(name)).unwrap())
            .collect::<Vec<_>>()
    };
    let before = contents();
    let error = open(folder).expect_err(how);
    assert!(matches!(error, OpenError::Damaged { .. }), "{how}: {error}");
    let text = error.to_string();
    assert!(
        text.contains(&folder.join(file).display().to_string()),
        "{how}: {text}"
    );
    assert!(text.contains("backup"), "{how}: {text}");
    let after = contents();
    assert!(before == after, "{how}: the files were touched");
}

/// Returns the names of the store's files.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != "lock").collect();
    names.sort();
    names
}
