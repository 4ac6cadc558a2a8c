//! The views `leases` and `terms` in the `sqlite3` shell.

use std::path::Path;
use std::time::Duration;

use crate::common::{SOON, assert_ok, id, start};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use tenure_server::StoreConfig;
use tokio::time::{Instant, sleep};

/// Returns all rows of a view: the names of the columns and their values.
fn rows(folder: &Path, view: &str) -> Vec<Vec<(String, Value)>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = Connection::open_with_flags(folder.join("leases.db"), flags).unwrap();
    let mut select = database.prepare(&format!("SELECT * FROM {view}")).unwrap();
    let names: Vec<String> = select.column_names().map(Into::into).collect();
    let rows = select.query_map([], |row| {
        let named = names.iter().enumerate().map(|(index, name)| {
            let value = row.get(index)?;
            Ok((name.clone(), value))
        });
        named.collect()
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// Returns the texts and numbers of these columns of each row.
fn columns(folder: &Path, view: &str, wanted: &[&str]) -> Vec<Vec<Option<String>>> {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::Text(text) => Some(text.clone()),
        other => panic!("{other:?} is not readable"),
    };
    let of_row = |row: &Vec<(String, Value)>| {
        let column = |name: &&str| row.iter().find(|column| column.0 == *name).unwrap();
        wanted.iter().map(|name| text(&column(name).1)).collect()
    };
    rows(folder, view).iter().map(of_row).collect()
}

fn texts(values: &[&str]) -> Vec<Option<String>> {
    let text = |value: &&str| (!value.is_empty()).then(|| (*value).to_owned());
    values.iter().map(text).collect()
}

#[tokio::test]
async fn leases_and_terms_are_readable_and_current_while_the_store_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    let api = &server.api;
    assert_ok(&api.acquire("job", 1).await);
    let release = json!({"lease_id": id(1), "reason": "done"});
    assert_ok(&api.post("job", "release", release).await);
    let (_, granted) = api.acquire("job", 2).await;
    assert_ok(&api.acquire("other", 3).await);
    assert_ok(&api.release("other", 3).await);

    // Changes that are only in the log reach the tables within about a second.
    let leases = || columns(folder.path(), "leases", &["lease", "state", "holder"]);
    let expected = [
        texts(&["job", "leased", "c2"]),
        texts(&["other", "available", "c3"]),
    ];
    let until = Instant::now() + SOON;
    while leases() != expected {
        assert!(Instant::now() < until, "{:?}", leases());
        sleep(Duration::from_millis(20)).await;
    }
    let granted_at = granted["granted_at"].as_str().unwrap();
    let epoch = granted["epoch"].to_string();
    let shown = columns(
        folder.path(),
        "leases",
        &["namespace", "granted_at", "epoch"],
    );
    assert_eq!(shown[0], texts(&["ns", granted_at, &epoch]));

    let terms = columns(
        folder.path(),
        "terms",
        &["lease", "holder", "end", "reason"],
    );
    let expected = [
        texts(&["job", "c1", "released", "done"]),
        texts(&["job", "c2", "", ""]),
        texts(&["other", "c3", "released", ""]),
    ];
    assert_eq!(terms, expected);
    let times = columns(folder.path(), "terms", &["epoch", "began_at", "ended_at"]);
    assert_eq!(times[1], texts(&[&epoch, granted_at, ""]));
    let ended_at = times[0][2].as_deref().unwrap();
    assert!(
        ended_at.parse::<chrono::DateTime<chrono::Utc>>().is_ok(),
        "{ended_at}"
    );

    // Lease ids are secrets.
    for view in ["leases", "terms"] {
        for (name, value) in rows(folder.path(), view).into_iter().flatten() {
            assert!(!matches!(value, Value::Blob(_)), "{name}");
            assert!(name != "lease_id" && name != "retired", "{name}");
        }
    }
    server.stop().await.unwrap();
}
