//! Where changes are kept: what an engine must be able to do, and which there are.
//!
//! An engine is given batches of changes, in order, by one thread; it makes each batch durable as a
//! whole or not at all. The engine in memory is none: there the journal counts a change as durable
//! at once.

mod embedded;
mod error;
mod retired;
mod term;
pub(crate) mod wal;

use std::collections::LinkedList;
use std::sync::Arc;

use tenure_core::lease::{LeaseId, Record, Stored};
use tenure_core::{Epoch, Instant, UnixMillis};

use crate::clock;
use crate::config::EngineConfig;
use crate::table::{Entry, Key};

pub use embedded::{BackupError, Contents, Existing, RestoreError, Restored};
pub use embedded::{backup, check_log, restore};
pub(crate) use error::CommitError;
pub use error::OpenError;
pub(crate) use retired::Retired;
pub(crate) use term::{Archive, Term};

/// Keeps changes. Calls block; one thread makes them.
pub(crate) trait Engine: Send {
    /// Makes all these writes durable, in order, or none of them.
    ///
    /// # Errors
    ///
    /// [`CommitError`] says whether the engine may be used again.
    fn commit(&mut self, writes: &[&Write]) -> Result<(), CommitError>;

    /// Whatever keeps the engine in shape; called after answers have left.
    ///
    /// # Errors
    ///
    /// As [`Engine::commit`]; what was committed stays durable.
    fn tidy(&mut self) -> Result<(), CommitError>;

    /// A part of whatever is better done while there is nothing to commit. After the last change it is
    /// called until it is [`Rest::Done`] or there is a change to commit.
    ///
    /// # Errors
    ///
    /// As [`Engine::commit`]; what was committed stays durable.
    fn rest(&mut self) -> Result<Rest, CommitError>;

    /// Whatever makes the next start quick. Everything committed is durable without it.
    ///
    /// # Errors
    ///
    /// Something can't be written or synced, which whoever looks after the disk must hear of.
    fn close(&mut self) -> Result<(), CommitError>;

    /// The terms that it keeps.
    fn archive(&self) -> Arc<dyn Archive>;
}

/// Whether an engine has more to do while there is nothing to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It has: a change that comes waits for one part of it at most.
    More,
    /// It has not, until the next change.
    Done,
}

/// One write: the whole of a lease as of a revision.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) key: Key,
    pub(crate) revision: u64,
    pub(crate) content: Content,
    /// How the lease's retired ids became what they are in the content since the write before this one;
    /// `None` if that is not known, or says no less than all of them.
    pub(crate) retired: Option<Retired>,
    /// What is to be noted of one of its terms. When the lease is deleted its terms are, too.
    pub(crate) term: Option<Box<Term>>,
}

/// What there is of a lease after a change.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// All this.
    Lease(Arc<Stored>),
    /// Nothing but this.
    Deleted(Deleted),
}

/// What is left of a lease that was deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deleted {
    /// Epochs up to this one must not be granted again to anybody.
    pub(crate) last: Option<Epoch>,
    /// Lease ids of its ended terms, oldest first.
    pub(crate) retired: Vec<LeaseId>,
}

/// What an engine had kept.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// A list, because the table takes them over one by one, and the memory of each is free for the next.
    pub(crate) leases: LinkedList<(Key, Stored, u64)>,
    /// Leases that were deleted, in the order of their deletions, and the lease ids that were left of them.
    /// What is remembered of a later one, or of a lease that was made again, has the earlier ids in it.
    pub(crate) deleted: Vec<(Key, Vec<LeaseId>)>,
    /// The greatest revision ever committed.
    pub(crate) revision: u64,
    /// No epoch up to this one may be granted again: the greatest one that was deleted with its
    /// lease, or one that a restore put here.
    pub(crate) floor: Option<Epoch>,
}

impl Loaded {
    /// The greatest epoch that was ever granted.
    pub(crate) fn last_epoch(&self) -> Option<Epoch> {
        let granted = self.leases.iter();
        let granted = granted.filter_map(|(_, stored, _)| stored.grant.as_ref());
        granted.map(|grant| grant.epoch).max().max(self.floor)
    }

    /// The leases for a table that starts at `now`.
    pub(crate) fn entries(self, now: Instant) -> impl Iterator<Item = (Key, Entry)> {
        let floor = self.floor;
        self.leases.into_iter().map(move |(key, stored, revision)| {
            // Leases that are there are numbered above the floor, too: it may come from a backup's
            // restore, and stand for grants that nobody here knows of.
            let record = Record::restore(stored, now).numbered_above(floor);
            (key, Entry::new(record, revision))
        })
    }
}

/// Opens what `config` names, to remember so many terms of each lease; no engine means that nothing
/// is kept.
pub(crate) fn open(
    config: &EngineConfig,
    max_history: usize,
) -> Result<(Loaded, Option<Box<dyn Engine>>), OpenError> {
    let revision = first_revision(clock::wall());
    match config {
        EngineConfig::Memory => {
            let loaded = Loaded {
                revision,
                ..Loaded::default()
            };
            Ok((loaded, None))
        }
        EngineConfig::Embedded { data_dir } => {
            let (loaded, engine) = embedded::open(data_dir, max_history, revision)?;
            Ok((loaded, Some(Box::new(engine))))
        }
    }
}

/// The least revision of a store that starts now: the wall clock in microseconds.
///
/// Whoever watches resumes after a revision that may be another store's: one in memory that ended, or
/// one on a folder that was lost. That one made less than a change a microsecond, so as long as the
/// clock has not gone back past its start all its revisions are below this one, and none of them is
/// taken for one after which this store has told everything.
fn first_revision(wall: UnixMillis) -> u64 {
    let micros = wall.get().saturating_mul(1_000);
    // A clock past the year 2112 must not use up the numbers: JSON's readers know those below 2^53.
    if micros < 1 << 52 { micros } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_revision_is_the_time_and_leaves_room_for_all_that_follow() {
        let first = |wall| first_revision(UnixMillis::new(wall));
        assert_eq!(first(1_795_230_310_385), 1_795_230_310_385_000);
        assert_eq!((first(0), first(u64::MAX)), (0, 0));
        let last = (1 << 52) / 1_000;
        assert_eq!((first(last), first(last + 1)), (last * 1_000, 0));
    }
}
