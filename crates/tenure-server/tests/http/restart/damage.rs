//! Databases that were changed or lost, which are refused.

use super::*;

#[tokio::test]
async fn a_missing_or_foreign_database_never_causes_a_fresh_start() {
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
        "UPDATE meta SET floors = '{}'",
        "UPDATE meta SET floors = replace(floors, 'null', '1')",
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

#[tokio::test]
async fn a_damaged_list_of_free_pages_is_noticed() {
    let folder = closed_folder().await;
    let database = Connection::open(folder.path().join("leases.db")).unwrap();
    // The pages of a dropped table become free.
    database
        .execute_batch(
            "CREATE TABLE filler (content BLOB);
             INSERT INTO filler VALUES (randomblob(100000));
             DROP TABLE filler;
             PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .unwrap();
    drop(database);
    let content = fs::read(folder.path().join("leases.db")).unwrap();
    let trunk = u32::from_be_bytes(content[32..36].try_into().unwrap());
    let first_entry = (trunk as usize - 1) * 4096 + 8;
    for (at, page) in [(32, trunk + 1_000), (first_entry, 2)] {
        let copy = killed(folder.path());
        drop(open(copy.path()).expect("an unchanged folder"));
        let copy = killed(folder.path());
        let mut damaged = content.clone();
        damaged[at..at + 4].copy_from_slice(&page.to_be_bytes());
        fs::write(copy.path().join("leases.db"), &damaged).unwrap();
        assert_damaged(copy.path(), "leases.db", "a free page");
    }
}

#[tokio::test]
async fn text_that_is_not_utf_8_and_an_unknown_version_of_the_file_are_damage() {
    let folder = closed_folder().await;
    let content = fs::read(folder.path().join("leases.db")).unwrap();
    // The test changes all copies of the text, because some of them may be in free space, which is
    // not read.
    let text = b"for the next";
    let windows = content.windows(text.len()).enumerate();
    let reasons = windows.filter_map(|(at, bytes)| (bytes == text).then_some(at));
    for places in [vec![18], vec![19], reasons.collect()] {
        let copy = killed(folder.path());
        let mut damaged = content.clone();
        for at in &places {
            damaged[*at] ^= 0x80;
        }
        fs::write(copy.path().join("leases.db"), &damaged).unwrap();
        assert_damaged(copy.path(), "leases.db", &format!("bytes {places:?}"));
    }
}

#[tokio::test]
async fn flipped_bits_never_change_the_loaded_state() {
    flip_bits(181).await;
}

/// Flips a bit at each multiple of this distance, one at a time. The flip is either detected or has
/// no effect: the store refuses to start, or it loads exactly the earlier state.
async fn flip_bits(distance: usize) {
    let folder = closed_folder().await;
    let content = fs::read(folder.path().join("leases.db")).unwrap();
    let mut refused = 0;
    for at in (0..content.len()).step_by(distance) {
        let copy = killed(folder.path());
        let mut damaged = content.clone();
        damaged[at] ^= 0x10;
        fs::write(copy.path().join("leases.db"), &damaged).unwrap();
        let Ok(store) = open(copy.path()) else {
            refused += 1;
            continue;
        };
        let server = crate::common::serve(store);
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
