//! The persistence of changes: an engine over a [`Log`]. SQLite is the first implementation of a
//! log.
//!
//! The engine encodes the changes that it gets from the commit queue as one [`Batch`], and appends
//! that batch to the log. At a start the log loads its tables and applies the batches that the
//! tables do not contain yet.
//!
//! A store in memory has no engine.

mod batch;
mod embedded;
mod error;
mod log;
mod wal;

use std::collections::LinkedList;
use std::path::Path;

use axum::body::Bytes;
use tenure_core::lease::{LeaseId, Stored};
use tenure_core::{Epoch, UnixMillis};

use crate::clock;
use crate::model::{ChangeSet, LeaseKey, StoreId};

pub(crate) use batch::Batch;
pub use embedded::{BackupError, Contents, Existing, RestoreError, Restored};
pub use embedded::{backup, forget_restore, restore, restore_note};
pub use error::OpenError;
pub(crate) use log::{AppendError, Load, Log, Progress, TermHistory};

/// The files in a data directory whose sizes depend on the number of leases.
pub(crate) const FILES: [&str; 2] = ["leases.db", "leases.db-wal"];

/// Appends changes to a log.
pub(crate) struct Engine {
    pub(crate) log: Box<dyn Log>,
    /// The revision of the last batch in the log.
    revision: u64,
    /// The last appended batch, kept to reuse its memory.
    batch: Batch,
}

/// The contents of a log.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// All leases with their revisions. They are in a list because the new table takes them one by
    /// one, and the memory of each can then be reused for the next.
    pub(crate) leases: LinkedList<(LeaseKey, Stored, u64)>,
    /// The deleted leases, in the order of their deletions, with the lease ids of their ended
    /// terms. The ids of an earlier deletion are also in a later deletion of the same name, and in
    /// a lease that was created again.
    pub(crate) deleted: Vec<(LeaseKey, Vec<LeaseId>)>,
    /// The revision of the last change.
    pub(crate) revision: u64,
    /// No epoch up to this one may be granted again. It is the greatest epoch that was deleted with
    /// its lease, or the epoch that a restore set.
    pub(crate) floor: Option<Epoch>,
    /// The documents of other protocols.
    pub(crate) documents: Vec<Document>,
    /// The id of the store; `None` for a store in memory, which has no data directory.
    pub(crate) store_id: Option<StoreId>,
}

/// Bytes that another protocol keeps in the store, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The name.
    pub name: String,
    /// The revision of its last change.
    pub revision: u64,
    /// The bytes.
    pub content: Bytes,
}

impl Loaded {
    /// Returns the greatest epoch that was ever granted.
    pub(crate) fn last_epoch(&self) -> Option<Epoch> {
        let granted = self.leases.iter();
        let granted = granted.filter_map(|(_, stored, _)| stored.grant.as_ref());
        granted.map(|grant| grant.epoch).max().max(self.floor)
    }
}

impl Engine {
    /// Creates an engine over a log whose last batch has this revision.
    pub(crate) fn over(log: Box<dyn Log>, revision: u64) -> Self {
        Self {
            log,
            revision,
            batch: Batch::default(),
        }
    }

    /// Makes all these changes durable, or none of them.
    ///
    /// # Errors
    ///
    /// [`AppendError`] says whether the engine may be used again.
    pub(crate) fn commit(&mut self, sets: &[ChangeSet]) -> Result<(), AppendError> {
        self.batch.encode(self.revision, sets);
        self.log.append(&self.batch, sets)?;
        self.revision = self.batch.revision;
        Ok(())
    }
}

/// Loads the content of the log, and begins to append. The next revisions are greater than `least`.
fn begin(log: &mut dyn Log, least: u64) -> Result<Loaded, OpenError> {
    let mut loaded = log.load()?;
    let revision = least.max(loaded.revision + 1);
    log.begin(loaded.revision, revision)?;
    loaded.revision = revision;
    Ok(loaded)
}

/// Opens the engine in `data_dir`. It remembers at most `max_history` terms of each lease. A store
/// in memory has no engine.
pub(crate) fn open(
    data_dir: Option<&Path>,
    max_history: usize,
) -> Result<(Loaded, Option<Engine>), OpenError> {
    let revision = first_revision(clock::wall());
    let Some(data_dir) = data_dir else {
        let loaded = Loaded {
            revision,
            ..Loaded::default()
        };
        return Ok((loaded, None));
    };
    let mut log = embedded::open(data_dir, max_history)?;
    let loaded = begin(&mut log, revision)?;
    let engine = Engine::over(Box::new(log), loaded.revision);
    Ok((loaded, Some(engine)))
}

/// Returns the least revision of a store that starts now: the wall clock in microseconds.
///
/// A watcher may resume after a revision of another store: a store in memory that ended, or a store
/// whose data directory was lost. That store made less than one change per microsecond. So unless
/// the clock was set back to before its start, all its revisions are below this one, and this store
/// does not mistake them for its own.
fn first_revision(wall: UnixMillis) -> u64 {
    let micros = wall.get().saturating_mul(1_000);
    // A clock past the year 2112 must not use up the revisions: many JSON readers represent only
    // integers below 2^53 exactly.
    if micros < 1 << 52 { micros } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_revision_is_the_time_and_leaves_room_for_later_ones() {
        let first = |wall| first_revision(UnixMillis::new(wall));
        assert_eq!(first(1_795_230_310_385), 1_795_230_310_385_000);
        assert_eq!((first(0), first(u64::MAX)), (0, 0));
        let last = (1 << 52) / 1_000;
        assert_eq!((first(last), first(last + 1)), (last * 1_000, 0));
    }
}
