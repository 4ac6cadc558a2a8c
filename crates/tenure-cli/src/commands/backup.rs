//! `tenure backup`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};
use tenure_server::{BackupError, Contents, Existing};

use crate::output::{self, or_dash};

/// Copy a store's leases to a file, also while the store runs
///
/// The copy contains every change that was acknowledged before the backup began. It is checked like
/// the data of a starting store, and gets its name when it is complete and on disk. Only its owner
/// may read it, because it contains lease ids, with which anyone can take over leases that have no
/// owner.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// File for the copy, outside of the data directory
    file: PathBuf,
    /// Data directory of the store
    #[arg(
        long,
        value_name = "DIR",
        env = "TENURE_DATA_DIR",
        default_value = "tenure-data"
    )]
    data_dir: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let existing = if self.force {
            Existing::Replace
        } else {
            Existing::Keep
        };
        let copied = tenure_server::backup(&self.data_dir, &self.file, existing);
        let contents = match copied {
            Err(error @ BackupError::Exists { .. }) => {
                return Err(anyhow!("{error}: choose another file, or use --force"));
            }
            copied => copied?,
        };
        if self.json {
            return output::json(&to_json(&contents));
        }
        let file = self.file.display();
        output::line(format_args!("{file}: {}", summary(&contents)))?;
        output::line("it contains lease ids, which give control of leases: keep it secret")?;
        Ok(())
    }
}

/// The contents of a backup, for people.
pub(super) fn summary(contents: &Contents) -> String {
    format!(
        "{} leases, {} of them held, revision {}, greatest epoch {}, {} bytes",
        contents.leases,
        contents.held,
        contents.revision,
        or_dash(contents.last_epoch),
        contents.bytes
    )
}

/// The contents of a backup, for scripts.
pub(super) fn to_json(contents: &Contents) -> Value {
    json!({
        "leases": contents.leases,
        "held": contents.held,
        "infinite": contents.infinite,
        "revision": contents.revision,
        "last_epoch": contents.last_epoch,
        "longest_ms": output::millis(contents.longest),
        "bytes": contents.bytes,
    })
}
