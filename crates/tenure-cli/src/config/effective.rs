//! Each key with its value in effect, and where that came from.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tenure::__cli::Settings;
use tenure::config::{ConfigError, Origin};

use super::with_any_election;
use crate::{azure, serve, tls};

/// One key.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) value: Value,
    pub(super) origin: String,
}

impl Row {
    /// Whether it says where the store is, or was set by somebody.
    pub(super) fn is_worth_telling(&self) -> bool {
        matches!(self.key, "listen" | "data_dir" | "engine") || self.origin != DEFAULT
    }
}

const DEFAULT: &str = "default";

/// A candidate's keys, all values checked.
pub(super) fn candidate(settings: &Settings) -> Result<Vec<Row>, ConfigError> {
    let config = tenure::__cli::from_settings(&with_any_election(settings))?;
    let timings = config.timings();
    let is_set = |key| settings.origin(key).is_some();
    let row = |key: &'static str| {
        let (value, default) = match key {
            "election" if !is_set(key) => (Value::Null, "not set"),
            "election" => (config.election().to_string().into(), ""),
            "candidate" if !is_set(key) => ("host-pid-random".into(), "default, new at each start"),
            "candidate" => (config.candidate().as_str().into(), ""),
            "servers" => {
                let servers = config.servers().iter().map(ToString::to_string);
                (servers.collect::<Vec<_>>().into(), DEFAULT)
            }
            "ca_file" => {
                let file = settings
                    .list(key)
                    .first()
                    .copied()
                    .filter(|file| !file.is_empty());
                (file.into(), "default, the system's")
            }
            "priority" => (config.priority().into(), DEFAULT),
            "lease_duration" => (duration(timings.lease_duration()), DEFAULT),
            "renew_interval" => (
                duration(timings.renew_interval()),
                "follows from the others",
            ),
            "renew_deadline" => (
                duration(timings.renew_deadline()),
                "follows from the others",
            ),
            "stop_grace" => (duration(timings.stop_grace()), "follows from the others"),
            "cool_down" => (duration(timings.cool_down()), DEFAULT),
            "progress_deadline" => {
                let deadline = timings.progress_deadline();
                (deadline.map_or(Value::Null, duration), DEFAULT)
            }
            "lock_delay" => (duration(config.lock_delay()), DEFAULT),
            "on_overrun" => {
                let value = settings.list(key).first().copied().unwrap_or("report");
                (value.into(), "default (exit for tenure run)")
            }
            "strategy" => (config.strategy().name().into(), DEFAULT),
            "require_fencing" => {
                let value = settings.flag(key)?.unwrap_or_default();
                (value.into(), DEFAULT)
            }
            key if Settings::is_secret(key) && is_set(key) => ("(secret)".into(), ""),
            // Of one strategy: nothing of it counts for another one.
            key if key.contains('.') && !is_set(key) => (Value::Null, DEFAULT),
            // A key that this table does not know shows what was said of it.
            key => (settings.list(key).into(), DEFAULT),
        };
        Ok(Row {
            key,
            value,
            origin: origin(settings, key, default),
        })
    };
    let rows = settings.keys().iter().map(|key| row(key));
    let mut rows = rows.collect::<Result<Vec<Row>, ConfigError>>()?;
    let metadata = settings.table("metadata")?;
    let first = metadata.keys().next();
    rows.push(Row {
        key: "metadata",
        origin: first.map_or_else(
            || DEFAULT.into(),
            |first| origin(settings, &format!("metadata.{first}"), ""),
        ),
        value: json!(metadata),
    });
    Ok(rows)
}

/// The store's keys, all values checked.
pub(super) fn store(settings: &Settings) -> Result<Vec<Row>, ConfigError> {
    Ok(rows(settings, serve::values(settings)?))
}

/// The keys of its TLS.
pub(super) fn tls(settings: &Settings) -> Result<Vec<Row>, ConfigError> {
    Ok(rows(settings, tls::values(settings)?))
}

/// The keys of the Azure Blob lease protocol, all values checked and no secret among them.
pub(super) fn azure(settings: &Settings) -> Result<Vec<Row>, ConfigError> {
    Ok(rows(settings, azure::values(settings)?))
}

fn rows(settings: &Settings, values: Vec<(&'static str, Value)>) -> Vec<Row> {
    let row = |(key, value)| Row {
        key,
        value,
        origin: origin(settings, key, DEFAULT),
    };
    values.into_iter().map(row).collect()
}

/// Values by key.
pub(super) fn values(rows: &[Row]) -> Map<String, Value> {
    let pair = |row: &Row| (row.key.to_owned(), row.value.clone());
    rows.iter().map(pair).collect()
}

/// Values and origins by key.
pub(super) fn with_origins(rows: &[Row]) -> Map<String, Value> {
    let pair = |row: &Row| {
        let value = json!({"value": row.value, "origin": row.origin});
        (row.key.to_owned(), value)
    };
    rows.iter().map(pair).collect()
}

/// The value of a key.
pub(super) fn value_of(rows: &[Row], key: &str) -> Value {
    let row = rows.iter().find(|row| row.key == key);
    row.map_or(Value::Null, |row| row.value.clone())
}

/// A value for people.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Object(pairs) if pairs.is_empty() => "-".into(),
        Value::Object(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, value)| format!("{key}={}", text(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

fn duration(duration: Duration) -> Value {
    humantime::format_duration(duration).to_string().into()
}

fn origin(settings: &Settings, key: &str, default: &str) -> String {
    settings
        .origin(key)
        .map_or_else(|| default.into(), Origin::to_string)
}
