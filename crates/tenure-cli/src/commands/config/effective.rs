//! Each key with its value in effect and its origin.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::__cli::{Settings, is_secret};
use tenure::config::{ConfigError, Origin};
use tenure_azure::server::ServedAccount;
use tenure_core::wire::host_name;
use tenure_server::{ClusterConfig, Failover, SharedEngine};

use crate::settings::checked_store::CheckedStore;
use crate::settings::{
    CheckedCandidate, audit, azure, cluster, limits, stop_signal, with_any_election,
};

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct SettingRow {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) origin: String,
}

const DEFAULT: &str = "default";

impl SettingRow {
    fn new(key: &str, value: Value, origin: Option<&Origin>) -> Self {
        Self {
            key: key.into(),
            value,
            origin: origin.map_or_else(|| default_origin(key).into(), Origin::to_string),
        }
    }

    /// Whether the value is the place of the store or its data, or differs from the default.
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
pub(super) fn of_candidate(settings: &Settings) -> Result<Vec<SettingRow>, ConfigError> {
    let checked = CheckedCandidate::new(&with_any_election(settings))?;
    let config = &checked.config;
    let timings = config.timings();
    let is_set = |key| settings.origin(key).is_some();
    let election = is_set("election").then(|| config.election.to_string());
    let candidate = is_set("candidate").then(|| config.candidate.as_str());
    let servers: Vec<String> = config.servers().iter().map(ToString::to_string).collect();
    let ca_file = settings.text("ca_file")?.filter(|file| !file.is_empty());
    let require_fencing = settings.flag("require_fencing")?.unwrap_or_default();
    let values = [
        ("election", json!(election)),
        ("candidate", candidate.unwrap_or("host-pid-random").into()),
        ("servers", json!(servers)),
        ("ca_file", json!(ca_file)),
        ("priority", config.priority.into()),
        ("lease_duration", duration(timings.lease_duration())),
        ("renew_interval", duration(timings.renew_interval())),
        ("renew_deadline", duration(timings.renew_deadline())),
        ("stop_grace", duration(timings.stop_grace())),
        ("cool_down", duration(timings.cool_down())),
        (
            "progress_deadline",
            timings.progress_deadline().map(duration).into(),
        ),
        ("lock_delay", duration(config.lock_delay)),
        ("on_overrun", config.on_overrun().name().into()),
        (
            "status_listen",
            checked.status_listen.map(|it| it.to_string()).into(),
        ),
        ("stop_signal", stop_signal::name(checked.stop_signal).into()),
        ("hosts", settings.items("hosts", host_name)?.into()),
        ("strategy", config.strategy.name().into()),
        ("require_fencing", require_fencing.into()),
    ];
    let mut rows = rows(
        settings,
        values.map(|(key, value)| (key.into(), value)).into(),
    );
    let metadata = settings.metadata()?;
    let first = metadata.keys().next();
    let origin = first.and_then(|name| settings.origin(&format!("metadata.{name}")));
    rows.push(SettingRow::new("metadata", json!(metadata), origin));
    Ok(rows)
}

/// The keys of the store, without secrets; all values are checked.
pub(super) fn store(
    settings: &Settings,
    checked: &CheckedStore,
) -> Result<Vec<SettingRow>, ConfigError> {
    let CheckedStore {
        serve,
        access,
        metrics,
        ..
    } = checked;
    let mut limits = serve.limits.clone();
    let mut azure = azure::config(settings)?;
    let engine = serve.engine();
    let data_dir = serve.data_dir.as_ref().map(|path| path.to_string_lossy());
    let accounts: Vec<&str> = azure.accounts.iter().map(ServedAccount::name).collect();
    let values = [
        ("serve.listen", serve.listen.to_string().into()),
        ("serve.data_dir", data_dir.into()),
        ("serve.engine", engine.into()),
        ("serve.worker_threads", serve.worker_threads.into()),
        ("access.hosts", access.hosts.clone().into()),
        (
            "access.trusted_proxies",
            settings.items("access.trusted_proxies", Ok)?.into(),
        ),
        ("access.allow_plain_http", access.allow_plain_http.into()),
        ("access.allow_anonymous", access.allow_anonymous.into()),
        ("audit.level", audit::level(settings)?.into()),
        ("audit.required", audit::is_required(settings)?.into()),
        (
            "metrics.listen",
            metrics.listen.map(|listen| listen.to_string()).into(),
        ),
        ("metrics.max_leases", metrics.max_leases.into()),
        ("metrics.leases", metrics.leases.clone().into()),
        ("metrics.expected", metrics.expected.clone().into()),
        (
            "etcd.allow_plain_http",
            settings
                .flag("etcd.allow_plain_http")?
                .unwrap_or_default()
                .into(),
        ),
        ("azure.accounts", accounts.into()),
        ("azure.behind_tls", azure.behind_tls.into()),
        ("azure.bearer_audience", azure::audience(settings)?.into()),
    ];
    let mut values: BTreeMap<String, Value> = values.map(|(key, value)| (key.into(), value)).into();
    for key in [
        "access.file",
        "audit.file",
        "tls.certificate",
        "tls.key",
        "azure.bearer_keys",
        "azure.bearer_issuer",
    ] {
        let text = settings.text(key)?.filter(|text| !text.is_empty());
        values.insert(key.into(), text.into());
    }
    if let Some(config) = &serve.cluster {
        values.extend(of_cluster(config));
    }
    values.extend(limits::values("serve", limits.settings()));
    values.extend(limits::values("azure", azure.limits()));
    Ok(rows(settings, values))
}

/// The keys of a cluster. The others show what was set.
fn of_cluster(config: &ClusterConfig) -> Vec<(String, Value)> {
    let mut values = vec![
        ("cluster.name", config.name.clone().into()),
        ("cluster.server", config.server.clone().into()),
        ("cluster.advertise", config.advertise.clone().into()),
        ("cluster.ownership", duration(config.ownership)),
        ("cluster.confirm", config.confirm.into()),
    ];
    match &config.engine {
        SharedEngine::Etcd(etcd) => values.extend([
            ("etcd.endpoints", etcd.endpoints.clone().into()),
            ("etcd.prefix", etcd.prefix.clone().into()),
            (
                "etcd.compact",
                cluster::compaction_text(etcd.compact).into(),
            ),
        ]),
        SharedEngine::Postgres(postgres) => {
            let failover = match postgres.failover {
                Failover::None => "none",
                Failover::Lossless => "lossless",
            };
            values.extend([
                ("postgres.schema", postgres.schema.clone().into()),
                ("postgres.failover", failover.into()),
            ]);
        }
        _ => {}
    }
    let of_text = |(key, value): (&str, Value)| (key.to_owned(), value);
    values.into_iter().map(of_text).collect()
}

/// The keys of these settings with their values. `values` has the values in effect. A key without
/// one belongs to another strategy and has no effect, so its row shows the value that was set.
fn rows(settings: &Settings, mut values: BTreeMap<String, Value>) -> Vec<SettingRow> {
    let row = |key| {
        let origin = settings.origin(key);
        // An empty text means the same as no value.
        let set = Some(settings.list(key)).filter(|items| origin.is_some() && *items != [""]);
        let value = values.remove(key).unwrap_or_else(|| match set {
            Some(_) if is_secret(key) => "(secret)".into(),
            Some(items) => items.into(),
            None => Value::Null,
        });
        SettingRow::new(key, value, origin)
    };
    settings.keys().map(row).collect()
}

/// The origin of a value that was not set.
fn default_origin(key: &str) -> &'static str {
    match key {
        "election" => "not set",
        "candidate" => "default, new at each start",
        "ca_file" => "default, the system's",
        "cluster.server" => "default, the host name",
        "renew_interval" | "renew_deadline" | "stop_grace" => "follows from the others",
        _ => DEFAULT,
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
