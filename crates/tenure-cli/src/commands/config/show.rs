//! `tenure config show`.

use clap::Args;
use serde_json::{Map, Value};
use tenure::__cli::Settings;

use super::effective;
use crate::output;
use crate::settings::serve::{self, StoreSettings};
use crate::settings::{CandidateArgs, azure, tls};

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
        let candidate = effective::candidate(&self.candidate.settings()?)?;
        let store = Settings::load(serve::SCOPE, path)?;
        let store = effective::table(&store, StoreSettings::new(&store)?.values());
        let tls = Settings::load(tls::SCOPE, path)?;
        let tls = effective::table(&tls, tls::values(&tls)?);
        let azure = Settings::load(azure::SCOPE, path)?;
        let azure = effective::table(&azure, azure::values(&azure)?);
        let tables = [
            ("candidate", candidate),
            ("serve", store),
            ("tls", tls),
            ("azure", azure),
        ];
        if self.json {
            let object = tables
                .iter()
                .map(|(name, rows)| ((*name).to_owned(), effective::with_origins(rows)));
            output::json(&Value::Object(object.collect::<Map<_, _>>()))?;
            return Ok(());
        }
        let mut table = output::table(&["KEY", "VALUE", "ORIGIN"]);
        for (name, rows) in &tables {
            for row in rows {
                let key = match *name {
                    "candidate" => row.key.to_owned(),
                    name => format!("{name}.{}", row.key),
                };
                table.add_row([key, effective::text(&row.value), row.origin.clone()]);
            }
        }
        output::print_table(&table)
    }
}
