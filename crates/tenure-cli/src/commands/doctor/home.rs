//! The home in the settings of a server, which `tenure doctor` asks itself.

use std::path::Path;

use serde::Serialize;
use tenure_config::{ConfigError, Settings};
use tenure_server::ClusterMember;

use super::row;
use crate::commands::store_place::without_server;
use crate::settings::{STORE, home};

/// A bucket, and the outcome of its probe.
#[derive(Debug, Serialize)]
pub(super) struct HomeReport {
    /// The key of the settings that names it, and its value.
    key: &'static str,
    home: String,
    /// The rules that the bucket does not keep, or why it was not probed, with the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Probes the home of these settings if it is a bucket. The servers know about the other homes what is to
/// be known, and show it.
pub(super) fn examine(config: Option<&Path>) -> Result<Option<HomeReport>, ConfigError> {
    let mut settings = Settings::load(STORE, config)?;
    let key = home::key(&settings);
    if settings.origin(key).is_none() {
        return Ok(None);
    }
    let Some(cluster) = without_server(&mut settings)?.cluster else {
        return Ok(None);
    };
    if cluster.home.name() != "bucket" {
        return Ok(None);
    }
    let problem = ClusterMember::probe(&cluster).unwrap_or_else(|error| Some(error.to_string()));
    let error = problem.map(|problem| settings.invalid(key, problem).to_string());
    Ok(Some(HomeReport {
        key,
        home: settings.text(key)?.unwrap_or_default().to_owned(),
        error,
    }))
}

impl HomeReport {
    pub(super) fn print(&self) -> anyhow::Result<()> {
        let state = match self.error {
            None => "passes its probe",
            Some(_) => "fails its probe",
        };
        row("home", format_args!("{}: {state}", self.home))
    }
}
