//! Each key with its value in effect and its origin.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::__cli::{Settings, is_secret};
use tenure::config::{ConfigError, Origin};
use tenure_azure::server::ServedAccount;

use crate::settings::serve::{self, StoreSettings};
use crate::settings::{azure, limits, tls, with_any_election};

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct SettingRow {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) origin: String,
}

const DEFAULT: &str = "default";
const DERIVED: &str = "follows from the others";

impl SettingRow {
    fn new(key: &str, value: Value, origin: Option<&Origin>, default: &str) -> Self {
        Self {
            key: key.into(),
            value,
            origin: origin.map_or_else(|| default.into(), Origin::to_string),
        }
    }

    /// Whether the value says where the store is, or is not the default.
    pub(super) fn is_notable(&self) -> bool {
        matches!(
            self.key.as_str(),
            "serve.listen" | "serve.data_dir" | "serve.engine"
        ) || self.origin != DEFAULT
    }

    /// The value with its origin.
    pub(super) fn json(&self) -> Value {
        json!({"value": self.value, "origin": self.origin})
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
            key if is_set && is_secret(key) => ("(secret)".into(), ""),
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

/// The keys of the store, without secrets; all values are checked.
pub(super) fn store(settings: &Settings) -> Result<Vec<SettingRow>, ConfigError> {
    let mut serve = StoreSettings::new(settings)?;
    let mut azure = azure::config(settings)?;
    tls::open(settings)?;
    let data_dir = serve.engine.data_dir().map(Path::to_string_lossy);
    let engine = data_dir.as_ref().map_or(serve::MEMORY, |_| serve::EMBEDDED);
    let accounts: Vec<&str> = azure.accounts.iter().map(ServedAccount::name).collect();
    let mut values: BTreeMap<String, Value> = [
        ("serve.listen", serve.listen.to_string().into()),
        ("serve.data_dir", data_dir.into()),
        ("serve.engine", engine.into()),
        ("azure.accounts", accounts.into()),
        ("azure.behind_tls", azure.behind_tls.into()),
        ("azure.bearer_audience", azure::audience(settings)?.into()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    values.extend(limits::values("serve", serve.limits.settings()));
    values.extend(limits::values("azure", azure.limits()));
    let row = |key| {
        let file = || {
            settings
                .text(key)
                .map(|file| file.filter(|file| !file.is_empty()).into())
        };
        let value = values.remove(key).map_or_else(file, Ok)?;
        Ok(SettingRow::new(key, value, settings.origin(key), DEFAULT))
    };
    settings.keys().map(row).collect()
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
