//! The data directory, which belongs to one store and to its owner.

use super::*;

#[tokio::test]
async fn the_folder_and_its_files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let server = start(StoreConfig::folder(&folder));
    assert_ok(&server.api.acquire("job", 1).await);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let mut count = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        count += 1;
    }
    assert_eq!(count, 3);
}

#[tokio::test]
async fn a_second_store_on_a_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
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
async fn a_folder_of_a_newer_version_is_refused() {
    let folder = closed_folder().await;
    for (kind, known) in [
        ("snapshot-", "tenure snapshot 1\n"),
        ("log-", "tenure log 1\n"),
    ] {
        let copy = killed(folder.path());
        let file = names(copy.path())
            .into_iter()
            .find(|name| name.starts_with(kind));
        let file = copy.path().join(file.unwrap());
        let mut content = fs::read(&file).unwrap();
        assert!(content.starts_with(known.as_bytes()));
        content[known.len() - 2] = b'6';
        fs::write(&file, content).unwrap();
        let error = open(copy.path()).unwrap_err();
        let is_newer = matches!(
            error,
            OpenError::Newer {
                found: 6,
                known: 1,
                ..
            }
        );
        assert!(is_newer, "{error}");
        assert!(error.to_string().contains(kind), "{error}");
    }
}
