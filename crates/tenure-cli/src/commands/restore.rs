//! `tenure restore`.

use std::path::PathBuf;

use clap::Args;

use super::backup::{summary, to_json};
use crate::output;

/// Create a data directory from a backup
///
/// An existing store is never overwritten, and a damaged backup is refused. Epochs and revisions of
/// the restored store continue far above those of the backup, and above the wall clock. The
/// restored store does not know terms that began after the backup: stop the old store first, and
/// start the new one only after the longest lease has expired.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// Backup
    file: PathBuf,
    /// Data directory to create; there must be no store in it
    #[arg(long, value_name = "DIR", env = "TENURE_DATA_DIR")]
    data_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let restored = tenure_server::restore(&self.file, &self.data_dir)?;
        let contents = &restored.contents;
        if self.json {
            let mut value = to_json(contents);
            value["epochs_above"] = restored.epochs_above.into();
            value["revisions_above"] = restored.revisions_above.into();
            return output::json(&value);
        }
        let folder = self.data_dir.display();
        output::line(format_args!("{folder}: {}", summary(contents)))?;
        output::line(format_args!(
            "epochs continue above {}, revisions above {}",
            restored.epochs_above, restored.revisions_above
        ))?;
        output::line(format_args!(
            "this store does not know terms that began after the backup: make sure that the old store is \
             stopped, and start this one only after the longest lease in use has expired; the longest in the \
             backup is {}",
            humantime::format_duration(contents.longest)
        ))?;
        if contents.infinite > 0 {
            output::line(
                "the backup has infinite leases: if others were granted after it, make sure yourself that \
                 their holders have stopped",
            )?;
        }
        Ok(())
    }
}
