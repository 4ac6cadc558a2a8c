//! The data directory, which belongs to one store and to its owner.

use super::*;

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
async fn an_interrupted_start_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("leases.db"), "").unwrap();
    drop(open(folder.path()).unwrap());
    // The start was interrupted before it wrote the marker.
    fs::remove_file(folder.path().join("FORMAT")).unwrap();
    drop(open(folder.path()).unwrap());
    assert!(folder.path().join("FORMAT").exists());
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
