//! The log in a real PostgreSQL.

mod access;
mod appends;
mod changes;
mod failovers;

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;

use super::PostgresConnect;
use crate::config::{Failover, PostgresConfig, PostgresUrl};
use crate::engine::shared::log::{
    Append, Appended, Connect, LogError, LoggedBatch, Place, SharedLog,
};
use crate::support::postgres::Postgres;

/// The time limit of a call. Nothing waits for it, unless the service does not answer.
const ATTEMPT: Duration = Duration::from_secs(60);

/// The time limit of a call whose answer does not come.
const SHORT: Duration = Duration::from_millis(700);

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that all tests use that do not harm it; `None` if PostgreSQL is not installed.
fn shared_server(test: &str) -> Option<&'static Postgres> {
    static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::start(test, "")).as_ref()
}

fn config(url: String, schema: &str) -> PostgresConfig {
    PostgresConfig {
        url: PostgresUrl::Text(url),
        schema: schema.to_owned(),
        failover: Failover::None,
    }
}

/// Connections of the superuser, with this time limit of a call.
fn connects(server: &Postgres, schema: &str, attempt: Duration) -> PostgresConnect {
    let config = config(server.url("postgres", ""), schema);
    PostgresConnect::new(config, "default", attempt).expect("a valid schema")
}

fn connect(server: &Postgres, schema: &str) -> Box<dyn SharedLog> {
    connects(server, schema, ATTEMPT)
        .connect()
        .expect("valid settings")
}

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < until, "timed out waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A head with this number.
fn head(number: u64) -> String {
    format!("{{\"sequence\": {number}}}")
}

/// An append without places. `expected` and `number` are the numbers of heads; the batch has the
/// number, too.
fn append(
    log: &mut dyn SharedLog,
    expected: Option<u64>,
    number: u64,
) -> Result<Appended, LogError> {
    let (expected, new) = (expected.map(head), head(number));
    log.append(&Append {
        expected: expected.as_deref().map(str::as_bytes),
        head: new.as_bytes(),
        batch: Some(batch(number)),
        edits: &[],
        keep_from: 0,
    })
}

/// An append that has only a head.
fn beat(log: &mut dyn SharedLog, expected: u64, number: u64) -> Result<Appended, LogError> {
    log.append(&Append {
        expected: Some(head(expected).as_bytes()),
        head: head(number).as_bytes(),
        batch: None,
        edits: &[],
        keep_from: 0,
    })
}

fn batch(number: u64) -> LoggedBatch {
    LoggedBatch {
        sequence: number,
        bytes: Bytes::from(number.to_le_bytes().to_vec()),
    }
}

fn place(key: &str, value: &str) -> Place {
    Place {
        key: key.to_owned(),
        value: value.to_owned().into(),
    }
}

/// The number of the head that stands in a refusal.
fn refused_by(appended: Result<Appended, LogError>) -> Option<u64> {
    match appended {
        Ok(Appended::Refused(sighting)) => sighting.head.map(|head| {
            let head: serde_json::Value = serde_json::from_slice(&head).expect("JSON");
            head["sequence"].as_u64().expect("a number")
        }),
        other => panic!("it is not refused: {other:?}"),
    }
}

fn is_unknown(appended: &Result<Appended, LogError>) -> bool {
    matches!(appended, Err(LogError::Unknown(_)))
}
