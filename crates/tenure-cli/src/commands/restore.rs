//! `tenure restore`.

use std::path::PathBuf;

use clap::Args;
use tenure_server::{ClusterMember, Restored};

use super::backup::{summary, to_json};
use super::store_place::{Place, PlaceArgs};
use crate::output;

/// Create a store from a backup, in a data directory or in etcd or PostgreSQL
///
/// An existing store is never overwritten, and a damaged backup is refused. Epochs and revisions of
/// the restored store continue far above those of the backup, and above the wall clock. The
/// restored store does not know terms that began after the backup: stop the old store first, and
/// start the new one only after the longest lease has expired. A final backup (backup --final) has
/// all terms: a restore of it goes on where the store ended, and may start at once.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// Backup; or a data directory that was copied, which is accepted where it is: its epochs continue
    /// above, too
    file: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let (place, restored) = if self.file.is_dir() && self.place.is_empty() {
            let accepted = tenure_server::accept_copy(&self.file)?;
            (self.file.display().to_string(), accepted)
        } else {
            match self.place.place(true)? {
                Place::Folder(data_dir) => {
                    let restored = tenure_server::restore(&self.file, &data_dir)?;
                    (data_dir.display().to_string(), restored)
                }
                Place::Cluster(config) => {
                    let restored = ClusterMember::restore(&self.file, &config)?;
                    (format!("cluster {}", config.name), restored)
                }
            }
        };
        let contents = &restored.contents;
        if self.json {
            let mut value = to_json(contents);
            value["final"] = restored.is_final.into();
            value["epochs_above"] = restored.epochs_above.into();
            value["revisions_above"] = restored.revisions_above.into();
            return output::json(&value);
        }
        output::line(format_args!("{place}: {}", summary(contents)))?;
        output::line(format_args!(
            "epochs continue above {}, revisions above {}",
            restored.epochs_above, restored.revisions_above
        ))?;
        advise(&restored)
    }
}

/// Says when the restored store may start.
fn advise(restored: &Restored) -> anyhow::Result<()> {
    let contents = &restored.contents;
    if restored.is_final {
        return Ok(output::line(
            "the backup is a final one and lacks nothing: start this store at once. Restore the file \
             nowhere else",
        )?);
    }
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
