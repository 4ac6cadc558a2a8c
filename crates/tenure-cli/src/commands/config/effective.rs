//! Each key with its value in effect and its origin.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tenure::__cli::Settings;
use tenure::config::{ConfigError, Origin};

use crate::settings::with_any_election;

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct SettingRow {
    pub(super) key: &'static str,
    pub(super) value: Value,
    pub(super) origin: String,
}

const DEFAULT: &str = "default";
const DERIVED: &str = "follows from the others";

impl SettingRow {
    fn new(key: &'static str, value: Value, origin: Option<&Origin>, default: &str) -> Self {
        let origin = origin.map_or_else(|| default.into(), Origin::to_string);
        Self { key, value, origin }
    }

    /// Whether the value says where the store is, or is not the default.
    pub(super) fn is_notable(&self) -> bool {
        matches!(self.key, "listen" | "data_dir" | "engine") || self.origin != DEFAULT
    }
}

/// The keys of a candidate; all values are checked.
pub(super) fn candidate(settings: &Settings) -> Result<Vec<SettingRow>, ConfigError> {
    let config = tenure::__cli::from_settings(&with_any_election(settings))?;
    let timings = config.timings();
    let row = |key| {
        let is_set = settings.origin(key).is_some();
        let texts = settings.list(key);
        let (value, default) = match key {
            "election" if is_set => (config.election().to_string().into(), ""),
            "election" => (Value::Null, "not set"),
            "candidate" if is_set => (config.candidate().as_str().into(), ""),
            "candidate" => ("host-pid-random".into(), "default, new at each start"),
            "servers" => {
                let servers = config.servers().iter().map(ToString::to_string);
                (servers.collect::<Vec<_>>().into(), DEFAULT)
            }
            "ca_file" => {
                let file = texts.first().copied().filter(|file| !file.is_empty());
                (file.into(), "default, the system's")
            }
            "priority" => (config.priority().into(), DEFAULT),
            "lease_duration" => (duration(timings.lease_duration()), DEFAULT),
            "renew_interval" => (duration(timings.renew_interval()), DERIVED),
            "renew_deadline" => (duration(timings.renew_deadline()), DERIVED),
            "stop_grace" => (duration(timings.stop_grace()), DERIVED),
            "cool_down" => (duration(timings.cool_down()), DEFAULT),
            "progress_deadline" => (timings.progress_deadline().map(duration).into(), DEFAULT),
            "lock_delay" => (duration(config.lock_delay()), DEFAULT),
            "on_overrun" => {
                let value = texts.first().copied().unwrap_or("report");
                (value.into(), "default (exit for tenure run)")
            }
            "strategy" => (config.strategy().name().into(), DEFAULT),
            "require_fencing" => (settings.flag(key)?.unwrap_or_default().into(), DEFAULT),
            // All others are those of one strategy. They have no effect with another one.
            key if is_set && settings.is_secret(key) => ("(secret)".into(), ""),
            _ => (is_set.then_some(texts).into(), DEFAULT),
        };
        Ok(SettingRow::new(key, value, settings.origin(key), default))
    };
    let mut rows = settings
        .keys()
        .map(row)
        .collect::<Result<Vec<_>, ConfigError>>()?;
    let metadata = settings.metadata()?;
    let first = metadata.keys().next();
    let origin = first.and_then(|name| settings.origin(&format!("metadata.{name}")));
    rows.push(SettingRow::new(
        "metadata",
        json!(metadata),
        origin,
        DEFAULT,
    ));
    Ok(rows)
}

/// The keys of a table of the store.
pub(super) fn table(settings: &Settings, values: Vec<(&'static str, Value)>) -> Vec<SettingRow> {
    let row = |(key, value)| SettingRow::new(key, value, settings.origin(key), DEFAULT);
    values.into_iter().map(row).collect()
}

/// Values by key.
pub(super) fn values(rows: &[SettingRow]) -> Map<String, Value> {
    let pair = |row: &SettingRow| (row.key.to_owned(), row.value.clone());
    rows.iter().map(pair).collect()
}

/// Values and origins by key.
pub(super) fn with_origins(rows: &[SettingRow]) -> Value {
    let pair = |row: &SettingRow| {
        let value = json!({"value": row.value, "origin": row.origin});
        (row.key.to_owned(), value)
    };
    rows.iter().map(pair).collect()
}

/// A value for people.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Object(pairs) if pairs.is_empty() => "-".into(),
        Value::Object(pairs) => {
            let pair = |(key, value): (&String, &Value)| format!("{key}={}", text(value));
            pairs.iter().map(pair).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

fn duration(duration: Duration) -> Value {
    humantime::format_duration(duration).to_string().into()
}
