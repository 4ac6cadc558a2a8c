//! `tenure config`: checking, showing and beginning a configuration.

mod effective;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::__cli::Settings;
use tenure::config::{ConfigError, ElectionPlan, Origin, Strategy};
use tenure::{Config, Timings};

use crate::cli::{ConfigArgs, ConfigCheck, ConfigCommand, ConfigShow};
use crate::exit::Failure;
use crate::output;
use crate::{azure, run, serve, tls};
use effective::Row;

/// Every key with its default; it is a right configuration itself.
const EXAMPLE: &str = include_str!("example.toml");

pub(crate) fn config(arguments: &ConfigArgs) -> Result<ExitCode, Failure> {
    match &arguments.command {
        ConfigCommand::Check(arguments) => check(arguments),
        ConfigCommand::Show(arguments) => show(arguments),
        ConfigCommand::Example => {
            output::line(EXAMPLE.trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(arguments: &ConfigCheck) -> Result<ExitCode, Failure> {
    let (path, file) = (&arguments.file, arguments.file.display());
    let (settings, has_election) = candidate_of(path)?;
    let (settings, has_credential) = with_any_credential(settings);
    let timings = tenure::__cli::timings_of(&settings)?;
    let candidate = effective::candidate(&settings)?;
    let config = tenure::__cli::from_settings(&with_any_election(&settings))?;
    let outlook = outlook(&config)?;
    let blob = match config.strategy() {
        Strategy::AzureBlob(blob) => Some(blob),
        _ => None,
    };
    // The time without a leader follows from the lease alone where there is one.
    let has_lease = !matches!(config.strategy(), Strategy::Bully(_) | Strategy::Static);
    let store = serve::SECTION.of_file(path)?;
    let warnings = serve::limits(&store)?.warnings();
    let store = effective::store(&store)?;
    tls::check_file(path)?;
    azure::check_file(path)?;
    if arguments.json {
        let mut timings = timings_json(&timings);
        if let (false, Some(timings)) = (has_lease, timings.as_object_mut()) {
            timings.remove("worst_without_leader_ms");
        }
        output::json(&json!({
            "file": file.to_string(),
            "election": has_election.then(|| effective::value_of(&candidate, "election")),
            "timings": timings,
            "peers": outlook.as_ref().map(outlook_json),
            "blob": blob.filter(|_| has_credential).map(|blob| blob.url()),
            "serve": effective::values(&store),
            "warnings": warnings,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(format_args!("{file}: is right"))?;
    let election = if has_election {
        effective::text(&effective::value_of(&candidate, "election"))
    } else {
        "not set here: candidates need --election or TENURE_ELECTION".into()
    };
    let store: Vec<String> = store
        .iter()
        .filter(|row| !row.value.is_null() && row.is_worth_telling())
        .map(|row| format!("{} {}", row.key, effective::text(&row.value)))
        .collect();
    output::line(format_args!("election   {election}"))?;
    if has_lease {
        output::line(format_args!("timings    {timings}"))?;
    }
    if let Some(blob) = blob {
        if has_credential {
            output::line(format_args!("blob       {}", blob.url()))?;
        } else {
            let name = blob.path();
            output::line(format_args!(
                "blob       {name}; what lets candidates in is not set here: they need it in \
                 TENURE_AZURE_BLOB_KEY or the like"
            ))?;
        }
        if let Some(warning) = blob.warning() {
            output::line(format_args!("warning    {warning}"))?;
        }
    }
    output::line(format_args!("store      {}", store.join(", ")))?;
    for warning in warnings {
        output::line(format_args!("warning    {warning}"))?;
    }
    if let Some(outlook) = outlook {
        output::line("among peers")?;
        for (name, fact) in outlook.facts() {
            output::line(format_args!("  {name:<9}  {fact}"))?;
        }
        for warning in &outlook.warnings {
            output::line(format_args!("  warning    {warning}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What the election among peers comes to, if the strategy has one.
fn outlook(config: &Config) -> Result<Option<ElectionPlan>, Failure> {
    let outlook = config
        .strategy()
        .bully()
        .map(|bully| bully.plan(config.timings()));
    Ok(outlook.transpose().map_err(anyhow::Error::new)?)
}

fn outlook_json(outlook: &ElectionPlan) -> Value {
    let (members, timings) = (outlook.settings.members(), outlook.settings.timings());
    json!({
        "members": members.iter().collect::<Vec<_>>(),
        "majority": members.majority(),
        "tolerated_failures": members.tolerated_failures(),
        "guarantee": outlook.settings.guarantee().to_string(),
        "message_lifetime_ms": ms(timings.message_lifetime()),
        "hold_down_ms": ms(timings.hold_down()),
        "quarantine_ms": ms(timings.quarantine()),
        "detection_ms": ms(outlook.bounds.detection),
        "worst_without_leader_ms": ms(outlook.bounds.without_leader),
        "messages_per_second": (outlook.bounds.messages_per_second * 10.0).round() / 10.0,
        "tolerated_drift_percent": (timings.tolerated_drift_percent() * 10.0).round() / 10.0,
        "warnings": outlook.warnings,
    })
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A candidate's settings of a file, all but the election checked; and whether it names one: that may
/// be left to each program.
fn candidate_of(path: &Path) -> Result<(Settings, bool), ConfigError> {
    let mut settings = tenure::__cli::settings();
    tenure::__cli::read_file(&mut settings, path)?;
    let has_election = settings.origin("election").is_some();
    Ok((settings, has_election))
}

fn show(arguments: &ConfigShow) -> Result<ExitCode, Failure> {
    let candidate = effective::candidate(&run::settings(&arguments.candidate)?)?;
    let path = arguments.candidate.store.config.as_deref();
    let store = effective::store(&serve::SECTION.of_environment(path)?)?;
    let tls = effective::tls(&tls::SECTION.of_environment(path)?)?;
    let azure = effective::azure(&azure::SECTION.of_environment(path)?)?;
    if arguments.json {
        output::json(&json!({
            "candidate": effective::with_origins(&candidate),
            "serve": effective::with_origins(&store),
            "tls": effective::with_origins(&tls),
            "azure": effective::with_origins(&azure),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table(&["KEY", "VALUE", "ORIGIN"]);
    let mut add = |prefix: &str, rows: &[Row]| {
        for row in rows {
            table.add_row([
                format!("{prefix}{}", row.key),
                effective::text(&row.value),
                row.origin.clone(),
            ]);
        }
    };
    add("", &candidate);
    add("serve.", &store);
    add("tls.", &tls);
    add("azure.", &azure);
    output::print_table(&table)?;
    Ok(ExitCode::SUCCESS)
}

/// Timings and what follows from them, for scripts.
pub(crate) fn timings_json(timings: &Timings) -> Value {
    json!({
        "lease_duration_ms": ms(timings.lease_duration()),
        "renew_interval_ms": ms(timings.renew_interval()),
        "renew_deadline_ms": ms(timings.renew_deadline()),
        "stop_grace_ms": ms(timings.stop_grace()),
        "hard_stop_ms": ms(timings.hard_stop()),
        "worst_without_leader_ms": ms(timings.worst_without_leader()),
        "tolerated_drift_percent": (timings.tolerated_drift_percent() * 10.0).round() / 10.0,
    })
}

/// Settings with some election, for those who need none.
pub(crate) fn with_any_election(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    if settings.origin("election").is_none() {
        settings.set("election", ["any"], Origin::Flag("--election".into()));
    }
    settings
}

/// Settings with some key of a storage account, for a check, and whether they had one themselves: that may be
/// left to the environment.
fn with_any_credential(mut settings: Settings) -> (Settings, bool) {
    let names = ["key", "sas", "connection_string"];
    let keys = names.iter().flat_map(|name| {
        let key = format!("azure_blob.{name}");
        [format!("{key}_file"), key]
    });
    if keys.into_iter().any(|key| settings.origin(&key).is_some()) {
        return (settings, true);
    }
    for (key, some) in [("azure_blob.key", "AAAA"), ("azure_blob.account", "some")] {
        if settings.origin(key).is_none() {
            settings.set(key, [some], Origin::Flag("(environment)".into()));
        }
    }
    (settings, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// The example, and it with everything that is commented out.
    fn files() -> [String; 2] {
        let uncommented = EXAMPLE.lines().map(|line| {
            let key = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
            key.unwrap_or(line)
        });
        let all = uncommented.collect::<Vec<_>>().join("\n");
        [EXAMPLE.to_owned(), all]
    }

    #[test]
    fn the_example_is_right_and_has_every_key_with_its_default() {
        let rows = files().map(|text| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let (candidate, has_election) = candidate_of(file.path()).unwrap();
            assert!(has_election);
            let store = serve::SECTION.of_file(file.path()).unwrap();
            (candidate, store)
        });
        let [(candidate, store), (full_candidate, full_store)] = rows;
        for key in full_candidate.keys() {
            assert!(full_candidate.origin(key).is_some(), "{key} is missing");
        }
        for key in full_store.keys() {
            assert!(full_store.origin(key).is_some(), "{key} is missing");
        }
        assert_eq!(
            effective::values(&effective::store(&store).unwrap()),
            effective::values(&effective::store(&full_store).unwrap())
        );
        let without = |settings| {
            let mut values = effective::values(&effective::candidate(settings).unwrap());
            for key in ["candidate", "progress_deadline", "metadata"] {
                values.remove(key).unwrap();
            }
            // What has no default, or one that follows from the rest.
            values.retain(|key, _| !key.contains('.'));
            values
        };
        assert_eq!(without(&candidate), without(&full_candidate));
    }
}
