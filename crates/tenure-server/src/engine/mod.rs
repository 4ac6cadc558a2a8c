//! Where changes are kept: an engine over a [`Log`], of which SQLite is the first.
//!
//! The engine encodes what the commit queue gives it as one [`Batch`] and appends that. At the start the log
//! loads its tables and applies the batches that they do not contain yet.
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
use crate::model::{ChangeSet, LeaseKey};

pub(crate) use batch::Batch;
pub use embedded::{BackupError, Contents, Existing, RestoreError, Restored};
pub use embedded::{backup, forget_restore, restore, restore_note};
pub use error::OpenError;
pub(crate) use log::{AppendError, Load, Log, Progress, TermHistory};

/// Appends changes to a log.
pub(crate) struct Engine {
    pub(crate) log: Box<dyn Log>,
    /// The revision of the last batch in the log.
    revision: u64,
    /// The batch that is appended. Kept for its memory.
    batch: Batch,
}

/// The contents of a log.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Each lease and its revision. A list, because the table takes them one by one, and each one's memory is
    /// free for the next.
    pub(crate) leases: LinkedList<(LeaseKey, Stored, u64)>,
    /// Leases that were deleted, in the order of their deletions, and the lease ids of their ended terms. A
    /// later deletion of the same lease, or a lease that was made again, has the earlier ids too.
    pub(crate) deleted: Vec<(LeaseKey, Vec<LeaseId>)>,
    /// The greatest revision.
    pub(crate) revision: u64,
    /// No epoch up to this one may be granted again: the greatest one that was deleted with its lease, or
    /// the one that a restore set.
    pub(crate) floor: Option<Epoch>,
    /// The documents of other protocols.
    pub(crate) documents: Vec<Document>,
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
    /// The greatest epoch that was ever granted.
    pub(crate) fn last_epoch(&self) -> Option<Epoch> {
        let granted = self.leases.iter();
        let granted = granted.filter_map(|(_, stored, _)| stored.grant.as_ref());
        granted.map(|grant| grant.epoch).max().max(self.floor)
    }
}

impl Engine {
    /// An engine over a log whose last batch has this revision.
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

/// Loads what the log contains, and begins to append. Revisions go on from `least` at least.
fn begin(log: &mut dyn Log, least: u64) -> Result<Loaded, OpenError> {
    let mut loaded = log.load()?;
    let revision = least.max(loaded.revision + 1);
    log.begin(loaded.revision, revision)?;
    loaded.revision = revision;
    Ok(loaded)
}

/// Opens the engine in `data_dir`, which remembers at most `max_history` terms of each lease. A store
/// in memory has none.
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

/// The least revision of a store that starts now: the wall clock in microseconds.
///
/// A watcher resumes after a revision that may be another store's: a store in memory that ended, or one
/// whose folder was lost. That store made less than a change a microsecond, so unless the clock has gone back
/// past its start, all its revisions are below this one, and this store takes none of them for one of its own.
fn first_revision(wall: UnixMillis) -> u64 {
    let micros = wall.get().saturating_mul(1_000);
    // A clock past the year 2112 must not use up the numbers: readers of JSON know those below 2^53.
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
