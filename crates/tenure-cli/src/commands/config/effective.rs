//! Each key with its value in effect and its origin.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_config::{ConfigError, Key, Origin, Settings};

use crate::settings::checked_store::CheckedStore;
use crate::settings::{CheckedCandidate, stop_signal, with_any_election};

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct SettingRow {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) origin: String,
}

const DEFAULT: &str = "default";

impl SettingRow {
    /// Whether the value is the place of the store or its data, or differs from the default.
    pub(super) fn is_notable(&self) -> bool {
        matches!(self.key.as_str(), "serve.listen" | "serve.home") || self.origin != DEFAULT
    }

    /// The value with its origin.
    pub(super) fn json(&self) -> Value {
        json!({"value": self.value, "origin": self.origin})
    }
}

/// The keys of a candidate; all values are checked.
pub(super) fn of_candidate(settings: &Settings) -> Result<Vec<SettingRow>, ConfigError> {
    let checked = CheckedCandidate::new(&with_any_election(settings))?;
    let config = &checked.config;
    let servers: Vec<String> = config.servers().iter().map(ToString::to_string).collect();
    let mut in_effect = BTreeMap::from([
        ("servers", json!(servers)),
        ("priority", config.priority.into()),
        ("stop_signal", stop_signal::name(checked.stop_signal).into()),
    ]);
    let mut timings = config.timings().options();
    in_effect.extend(
        timings
            .by_name()
            .map(|(name, time)| (name, time.map(duration).into())),
    );
    let mut rows = rows(settings, in_effect);
    let metadata = settings.free_table()?;
    let first = metadata.keys().next();
    let origin = first.and_then(|name| settings.origin(&format!("metadata.{name}")));
    rows.push(SettingRow {
        key: "metadata".into(),
        value: json!(metadata),
        origin: origin.map_or_else(|| DEFAULT.into(), Origin::to_string),
    });
    Ok(rows)
}

/// The keys of the store, without secrets; all values are checked.
pub(super) fn store(settings: &Settings, checked: &CheckedStore) -> Vec<SettingRow> {
    let serve = &checked.serve;
    let data_dir = serve.data_dir.as_ref().map(|path| path.to_string_lossy());
    let home = match (settings.text("serve.home"), &data_dir) {
        (Ok(Some(home)), _) => Some(home.to_owned()),
        (_, data_dir) => data_dir.as_ref().map(|path| format!("folder:{path}")),
    };
    let accounts = settings.list("azure.accounts").into_iter();
    let accounts = accounts.filter_map(|account| account.split(':').next());
    let mut in_effect = BTreeMap::from([
        ("serve.listen", serve.listen.to_string().into()),
        ("serve.home", home.into()),
        ("serve.data_dir", data_dir.into()),
        ("serve.worker_threads", serve.worker_threads.into()),
        ("azure.accounts", accounts.collect()),
    ]);
    if let Some(cluster) = &serve.cluster {
        in_effect.extend([
            ("cluster.server", cluster.server.clone().into()),
            ("cluster.advertise", cluster.advertise.clone().into()),
        ]);
    }
    rows(settings, in_effect)
}

/// The keys of these settings. `in_effect` has the values that follow from more than their own key.
fn rows(settings: &Settings, mut in_effect: BTreeMap<&str, Value>) -> Vec<SettingRow> {
    let row = |key: &Key| {
        let value = in_effect.remove(&*key.name);
        let origin = match (settings.origin(&key.name), key.described_default()) {
            (Some(origin), _) => origin.to_string(),
            (None, None | Some("none")) => DEFAULT.into(),
            (None, Some("required")) => "not set".into(),
            (None, Some(default)) => format!("{DEFAULT}: {default}"),
        };
        SettingRow {
            key: key.name.clone(),
            value: value.unwrap_or_else(|| value_of(settings, key)),
            origin,
        }
    };
    settings.keys().map(row).collect()
}

/// The value of a key. An empty text means the same as no value.
fn value_of(settings: &Settings, key: &Key) -> Value {
    match (settings.shown(key), key.written.chars().next()) {
        (Some(text), Some('[')) => {
            let items = text.split(", ").filter(|item| !item.is_empty());
            items.collect()
        }
        (Some(text), Some('"')) if !text.is_empty() => text.into(),
        (None, _) | (_, Some('"')) => Value::Null,
        (Some(text), _) => serde_json::from_str(&text).unwrap_or_else(|_| text.into()),
    }
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
