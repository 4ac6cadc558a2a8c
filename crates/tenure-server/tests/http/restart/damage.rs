//! Files that were changed or lost, which are refused.

use super::*;

#[tokio::test]
async fn a_missing_or_foreign_file_never_causes_a_fresh_start() {
    let folder = closed_folder().await;
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("missing", |path| fs::remove_file(path).unwrap()),
        ("empty", |path| fs::write(path, "").unwrap()),
        ("text", |path| {
            fs::write(path, "not a log, but long enough for a header of one\n").unwrap()
        }),
        ("cut off", |path| {
            let content = fs::read(path).unwrap();
            fs::write(path, &content[..content.len() / 2]).unwrap();
        }),
    ];
    let files = names(folder.path());
    assert!(files.len() >= 2, "{files:?}");
    for file in &files {
        for (how, damage) in damages {
            let copy = killed(folder.path());
            damage(&copy.path().join(file));
            // The file before a missing one is named, if it ends too early.
            assert_damaged(copy.path(), "", &format!("{how} {file}"));
            assert_eq!(copy.path().join(file).exists(), how != "missing");
        }
    }
}

#[tokio::test]
async fn a_log_with_a_torn_end_is_read_up_to_the_tear() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    assert_ok(&server.api.acquire("job", 1).await);
    assert_ok(&server.api.release("job", 1).await);
    let before = killed(folder.path());
    assert_ok(&server.api.acquire("job", 2).await);
    let after = killed(folder.path());
    server.stop().await.unwrap();
    let log = newest_log(after.path());
    let whole = fs::read(&log).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let start_of_last = fs::read(newest_log(before.path())).unwrap();
    let start_of_last = start_of_last.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for at in (start_of_last..end).step_by(7) {
        let copy = killed(after.path());
        let mut torn = whole.clone();
        torn[at..=end].fill(0);
        fs::write(copy.path().join(log.file_name().unwrap()), torn).unwrap();
        let server = crate::common::serve(open(copy.path()).unwrap());
        let (_, view) = server.api.get("job").await;
        assert_eq!(view["state"], "available", "{at}");
    }
}

#[tokio::test]
async fn flipped_bits_never_change_the_loaded_state() {
    let folder = closed_folder().await;
    let mut refused = 0;
    for file in names(folder.path()) {
        let content = fs::read(folder.path().join(&file)).unwrap();
        // The reserved space behind the last entry has no content.
        let used = content.iter().rposition(|byte| *byte != 0).unwrap();
        for at in (0..used).step_by(181) {
            let copy = killed(folder.path());
            let mut damaged = content.clone();
            damaged[at] ^= 0x10;
            fs::write(copy.path().join(&file), &damaged).unwrap();
            let Ok(store) = open(copy.path()) else {
                refused += 1;
                continue;
            };
            check_content(store, &format!("byte {at} of {file}")).await;
        }
    }
    assert!(refused > 10, "{refused}");
}

/// Checks that the store has the leases of [`closed_folder`].
async fn check_content(store: Store, how: &str) {
    let server = crate::common::serve(store);
    let (_, list) = server.api.list("?limit=1000").await;
    let leases = list["leases"].as_array().unwrap();
    assert_eq!(leases.len(), 40, "{how}");
    for lease in leases {
        let name = lease["lease"].as_str().unwrap();
        let number = name.strip_prefix("job-").unwrap();
        assert_eq!(lease["holder"], format!("c{number}"), "{how}");
        let before = 100 + number.parse::<u32>().unwrap();
        let (_, history) = server.api.history(name).await;
        let term = &history["terms"][1];
        assert_eq!(term["holder"], format!("c{before}"), "{how}");
        assert_eq!(term["reason"], "for the next", "{how}");
    }
}
