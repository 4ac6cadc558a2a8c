//! `tenure config show`.

use clap::Args;
use serde_json::Value;
use tenure_config::Settings;

use super::effective;
use crate::output;
use crate::settings::CandidateArgs;
use crate::settings::STORE;
use crate::settings::azure::AzureFlags;
use crate::settings::checked_store::CheckedStore;

/// Show the configuration in effect, and the origin of each value
///
/// This is the configuration that tenure run and tenure serve would use: flags override the
/// environment, and the environment overrides the file.
#[derive(Debug, Args)]
pub(super) struct Show {
    #[command(flatten)]
    candidate: CandidateArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let path = self.candidate.store.config.as_deref();
        let candidate = effective::of_candidate(&self.candidate.settings()?)?;
        let settings = Settings::load(STORE, path)?;
        let store = CheckedStore::new(&settings, AzureFlags::default())?;
        let store = effective::store(&settings, &store);
        if self.json {
            let mut object = Value::Null;
            for row in &candidate {
                object["candidate"][&row.key] = row.json();
            }
            for row in &store {
                if let Some((table, key)) = row.key.split_once('.') {
                    object[table][key] = row.json();
                }
            }
            return output::json(&object);
        }
        let mut table = output::table(&["KEY", "VALUE", "ORIGIN"]);
        for row in candidate.into_iter().chain(store) {
            table.add_row([row.key, effective::text(&row.value), row.origin]);
        }
        output::print_table(&table)
    }
}
