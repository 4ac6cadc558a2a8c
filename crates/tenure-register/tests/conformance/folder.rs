//! A folder, with several processes' worth of connections to it.

use std::fs::{self, File};
use std::path::Path;

use tenure_register::folder::FolderHome;
use tenure_register::{Failure, Files, Register, RegisterKey};

use crate::checks::{self, absent, create, done, found};

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_passes_all_checks() {
    let folder = tempfile::tempdir().unwrap();
    let open = || FolderHome::open(folder.path().join("home")).unwrap();
    let homes = [open(), open(), open(), open()];
    let connections: Vec<&dyn Files> = homes.iter().map(|home| home as _).collect();
    checks::pass(&connections, "part").await;
}

#[tokio::test]
async fn a_copied_folder_is_another_home() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("a"), folder.path().join("b"));
    let (home, key) = (FolderHome::open(&original).unwrap(), key("a/b"));
    let identity = absent(&home, &key).await;
    done(create(&home, &key, &identity, "value").await);
    copy_folder(&original, &copy);
    let read = FolderHome::open(&copy)
        .unwrap()
        .read(&key, None)
        .await
        .unwrap();
    assert_ne!(read.seen().identity, identity);
    assert_eq!(found(read).1, "value");
    // Opening it again, or moving it, makes no other home.
    fs::rename(&original, folder.path().join("c")).unwrap();
    let moved = FolderHome::open(folder.path().join("c")).unwrap();
    let read = moved.read(&key, None).await.unwrap();
    assert_eq!(read.seen().identity, identity);
}

#[tokio::test]
async fn damage_is_named_and_is_never_a_missing_value() {
    let folder = tempfile::tempdir().unwrap();
    let home = FolderHome::open(folder.path()).unwrap();
    let key = key("a/b");
    let identity = absent(&home, &key).await;
    done(create(&home, &key, &identity, "value").await);
    let path = folder.path().join("registers/a/b=");
    let good = fs::read(&path).unwrap();
    let mut damages: Vec<Vec<u8>> = (0..good.len())
        .map(|length| good[..length].to_vec())
        .collect();
    damages.extend((0..good.len()).map(|at| {
        let mut content = good.clone();
        content[at] ^= 1;
        content
    }));
    for damage in damages {
        fs::write(&path, &damage).unwrap();
        match home.read(&key, None).await {
            Err(Failure::Misconfigured(text)) => {
                assert!(text.contains(&path.display().to_string()), "{text}");
            }
            // The version is no secret and has no checksum: another one only makes a write fail.
            Ok(read) => assert_eq!(found(read).1, "value"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_folder_that_can_not_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/home");
    let file = folder.path().join("file");
    File::create(&file).unwrap();
    for path in [&missing, &file] {
        match FolderHome::open(path) {
            Err(Failure::Misconfigured(text)) => {
                assert!(text.starts_with(&path.display().to_string()), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    // A folder that goes away is no empty home.
    let gone = folder.path().join("gone");
    let home = FolderHome::open(&gone).unwrap();
    fs::remove_dir_all(&gone).unwrap();
    let read = home.read(&key("a"), None).await;
    assert!(matches!(read, Err(Failure::Misconfigured(_))), "{read:?}");
}

#[tokio::test]
async fn a_process_that_keeps_the_lock_delays_writes_only() {
    let folder = tempfile::tempdir().unwrap();
    let home = FolderHome::open(folder.path()).unwrap();
    let key = key("a");
    let identity = absent(&home, &key).await;
    let lock = File::create(folder.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let expected = tenure_register::Expected {
        version: None,
        identity: identity.clone(),
    };
    let refused = home.replace(&key, &expected, "x".into()).await;
    assert!(
        matches!(refused, Err(Failure::NotApplied(_))),
        "{refused:?}"
    );
    absent(&home, &key).await;
    drop(lock);
    done(create(&home, &key, &identity, "value").await);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn key(text: &str) -> RegisterKey {
    text.parse().unwrap()
}
