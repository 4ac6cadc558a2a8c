//! `tenure backup`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};
use tenure_server::{BackupError, ClusterMember, Contents, Existing};

use super::store_place::{Place, PlaceArgs};
use crate::output::{self, or_dash};

/// Copy a store's leases to a file, also while the store runs
///
/// The file has the same form for every home, so a store can be restored with another one. The
/// copy contains every change that was acknowledged before the backup began. It is checked like the
/// data of a starting store, and gets its name when it is complete and on disk. Only its owner may
/// read it, because it contains lease ids, with which anyone can take over leases that have no
/// owner.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// File for the copy, outside of the data directory
    file: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
    /// End the store for good: nothing can be granted after this backup, and a restore of it goes on
    /// where the store ended, at once. A store in a folder must be stopped before; the
    /// active server of a cluster is deposed
    #[arg(long = "final")]
    is_final: bool,
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
        let copied = match (self.place.place(false)?, self.is_final) {
            (Place::Folder(data_dir), false) => {
                tenure_server::backup(&data_dir, &self.file, existing)
            }
            (Place::Folder(data_dir), true) => {
                tenure_server::final_backup(&data_dir, &self.file, existing)
            }
            (Place::Cluster(config), false) => ClusterMember::backup(&config, &self.file, existing),
            (Place::Cluster(config), true) => {
                ClusterMember::final_backup(&config, &self.file, existing)
            }
        };
        let contents = match copied {
            Err(error @ BackupError::Exists { .. }) => {
                return Err(anyhow!("{error}: choose another file, or use --force"));
            }
            copied => copied?,
        };
        if self.json {
            let mut value = to_json(&contents);
            value["final"] = self.is_final.into();
            return output::json(&value);
        }
        let file = self.file.display();
        output::line(format_args!("{file}: {}", summary(&contents)))?;
        if self.is_final {
            output::line(
                "the store has ended: no server starts from the old place. Restore this file once, and start \
                 the store there at once",
            )?;
        }
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
