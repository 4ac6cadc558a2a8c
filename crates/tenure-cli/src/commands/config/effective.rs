//! Each key with its value in effect and its origin.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tenure::__cli::Settings;
use tenure::config::{ConfigError, Origin};

use crate::settings::serve::StoreSettings;
use crate::settings::{access, audit, azure, tls, with_any_election};

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
    fn new(settings: &Settings, key: &'static str, value: Value, default: &str) -> Self {
        let origin = settings.origin(key).map(Origin::to_string);
        Self {
            key,
            value,
            origin: origin.unwrap_or_else(|| default.into()),
        }
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
    let is_set = |key| settings.origin(key).is_some();
    let first = |key| settings.list(key).first().copied();
    let row = |key: &&'static str| {
        let (value, default) = match *key {
            "election" if !is_set(key) => (Value::Null, "not set"),
            "election" => (config.election().to_string().into(), ""),
            "candidate" if !is_set(key) => ("host-pid-random".into(), "default, new at each start"),
            "candidate" => (config.candidate().as_str().into(), ""),
            "servers" => {
                let servers = config.servers().iter().map(ToString::to_string);
                (servers.collect::<Vec<_>>().into(), DEFAULT)
            }
            "ca" if is_set(key) && first(key) != Some("") => ("(PEM)".into(), ""),
            "token" if is_set(key) && first(key) != Some("") => ("(secret)".into(), ""),
            "ca" | "token" => (Value::Null, DEFAULT),
            "token_file" => {
                let file = first(key).filter(|file| !file.is_empty());
                (file.into(), "default, none")
            }
            "ca_file" => {
                let file = first(key).filter(|file| !file.is_empty());
                (file.into(), "default, the system's")
            }
            "priority" => (config.priority().into(), DEFAULT),
            "lease_duration" => (duration(timings.lease_duration()), DEFAULT),
            "renew_interval" => (duration(timings.renew_interval()), DERIVED),
            "renew_deadline" => (duration(timings.renew_deadline()), DERIVED),
            "stop_grace" => (duration(timings.stop_grace()), DERIVED),
            "cool_down" => (duration(timings.cool_down()), DEFAULT),
            "progress_deadline" => {
                let deadline = timings.progress_deadline();
                (deadline.map_or(Value::Null, duration), DEFAULT)
            }
            "lock_delay" => (duration(config.lock_delay()), DEFAULT),
            "on_overrun" => {
                let value = first(key).unwrap_or("report");
                (value.into(), "default (exit for tenure run)")
            }
            "strategy" => (config.strategy().name().into(), DEFAULT),
            "require_fencing" => {
                let value = settings.flag(key)?.unwrap_or_default();
                (value.into(), DEFAULT)
            }
            key if Settings::is_secret(key) && is_set(key) => ("(secret)".into(), ""),
            // A key of one strategy has no effect with another one.
            key if key.contains('.') && !is_set(key) => (Value::Null, DEFAULT),
            // A key that this list does not have is shown as it was set.
            key => (settings.list(key).into(), DEFAULT),
        };
        Ok(SettingRow::new(settings, key, value, default))
    };
    let rows = settings.keys().iter().map(row);
    let mut rows = rows.collect::<Result<Vec<_>, ConfigError>>()?;
    let metadata = settings.table("metadata")?;
    let first = metadata.keys().next();
    let origin = first.and_then(|first| settings.origin(&format!("metadata.{first}")));
    let origin = origin.map_or_else(|| DEFAULT.into(), Origin::to_string);
    rows.push(SettingRow {
        key: "metadata",
        origin,
        value: json!(metadata),
    });
    Ok(rows)
}

/// The keys of the store; all values are checked.
pub(super) fn store(settings: &Settings) -> Result<Vec<SettingRow>, ConfigError> {
    Ok(rows(settings, StoreSettings::new(settings)?.values()))
}

/// The keys of access control; all values are checked.
pub(super) fn access(settings: &Settings) -> Result<Vec<SettingRow>, ConfigError> {
    Ok(rows(settings, access::values(settings)?))
}

/// The keys of the audit log; all values are checked.
pub(super) fn audit(settings: &Settings) -> Result<Vec<SettingRow>, ConfigError> {
    Ok(rows(settings, audit::values(settings)?))
}

/// The keys of the store's TLS; all values are checked.
pub(super) fn tls(settings: &Settings) -> Result<Vec<SettingRow>, ConfigError> {
    Ok(rows(settings, tls::values(settings)?))
}

/// The keys of the Azure Blob lease protocol, without secrets; all values are checked.
pub(super) fn azure(settings: &Settings) -> Result<Vec<SettingRow>, ConfigError> {
    Ok(rows(settings, azure::values(settings)?))
}

fn rows(settings: &Settings, values: Vec<(&'static str, Value)>) -> Vec<SettingRow> {
    let row = |(key, value)| SettingRow::new(settings, key, value, DEFAULT);
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
