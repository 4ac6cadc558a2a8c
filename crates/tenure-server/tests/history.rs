//! What a store remembers of the terms that leases have had.

mod common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use common::{Answer, Api, SOON, assert_ok, assert_refused, id, in_memory, minute, start};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::{Config, Existing, Limits, OpenError, Store, backup, restore};
use tokio::time::{Instant, sleep};

fn terms((status, body): &Answer) -> &Vec<Value> {
    assert_eq!(*status, 200, "{body}");
    body["terms"].as_array().unwrap()
}

/// Holder, end and reason of each term, newest first.
async fn told(api: &Api, lease: &str) -> Vec<[Value; 3]> {
    let history = api.history(lease).await;
    let parts = |term: &Value| ["holder", "end", "reason"].map(|field| term[field].clone());
    terms(&history).iter().map(parts).collect()
}

fn row(holder: &str, end: impl Into<Value>, reason: impl Into<Value>) -> [Value; 3] {
    [holder.into(), end.into(), reason.into()]
}

fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().expect("a time").parse().unwrap()
}

async fn break_lease(api: &Api, lease: &str, period: u64, reason: &str) {
    let body = json!({"break_period_ms": period, "reason": reason});
    assert_ok(&api.post(lease, "break", body).await);
}

/// Waits until nobody holds the lease any more.
async fn until_over(api: &Api, lease: &str) {
    let until = Instant::now() + SOON;
    while !api.get(lease).await.1["holder"].is_null() {
        assert!(Instant::now() < until);
        sleep(Duration::from_millis(5)).await;
    }
}

/// A store in memory, and one in a folder.
fn both() -> [(common::Running, Option<TempDir>); 2] {
    let folder = tempfile::tempdir().unwrap();
    let embedded = start(Config::embedded(folder.path()));
    [(in_memory(), None), (embedded, Some(folder))]
}

/// What a process that is killed now leaves behind.
fn killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        if file.file_name() != "leases.db-shm" {
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
    }
    copy
}

#[tokio::test]
async fn every_end_of_a_term_is_told_with_its_reason_newest_first() {
    for (server, _folder) in both() {
        let api = &server.api;
        assert_refused(&api.history("job").await, 404, "unknown_lease");
        assert_ok(&api.acquire("job", 1).await);
        assert_eq!(
            told(api, "job").await,
            [row("c1", Value::Null, Value::Null)]
        );
        let release = json!({"lease_id": id(1), "reason": "done"});
        assert_ok(&api.post("job", "release", release).await);

        assert_ok(&api.acquire("job", 2).await);
        break_lease(api, "job", 0, "stuck").await;

        assert_ok(&api.acquire("job", 3).await);
        let hand_over = json!({"lease_id": id(3), "to": "c4", "within_ms": 60_000});
        assert_ok(&api.post("job", "handover", hand_over).await);

        assert_ok(&api.acquire("job", 4).await);
        let switch_over = json!({"to": "c5", "within_ms": 50});
        assert_ok(&api.post("job", "handover", switch_over).await);
        until_over(api, "job").await;

        let second = json!({"holder": "c5", "lease_id": id(5), "duration_ms": 1_000});
        assert_ok(&api.post("job", "acquire", second).await);
        until_over(api, "job").await;
        // By the old id of a term that has ended: it does not end again.
        assert_ok(&api.release("job", 5).await);

        assert_ok(&api.acquire("job", 6).await);
        break_lease(api, "job", 60_000, "deploy").await;
        let running = row("c6", Value::Null, "deploy");
        let ended = [
            row("c5", "expired", Value::Null),
            row("c4", "handed_over", Value::Null),
            row("c3", "handed_over", Value::Null),
            row("c2", "broken", "stuck"),
            row("c1", "released", "done"),
        ];
        let all = [[running].as_slice(), &ended].concat();
        assert_eq!(told(api, "job").await, all);

        // Its holder gives it up before the period is over; who broke it has said why.
        let release = json!({"lease_id": id(6), "reason": "broken"});
        assert_ok(&api.post("job", "release", release).await);
        let all = [[row("c6", "broken", "deploy")].as_slice(), &ended].concat();
        assert_eq!(told(api, "job").await, all);
        let epochs: Vec<u64> = terms(&api.history("job").await)
            .iter()
            .map(|term| term["epoch"].as_u64().unwrap())
            .collect();
        assert!(epochs.is_sorted_by(|a, b| a > b), "{epochs:?}");
    }
}

#[tokio::test]
async fn who_is_the_first_to_say_why_a_term_ends_is_heard_also_if_that_moves_nothing() {
    for (server, _folder) in both() {
        let api = &server.api;
        assert_ok(&api.acquire("job", 1).await);
        let switch_over = json!({"to": "c2", "within_ms": 60_000});
        assert_ok(&api.post("job", "handover", switch_over).await);
        assert_ok(&api.acquire("other", 1).await);
        assert_ok(&api.post("other", "break", json!({})).await);
        for (lease, end) in [("job", "handed_over"), ("other", "broken")] {
            // Neither is sooner than what is under way.
            let why = json!({"reason": "deploy"});
            assert_ok(&api.post(lease, "break", why).await);
            break_lease(api, lease, 60_000, "too late").await;
            assert_eq!(
                told(api, lease).await,
                [row("c1", Value::Null, "deploy")],
                "{lease}"
            );
            assert_ok(&api.release(lease, 1).await);
            assert_eq!(told(api, lease).await, [row("c1", end, "deploy")]);
        }
    }
}

#[tokio::test]
async fn a_term_ended_when_its_time_was_over_however_late_somebody_looks() {
    for (server, _folder) in both() {
        let body = json!({"holder": "c1", "lease_id": id(1), "duration_ms": 1_000});
        let (_, granted) = server.api.post("job", "acquire", body).await;
        let history = server.api.history("job").await;
        let running = &terms(&history)[0];
        assert_eq!(running["began_at"], granted["granted_at"]);
        assert_eq!(running["epoch"], granted["epoch"]);
        assert!(running["ended_at"].is_null() && running["end"].is_null());

        sleep(Duration::from_millis(2_500)).await;
        let history = server.api.history("job").await;
        let ended = &terms(&history)[0];
        let lasted = time(&ended["ended_at"]) - time(&ended["began_at"]);
        let millis = lasted.num_milliseconds();
        assert!((990..2_000).contains(&millis), "{millis}");
        assert_eq!(ended["end"], "expired");
    }
}

#[tokio::test]
async fn the_last_terms_are_remembered_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_history: 3,
        ..Limits::default()
    };
    let embedded = || Config::embedded(folder.path()).with_limits(limits.clone());
    for config in [Config::memory().with_limits(limits.clone()), embedded()] {
        let server = start(config);
        let api = &server.api;
        for number in 1..=2 {
            assert_ok(&api.acquire("job", number).await);
            assert_ok(&api.release("job", number).await);
        }
        assert_ok(&api.acquire("job", 3).await);
        let holders = async || {
            let told = told(api, "job").await;
            told.into_iter()
                .map(|[holder, ..]| holder)
                .collect::<Vec<_>>()
        };
        assert_eq!(holders().await, ["c3", "c2", "c1"]);
        assert_ok(&api.release("job", 3).await);
        assert_eq!(holders().await, ["c3", "c2", "c1"]);
        assert_ok(&api.acquire("job", 4).await);
        assert_eq!(holders().await, ["c4", "c3", "c2"]);
        server.stop().await.unwrap();
    }
    // A store that remembers less forgets the rest, and does not get it back.
    let fewer = Limits {
        max_history: 2,
        ..limits.clone()
    };
    let server = start(Config::embedded(folder.path()).with_limits(fewer));
    assert_eq!(told(&server.api, "job").await.len(), 2);
    server.stop().await.unwrap();
}

fn rows(folder: &Path, table: &str) -> u32 {
    let database = Connection::open(folder.join("leases.db")).unwrap();
    let count = format!("SELECT count(*) FROM {table}");
    database.query_row(&count, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_history_is_there_after_a_stop_and_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(Config::embedded(folder.path()));
    let api = &server.api;
    assert_ok(&api.acquire("job", 1).await);
    break_lease(api, "job", 0, "stuck").await;
    assert_ok(&api.acquire("job", 2).await);
    assert_ok(&api.acquire("breaking", 3).await);
    break_lease(api, "breaking", 100, "deploy").await;
    let job = api.history("job").await;
    assert_eq!(terms(&job).len(), 2);

    let copy = killed(folder.path());
    server.stop().await.unwrap();
    for folder in [copy.path(), folder.path()] {
        let server = start(Config::embedded(folder));
        assert_eq!(server.api.history("job").await, job);
        // The break goes on, and it is not forgotten why.
        until_over(&server.api, "breaking").await;
        let expected = [row("c3", "broken", "deploy")];
        assert_eq!(told(&server.api, "breaking").await, expected);
        assert_ok(&server.api.release("job", 2).await);
        assert_eq!(
            told(&server.api, "job").await,
            [
                row("c2", "released", Value::Null),
                row("c1", "broken", "stuck")
            ]
        );
    }
}

#[tokio::test]
async fn a_deleted_lease_has_no_history_nor_has_one_made_again() {
    for (server, folder) in both() {
        let api = &server.api;
        for number in 1..=3 {
            assert_ok(&api.acquire("job", number).await);
            assert_ok(&api.release("job", number).await);
        }
        assert_eq!(api.delete("job").await.0, 204);
        assert_refused(&api.history("job").await, 404, "unknown_lease");
        assert_ok(&api.acquire("job", 4).await);
        assert_eq!(
            told(api, "job").await,
            [row("c4", Value::Null, Value::Null)]
        );
        server.stop().await.unwrap();
        if let Some(folder) = folder {
            assert_eq!(rows(folder.path(), "history"), 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_read_while_terms_end_has_each_of_them_once() {
    for (server, _folder) in both() {
        let api = server.api.clone();
        let ending = tokio::spawn(async move {
            for number in 1..=60 {
                assert_ok(&api.acquire("job", number).await);
                assert_ok(&api.release("job", number).await);
            }
        });
        let mut most = 0;
        while !ending.is_finished() {
            let answer = server.api.history("job").await;
            if answer.0 == 404 {
                continue;
            }
            let terms = terms(&answer);
            // All from the newest down to the first, and only the newest may go on.
            for (term, number) in terms.iter().zip((1..=terms.len()).rev()) {
                assert_eq!(term["holder"], format!("c{number}"), "{terms:?}");
            }
            assert!(terms.iter().skip(1).all(|term| term["end"] == "released"));
            assert!(terms.len() >= most);
            most = terms.len();
        }
        ending.await.unwrap();
        assert_eq!(told(&server.api, "job").await.len(), 60);
    }
}

/// The tables of a folder of the first format, and one lease.
const FIRST_FORMAT: &str = "
    CREATE TABLE leases (
        namespace TEXT NOT NULL, lease TEXT NOT NULL, state TEXT NOT NULL, holder TEXT,
        epoch INTEGER, granted_at_ms INTEGER, duration_ms INTEGER, lease_id BLOB, break_ms INTEGER,
        lock_delay_ms INTEGER, metadata TEXT NOT NULL, reserved_for TEXT, reserved_ms INTEGER,
        retired BLOB NOT NULL, revision INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (namespace, lease)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, floor INTEGER,
        row_count INTEGER NOT NULL, digest INTEGER NOT NULL, crc INTEGER NOT NULL
    ) STRICT;
    PRAGMA application_id = 1952804466;
    PRAGMA user_version = 1;
";

/// A folder of the first format, as a store of it left it, with one lease that c1 holds.
async fn folder_of_the_first_format() -> TempDir {
    let now = tempfile::tempdir().unwrap();
    let server = start(Config::embedded(now.path()));
    assert_ok(&server.api.post("job", "acquire", minute(1)).await);
    server.stop().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let database = Connection::open(folder.path().join("leases.db")).unwrap();
    database
        .query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
        .unwrap();
    database.execute_batch(FIRST_FORMAT).unwrap();
    // The rows are the same in both.
    let now = now.path().join("leases.db").display().to_string();
    database.execute("ATTACH ?1 AS now", [now]).unwrap();
    database
        .execute_batch(
            "INSERT INTO leases SELECT * FROM now.leases;
             INSERT INTO meta SELECT * FROM now.meta;
             DETACH now",
        )
        .unwrap();
    drop(database);
    fs::write(folder.path().join("FORMAT"), "tenure-store 1\n").unwrap();
    fs::write(folder.path().join("lock"), "").unwrap();
    folder
}

/// A folder of the second or the third format, as a store of it left it.
fn folder_of_format(format: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let database = Connection::open(folder.path().join("leases.db")).unwrap();
    database
        .query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
        .unwrap();
    let content = format!("{}/tests/formats/{format}.sql", env!("CARGO_MANIFEST_DIR"));
    let content = fs::read_to_string(content).unwrap();
    database.execute_batch(&content).unwrap();
    drop(database);
    let marker = format!("tenure-store {format}\n");
    fs::write(folder.path().join("FORMAT"), marker).unwrap();
    fs::write(folder.path().join("lock"), "").unwrap();
    folder
}

#[tokio::test]
async fn a_folder_of_an_older_format_is_upgraded_with_all_its_terms() {
    let damages = [
        (2, "UPDATE recent_terms SET holder = 'mallory'"),
        (2, "DELETE FROM recent_terms"),
        (3, "UPDATE recent SET revision = revision + 100"),
        (3, "UPDATE recent SET changes = x'' WHERE revision = 6"),
        (3, "DELETE FROM recent WHERE revision = 6"),
        (3, "DELETE FROM recent"),
    ];
    for (format, damage) in [2, 3]
        .into_iter()
        .flat_map(|format| {
            let both = ["UPDATE terms SET holder = 'mallory'", "DELETE FROM terms"];
            both.map(|damage| (format, damage))
        })
        .chain(damages)
    {
        let folder = folder_of_format(format);
        let database = Connection::open(folder.path().join("leases.db")).unwrap();
        database.execute_batch(damage).unwrap();
        drop(database);
        let error = Store::open(Config::embedded(folder.path())).unwrap_err();
        assert!(
            matches!(error, OpenError::Damaged { .. }),
            "{damage}: {error}"
        );
        assert_eq!(marker(folder.path()), format!("tenure-store {format}\n"));
    }
    for format in [2, 3] {
        let old = folder_of_format(format);
        // What a start leaves that is cut short before the marker is written.
        let unmarked = killed(old.path());
        drop(Store::open(Config::embedded(unmarked.path())).unwrap());
        fs::copy(old.path().join("FORMAT"), unmarked.path().join("FORMAT")).unwrap();
        for folder in [killed(old.path()), unmarked] {
            let server = start(Config::embedded(folder.path()));
            assert_eq!(marker(folder.path()), "tenure-store 5\n");
            assert_as_it_was(&server.api).await;
            server.stop().await.unwrap();
            assert_eq!(version(&folder.path().join("leases.db")), 5);
            drop(Store::open(Config::embedded(folder.path())).unwrap());
        }
        // And a backup of it is restored in this one.
        let place = tempfile::tempdir().unwrap();
        let (file, folder) = (place.path().join("old.db"), place.path().join("store"));
        backup(old.path(), &file, Existing::Keep).unwrap();
        restore(&file, &folder).unwrap();
        let versions = (version(&file), version(&folder.join("leases.db")));
        assert_eq!(versions, (format, 5));
        let server = start(Config::embedded(&folder));
        assert_as_it_was(&server.api).await;
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_folder_of_the_fourth_format_is_upgraded_with_what_is_in_its_batches() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(Config::embedded(folder.path()));
    assert_ok(&server.api.acquire("job", 1).await);
    assert_ok(&server.api.release("job", 1).await);
    assert_ok(&server.api.acquire("job", 2).await);
    let old = killed(folder.path());
    server.stop().await.unwrap();
    let database = Connection::open(old.path().join("leases.db")).unwrap();
    database
        .execute_batch("DROP TABLE deleted; PRAGMA user_version = 4")
        .unwrap();
    drop(database);
    fs::write(old.path().join("FORMAT"), "tenure-store 4\n").unwrap();

    let place = tempfile::tempdir().unwrap();
    let (file, restored) = (place.path().join("old.db"), place.path().join("store"));
    backup(old.path(), &file, Existing::Keep).unwrap();
    restore(&file, &restored).unwrap();
    for folder in [old.path(), &restored] {
        let server = start(Config::embedded(folder));
        assert_eq!(marker(folder), "tenure-store 5\n");
        let api = &server.api;
        assert_refused(&api.acquire("job", 1).await, 409, "lease_id_retired");
        assert_ok(&api.renew("job", 2).await);
        assert_eq!(told(api, "job").await.len(), 2);
        assert_ok(&api.release("job", 2).await);
        assert_eq!(api.delete("job").await.0, 204);
        server.stop().await.unwrap();
        let server = start(Config::embedded(folder));
        let refused = server.api.acquire("job", 2).await;
        assert_refused(&refused, 409, "lease_id_retired");
        server.stop().await.unwrap();
    }
}

/// The leases of [`folder_of_format`].
async fn assert_as_it_was(api: &Api) {
    let expected = [
        row("c3", Value::Null, Value::Null),
        row("c2", "released", Value::Null),
        row("c1", "released", Value::Null),
    ];
    assert_eq!(told(api, "job").await, expected);
    let (status, view) = api.renew("job", 3).await;
    assert_eq!(
        (status, &view["metadata"]["address"]),
        (200, &json!("http://a:1"))
    );
    // Its epoch is never granted again, and the ids of the terms that have ended are not taken.
    assert_eq!(api.get("gone").await.0, 404);
    let (_, again) = api.acquire("gone", 5).await;
    assert!(again["epoch"].as_u64() > view["epoch"].as_u64(), "{again}");
    assert_ok(&api.release("job", 3).await);
    for retired in 1..=3 {
        assert_refused(&api.acquire("job", retired).await, 409, "lease_id_retired");
    }
    assert_ok(&api.acquire("job", 4).await);
}

fn marker(folder: &Path) -> String {
    fs::read_to_string(folder.join("FORMAT")).unwrap()
}

fn version(database: &Path) -> u32 {
    let database = Connection::open(database).unwrap();
    let version = database.query_row("PRAGMA user_version", [], |row| row.get(0));
    version.unwrap()
}

#[tokio::test]
async fn a_folder_of_the_first_format_is_upgraded_at_a_start_also_at_one_that_was_cut_short() {
    let old = folder_of_the_first_format().await;
    type CutShort = fn(&Path);
    let upgrade_database: CutShort = |folder| {
        let upgraded = killed(folder);
        drop(Store::open(Config::embedded(upgraded.path())).unwrap());
        fs::copy(upgraded.path().join("leases.db"), folder.join("leases.db")).unwrap();
    };
    let cuts: [(&str, CutShort); 4] = [
        ("not at all", |_| {}),
        ("before the marker was written", upgrade_database),
        ("in the middle of the new marker", |folder| {
            fs::write(folder.join("FORMAT.new"), "tenure-s").unwrap();
        }),
        ("before the new marker took the old one's place", |folder| {
            let upgraded = killed(folder);
            drop(Store::open(Config::embedded(upgraded.path())).unwrap());
            fs::copy(upgraded.path().join("leases.db"), folder.join("leases.db")).unwrap();
            fs::write(folder.join("FORMAT.new"), "tenure-store 5\n").unwrap();
        }),
    ];
    for (how, cut) in cuts {
        let folder = killed(old.path());
        cut(folder.path());
        // Killed again right after, and started again.
        for restart in 0..2 {
            let server = start(Config::embedded(folder.path()));
            assert_eq!(marker(folder.path()), "tenure-store 5\n", "{how}");
            assert!(!folder.path().join("FORMAT.new").exists(), "{how}");
            let (_, view) = server.api.get("job").await;
            assert_eq!(view["holder"], "c1", "{how}");
            if restart == 0 {
                assert_eq!(terms(&server.api.history("job").await).len(), 1, "{how}");
                server.stop().await.unwrap();
                continue;
            }
            assert_ok(&server.api.release("job", 1).await);
            let expected = [row("c1", "released", Value::Null)];
            assert_eq!(told(&server.api, "job").await, expected, "{how}");
            server.stop().await.unwrap();
        }
        assert_eq!(version(&folder.path().join("leases.db")), 5, "{how}");
    }
}

#[tokio::test]
async fn a_backup_of_the_first_format_is_restored_in_this_one() {
    let old = folder_of_the_first_format().await;
    let place = tempfile::tempdir().unwrap();
    let (file, folder) = (place.path().join("old.db"), place.path().join("store"));
    backup(old.path(), &file, Existing::Keep).unwrap();
    restore(&file, &folder).unwrap();
    assert_eq!((version(&file), version(&folder.join("leases.db"))), (1, 5));
    let server = start(Config::embedded(&folder));
    assert_eq!(server.api.get("job").await.1["holder"], "c1");
    assert_ok(&server.api.release("job", 1).await);
    assert_eq!(told(&server.api, "job").await.len(), 1);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_damaged_folder_of_the_first_format_is_refused_and_not_upgraded() {
    let folder = folder_of_the_first_format().await;
    let database = Connection::open(folder.path().join("leases.db")).unwrap();
    database
        .execute("UPDATE leases SET holder = 'mallory'", [])
        .unwrap();
    drop(database);
    let error = Store::open(Config::embedded(folder.path())).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert_eq!(marker(folder.path()), "tenure-store 1\n");
    assert_eq!(version(&folder.path().join("leases.db")), 1);

    // An old database in a folder that has come further is somebody's mistake.
    let folder = folder_of_the_first_format().await;
    fs::write(folder.path().join("FORMAT"), "tenure-store 5\n").unwrap();
    let error = Store::open(Config::embedded(folder.path())).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert_eq!(version(&folder.path().join("leases.db")), 1);
}
