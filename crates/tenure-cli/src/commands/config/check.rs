//! `tenure config check`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use tenure::config::{ElectionPlan, Strategy};
use tenure_config::{ConfigError, Settings};

use super::effective;
use crate::output::{self, millis, tenths};
use crate::settings::azure::AzureFlags;
use crate::settings::checked_store::CheckedStore;
use crate::settings::{CANDIDATE, STORE};
use crate::settings::{CheckedCandidate, address_without_key, start_rules, with_any_election};

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

/// The keys that a file may leave to the environment or to a pod, and the keys whose examples stand for
/// them.
const PLACEHOLDERS: [(&str, &[&str]); 5] = [
    (CREDENTIAL, &[CREDENTIAL, "azure_blob.account"]),
    ("kubernetes.url", &["kubernetes.url"]),
    ("kubernetes.namespace", &["kubernetes.namespace"]),
    ("serve.home", &["serve.home"]),
    ("accounts", &["azure.accounts"]),
];

/// The key that an error names if there is no credential of the storage account.
const CREDENTIAL: &str = "azure_blob.key";

/// Reads settings, with examples for what the file leaves to the environment. Also returns the keys that
/// were missing.
fn read_with_placeholders<T>(
    settings: &mut Settings,
    read: impl Fn(&Settings) -> Result<T, ConfigError>,
) -> Result<(T, Vec<&'static str>), ConfigError> {
    let mut missing = Vec::new();
    loop {
        let error = match read(settings) {
            Ok(read) => return Ok((read, missing)),
            Err(error) => error,
        };
        let is_missing =
            |known: &str| matches!(&error, ConfigError::Missing { key, .. } if key == known);
        let placeholder = PLACEHOLDERS.iter().find(|(known, _)| is_missing(known));
        let Some((key, examples)) = placeholder.filter(|(key, _)| !missing.contains(key)) else {
            return Err(error);
        };
        missing.push(*key);
        for key in *examples {
            if settings.origin(key).is_none() {
                settings.set_example(key);
            }
        }
    }
}

impl Check {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let (path, file) = (&self.file, self.file.display());
        let mut settings = Settings::of_file(CANDIDATE, path)?;
        let (candidate, of_environment) = read_with_placeholders(&mut settings, |settings| {
            CheckedCandidate::new(&with_any_election(settings))
        })?;
        let config = candidate.config;
        let missing = of_environment.contains(&CREDENTIAL);
        let is_outside_of_pod = of_environment
            .iter()
            .any(|key| key.starts_with("kubernetes."));
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
        let mut store = Settings::of_file(STORE, path)?;
        let (checked, _) = read_with_placeholders(&mut store, |settings| {
            CheckedStore::new(settings, AzureFlags::default())
        })?;
        // A file without a table of the store is for candidates only.
        if store.keys().any(|key| store.origin(&key.name).is_some()) {
            start_rules::open_access(&checked, checked.serve.listen)?;
        }
        let mut warnings = checked.serve.limits.warnings();
        if let Some(cluster) = checked.serve.cluster.as_ref().filter(|_| has_lease) {
            warnings.extend(timings.take_over_warning(cluster.ownership));
        }
        if let Some(listen) = address_without_key(&settings, &config)? {
            warnings.push(format!(
                "{listen} is not a loopback address, and no key is set here: tenure run needs key_file, a key \
                 in its environment, or --allow-anonymous"
            ));
        }
        let rows = effective::store(&store, &checked);
        let has_cluster = checked.serve.cluster.is_some();
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
