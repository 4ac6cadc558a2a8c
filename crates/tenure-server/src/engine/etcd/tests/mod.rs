//! Tests with real members of etcd, and with fakes for answers that real ones do not give.

mod access;
mod fake;
mod upkeep;

use std::path::PathBuf;
use std::time::Duration;

use axum::body::Bytes;

use super::ConnectEtcd;
use crate::config::{Compaction, EtcdConfig};
use crate::engine::log_lines::LogLines;
use crate::engine::shared::conformance::{self, Steady};
use crate::engine::shared::log::{Append, Appended, Connect, LogError, SharedLog, Sighting};
use crate::support::etcd::Etcd;

/// The time of an attempt in tests that expect no timeout.
const PATIENT: Duration = Duration::from_secs(60);

#[test]
fn etcd_is_a_shared_log() {
    let Some(etcd) = Etcd::start("etcd_is_a_shared_log", 1) else {
        return;
    };
    let mut logs = 0;
    conformance::check(|| {
        logs += 1;
        // The keys of other clusters must not be seen.
        ConnectEtcd::new(&config(etcd.endpoints()), &format!("c{logs}"), PATIENT)
    });
}

fn config(endpoints: Vec<String>) -> EtcdConfig {
    EtcdConfig {
        endpoints,
        prefix: "tenure/".to_owned(),
        user: None,
        password_file: None,
        ca_file: None,
        certificate: None,
        key: None,
        compact: Compaction::Off,
    }
}

fn connect(config: &EtcdConfig, attempt: Duration) -> Box<dyn SharedLog> {
    ConnectEtcd::new(config, "default", attempt)
        .connect()
        .unwrap()
}

/// The same for tests with real members, which may be late.
fn steady(config: &EtcdConfig, attempt: Duration) -> Box<dyn SharedLog> {
    Box::new(Steady(connect(config, attempt)))
}

/// Replaces the head. `None` is no head.
fn replace(
    log: &mut dyn SharedLog,
    expected: Option<&str>,
    head: &str,
) -> Result<Appended, LogError> {
    log.append(&Append {
        expected: expected.map(str::as_bytes),
        head: head.as_bytes(),
        batch: None,
        edits: &[],
        keep_from: 0,
    })
}

fn head_of(sighting: &Sighting) -> Option<&str> {
    let head = sighting.head.as_ref();
    head.map(|head: &Bytes| std::str::from_utf8(head).unwrap())
}

/// The message of a failure that an operator has to mend.
fn misconfigured<T: std::fmt::Debug>(outcome: Result<T, LogError>) -> String {
    match outcome {
        Err(LogError::Misconfigured(message)) => message,
        other => panic!("{other:?}"),
    }
}

/// The log lines of a closure.
fn log_lines(work: impl FnOnce()) -> String {
    let lines = LogLines::default();
    let guard = lines.begin();
    work();
    drop(guard);
    lines.text()
}
