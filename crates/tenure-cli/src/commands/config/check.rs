//! `tenure config check`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use tenure::__cli::{Scope, Settings, from_settings};
use tenure::config::{ConfigError, ElectionPlan, Origin, Strategy};

use super::effective;
use crate::output::{self, millis, tenths};
use crate::settings::serve::StoreSettings;
use crate::settings::{azure, with_any_election};

/// Check a file, for candidates and for the store, and print the values that follow from it
///
/// Reads only the file, not the environment. An error is reported with file and line, and the exit
/// code is 2.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Configuration file (TOML)
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The key that an error names if there is no credential of the storage account.
const CREDENTIAL: &str = "azure_blob.key";

/// The keys without which a configuration is incomplete outside of a pod, each with a placeholder.
const OF_POD: [(&str, &str); 2] = [
    ("kubernetes.url", "https://kubernetes.default.svc"),
    ("kubernetes.namespace", "default"),
];

/// The key that an error names if there is no connection string of a database.
const URL_FILE: &str = "postgres.url_file";

impl Check {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let (path, file) = (&self.file, self.file.display());
        let mut settings = Settings::of_file(Scope::Candidate, path)?;
        let read = |settings: &Settings| from_settings(&with_any_election(settings));
        let mut config = read(&settings);
        // The credential of a storage account may be in the environment of the candidates.
        let missing =
            matches!(&config, Err(ConfigError::Missing { key, .. }) if *key == CREDENTIAL);
        if missing {
            for (key, value) in [(CREDENTIAL, "AAAA"), ("azure_blob.account", "some")] {
                if settings.origin(key).is_none() {
                    settings.set(key, [value], Origin::Flag("(environment)".into()));
                }
            }
            config = read(&settings);
        }
        let is_of_pod = |key: &str| OF_POD.iter().any(|(of_pod, _)| *of_pod == key);
        let is_outside_of_pod =
            matches!(&config, Err(ConfigError::Missing { key, .. }) if is_of_pod(key));
        if is_outside_of_pod {
            for (key, value) in OF_POD {
                if settings.origin(key).is_none() {
                    settings.set(key, [value], Origin::Flag("(pod)".into()));
                }
            }
            config = read(&settings);
        }
        let config = config?;
        let (timings, strategy) = (config.timings(), &config.strategy);
        // Each program may set its election by itself.
        let election = settings
            .origin("election")
            .map(|_| config.election.to_string());
        let plan = config.election_plan()?;
        let blob = match strategy {
            Strategy::AzureBlob(blob) => Some(blob),
            _ => None,
        };
        let object = match strategy {
            Strategy::Kubernetes(lease) if is_outside_of_pod => Some(format!(
                "{}; what is not set here, a candidate takes from its pod",
                lease.name()
            )),
            Strategy::Kubernetes(lease) => Some(lease.to_string()),
            _ => None,
        };
        // Only with a lease does the time without a leader follow from the timings alone.
        let has_lease = !matches!(strategy, Strategy::Bully(_) | Strategy::Static)
            && config.fallback().is_none();
        let mut store = Settings::of_file(Scope::Store, path)?;
        // The connection string of a database may be in the environment of the store.
        let missing_url = matches!(StoreSettings::new(&store), Err(ConfigError::Missing { key, .. }) if key == URL_FILE);
        if missing_url {
            let origin = Origin::Flag("(environment)".into());
            store.set("postgres.url", ["host=some"], origin);
        }
        let warnings = StoreSettings::new(&store)?.limits.warnings();
        let rows = effective::store(&store)?;
        check_azure(&store)?;
        let has_cluster = StoreSettings::new(&store)?.cluster.is_some();
        let rows = rows.iter().filter_map(|row| {
            let of_cluster = has_cluster && row.key.starts_with("cluster.");
            let name = row.key.strip_prefix("serve.");
            Some((name.or_else(|| of_cluster.then_some(&*row.key))?, row))
        });
        if self.json {
            let mut timings = output::timings(timings);
            if let (false, Some(timings)) = (has_lease, timings.as_object_mut()) {
                timings.remove("worst_without_leader_ms");
            }
            return output::json(&json!({
                "file": file.to_string(),
                "election": election,
                "timings": timings,
                "peers": plan.as_ref().map(plan_json),
                "blob": blob.filter(|_| !missing).map(|blob| blob.url()),
                "object": object,
                "serve": rows.map(|(key, row)| (key, row.value.clone())).collect::<Value>(),
                "warnings": warnings,
            }));
        }
        let unset = "not set here: candidates need --election or TENURE_ELECTION";
        let mut facts = vec![("election", election.unwrap_or_else(|| unset.into()))];
        if has_lease {
            facts.push(("timings", timings.to_string()));
        }
        if let Some(blob) = blob {
            let place = if missing {
                format!(
                    "{}; no credential is set here: candidates need one in TENURE_AZURE_BLOB_KEY, _SAS or \
                     _CONNECTION_STRING",
                    blob.path()
                )
            } else {
                blob.url().to_string()
            };
            facts.push(("blob", place));
            facts.extend(
                blob.warning()
                    .map(|warning| ("warning", warning.to_string())),
            );
        }
        facts.extend(object.map(|object| ("object", object)));
        let rows = rows.filter(|(_, row)| !row.value.is_null() && row.is_notable());
        let rows = rows.map(|(key, row)| format!("{key} {}", effective::text(&row.value)));
        facts.push(("store", rows.collect::<Vec<_>>().join(", ")));
        facts.extend(warnings.into_iter().map(|warning| ("warning", warning)));
        output::line(format_args!("{file}: valid"))?;
        for (name, fact) in facts {
            output::line(format_args!("{name:<11}{fact}"))?;
        }
        if let Some(plan) = plan {
            output::line("peers")?;
            let warnings = plan.warnings.iter();
            let warnings = warnings.map(|warning| ("warning", warning.clone()));
            for (name, fact) in plan.facts().into_iter().chain(warnings) {
                output::line(format_args!("  {name:<11}{fact}"))?;
            }
        }
        Ok(())
    }
}

fn plan_json(plan: &ElectionPlan) -> Value {
    let mut json = json_of_members(plan);
    if let (Some(quorums), Some(json)) = (plan.quorums(), json.as_object_mut()) {
        // A majority has no meaning in a group with a store as a voter.
        json.remove("majority");
        json.remove("tolerated_failures");
        json.insert("k".into(), quorums.with_store().into());
        json.insert("without_store".into(), quorums.without_store().into());
    }
    json
}

fn json_of_members(plan: &ElectionPlan) -> Value {
    let (members, timings) = (plan.settings.members(), plan.settings.timings());
    json!({
        "members": members.iter().collect::<Vec<_>>(),
        "majority": members.majority(),
        "tolerated_failures": members.tolerated_failures(),
        "guarantee": plan.settings.guarantee().to_string(),
        "message_lifetime_ms": millis(timings.message_lifetime()),
        "hold_down_ms": millis(timings.hold_down()),
        "quarantine_ms": millis(timings.quarantine()),
        "detection_ms": millis(plan.bounds.detection),
        "worst_without_leader_ms": millis(plan.bounds.without_leader),
        "messages_per_second": tenths(plan.bounds.messages_per_second),
        "tolerated_drift_percent": tenths(timings.term().tolerated_drift_percent()),
        "warnings": plan.warnings,
    })
}

/// Checks the table `[azure]`, if the file has it.
fn check_azure(settings: &Settings) -> Result<(), ConfigError> {
    let mut config = azure::config(settings)?;
    config.over_tls = settings.has_table("tls");
    // The accounts may be in the environment of the store.
    if config.accounts.is_empty() {
        return Ok(());
    }
    azure::check(settings, &config)
}
