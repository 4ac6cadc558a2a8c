//! Leases in an SQLite database, written by one thread in batches.
//!
//! ```text
//! data_dir/             0700
//!   lock                held while a store uses the folder
//!   FORMAT              "tenure-store 5": there was a database here
//!   RUNNING             while the database is open: how far it had come at least, which is in the log
//!                       alone, so that a lost log is noticed
//!   leases.db           one row a lease, one for some of its terms that have ended, one for each of the
//!                       last leases that were deleted, one about all of these, and what was committed
//!                       last in batches
//!   leases.db-wal       what was committed and is not in leases.db yet
//!   leases.db.restoring while a backup is restored: until it is whole, and named leases.db
//! ```
//!
//! A commit is one transaction with one fsync (`synchronous=FULL`). It writes one row, with the whole
//! batch; batches are put in their places in the tables now and then ([`recent`] says why nothing is
//! lost by that). Every row has a checksum over all its columns, and the `meta` row one over all of
//! these; each batch tells which one it follows; and `RUNNING` tells how far the log had come when it was
//! last moved into the database. So rows that were lost or altered are noticed at the next start. Nothing
//! is ever repaired silently.

mod backup;
mod check;
mod columns;
mod deleted;
mod folder;
mod recent;
mod restore;
mod row;
mod schema;
mod terms;
mod upgrade;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use rusqlite::{Connection, ErrorCode, Transaction};
use tracing::{error, warn};

use self::folder::{FORMAT, Folder};
use self::schema::Meta;
use self::terms::Reader;
use super::wal::{self, Checkpoint};
use super::{Archive, CommitError, Engine, Loaded, OpenError, Write};
use crate::table::Key;

pub use backup::{BackupError, Contents, Existing};
pub(crate) use backup::{backup, check_log};
pub(crate) use restore::restore;
pub use restore::{RestoreError, Restored};

/// After so many changes, or bytes of them, batches are put in their places. Until that is done the next
/// commit waits, so it must not take long; and the more there are, the more of them are about one lease,
/// which is written once.
const PUT_IN_PLACE_AFTER: usize = 4_000;
const PUT_IN_PLACE_AFTER_BYTES: usize = 2 * 1024 * 1024;

/// After so many pages the write-ahead log is moved into the database: it stays at some 10 or 20 MB, and
/// a start has little to read back. What is put in its place several times meanwhile is moved once.
const CHECKPOINT_AFTER_PAGES: usize = 4_000;

/// The size of a page, for such estimates.
const PAGE: usize = 4_096;

/// The database, open for writing.
#[derive(Debug)]
pub(super) struct Embedded {
    connection: Connection,
    /// Of all that is in its place.
    meta: Meta,
    /// Of the last batch.
    revision: u64,
    /// Of the batches that are not in their places yet.
    recent: Recent,
    /// Where a batch is written before it is committed.
    room: Vec<u8>,
    /// How many pages the log may have.
    log_pages: usize,
    /// A transaction failed half way and may have left frames behind the log's end.
    has_leftovers: bool,
    /// The log was moved into the database: the next commit is in the log alone.
    log_is_new: bool,
    reader: Arc<Reader>,
    /// How many terms of a lease are remembered, and the leases that had more at the start.
    max_history: usize,
    overfull: BTreeSet<Key>,
    /// Held for as long as the database is open.
    folder: Folder,
}

/// How much there is to put in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Recent {
    changes: usize,
    bytes: usize,
}

/// Opens the database in `data_dir`, or makes it, and reads all of it. Its revisions go on from
/// `revision` at least.
///
/// A folder of an older format becomes one of this format, in two steps: the database in one
/// transaction, then the marker. A start that is cut short between them finds a new database under
/// an old marker, and does the second step.
pub(super) fn open(
    data_dir: &Path,
    max_history: usize,
    revision: u64,
) -> Result<(Loaded, Embedded), OpenError> {
    let folder = Folder::open(data_dir)?;
    let database = folder.database();
    folder.check_not_restoring()?;
    let marked = folder.format()?;
    let began = folder.began(marked)?;
    if marked.is_none() {
        if began.is_some() {
            return Err(folder.marker_is_missing());
        }
        schema::create(&database)?;
    } else {
        folder.check_database()?;
        wal::check(&database)?;
    }
    let connection = schema::connect(&database)?;
    let checked = check::load(&connection, &database, max_history)?;
    if marked.is_some_and(|marked| marked > checked.format) {
        return Err(OpenError::Damaged {
            path: database,
            detail: "it is of an older format than its folder".into(),
        });
    }
    let mut loaded = checked.loaded;
    if marked.is_none() && !loaded.leases.is_empty() {
        return Err(folder.marker_is_missing());
    }
    folder.check_revision(began, loaded.revision)?;
    let mut engine = Embedded {
        reader: Reader::open(&database)?,
        connection,
        meta: checked.meta,
        revision: loaded.revision,
        recent: Recent::default(),
        room: Vec::new(),
        log_pages: 0,
        has_leftovers: false,
        log_is_new: false,
        max_history,
        overfull: checked.overfull,
        folder,
    };
    let failed = |error: rusqlite::Error| OpenError::Database {
        path: database.clone(),
        detail: error.to_string(),
    };
    // The log starts anew with other salts: a tail that a power cut tore is not looked at again.
    engine.empty_log(&database)?;
    if checked.format < FORMAT {
        upgrade::to_this(&engine.connection, checked.format, &mut engine.meta).map_err(failed)?;
        // In the database file before the marker says so.
        engine.empty_log(&database)?;
    }
    if marked != Some(FORMAT) {
        engine.folder.mark()?;
    }
    loaded.revision = engine.begin(revision).map_err(failed)?;
    let begun = engine.folder.begin(loaded.revision);
    begun.map_err(OpenError::io(engine.folder.path()))?;
    let placed = engine.put_in_place();
    placed.map_err(|error| OpenError::Database {
        path: database,
        detail: error.to_string(),
    })?;
    Ok((loaded, engine))
}

impl Engine for Embedded {
    fn commit(&mut self, writes: &[&Write]) -> Result<(), CommitError> {
        let mut room = std::mem::take(&mut self.room);
        let previous = self.revision;
        let committed =
            self.transact(|transaction| recent::append(transaction, previous, writes, &mut room));
        self.room = room;
        let bytes = committed?;
        self.revision = writes.last().map_or(previous, |write| write.revision);
        if self.log_is_new {
            match self.folder.begin(self.revision) {
                Ok(()) => self.log_is_new = false,
                // The commit itself is on disk. Tried again with the next one.
                Err(error) => warn!(%error, "a loss of the log would not be noticed now"),
            }
        }
        self.recent.changes += writes.len();
        self.recent.bytes += bytes;
        // Its bytes, and the ends of them; and one or two of the tree.
        self.log_pages += bytes / PAGE + 3;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), CommitError> {
        let Recent { changes, bytes } = self.recent;
        if changes >= PUT_IN_PLACE_AFTER || bytes >= PUT_IN_PLACE_AFTER_BYTES {
            self.put_in_place()?;
        }
        if self.log_pages < CHECKPOINT_AFTER_PAGES {
            return Ok(());
        }
        self.log_pages = 0;
        self.log_is_new = true;
        match wal::checkpoint(&self.connection, Checkpoint::Passive)
            .map_err(|error| classify(&error))
        {
            Ok(_) => Ok(()),
            // A failed fsync of the database file would be forgotten by the next one.
            Err(CommitError::Fatal(error)) => Err(CommitError::Fatal(error)),
            // All is in the log; it grows until this works.
            Err(error) => {
                warn!(%error, "the write-ahead log was not moved into the database");
                Ok(())
            }
        }
    }

    fn rest(&mut self) -> Result<(), CommitError> {
        if self.recent == Recent::default() {
            return Ok(());
        }
        self.put_in_place()
    }

    fn close(&mut self) -> Result<(), CommitError> {
        self.reader.close();
        let closed = self.put_in_place().and_then(|()| {
            wal::checkpoint(&self.connection, Checkpoint::Truncate)
                .map_err(|error| classify(&error))
        });
        match closed {
            Ok(true) => self.folder.end(),
            Ok(false) => warn!(
                "another program reads the database, so the write-ahead log was not moved into \
                 it; nothing is lost"
            ),
            Err(error) => {
                error!(%error, "the write-ahead log was not moved into the database; nothing is lost");
                if matches!(error, CommitError::Fatal(_)) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn archive(&self) -> Arc<dyn Archive> {
        Arc::clone(&self.reader) as Arc<dyn Archive>
    }
}

impl Embedded {
    /// Takes a revision for the start itself, so that the log has something in it from now on.
    fn begin(&mut self, least: u64) -> rusqlite::Result<u64> {
        let revision = least.max(self.revision + 1);
        let transaction = self.connection.unchecked_transaction()?;
        recent::append_row(&transaction, self.revision, revision, &[])?;
        transaction.commit()?;
        self.revision = revision;
        Ok(revision)
    }

    /// Does `work` in one transaction: all of it is durable then, or nothing has changed.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, CommitError> {
        if self.has_leftovers {
            // So that frames of the failed transaction never stand behind good ones, where they
            // would look like damage. It also gives room back, which may be what is missing.
            //
            // While somebody reads, the log stays as it is, which is no error: only the answer says
            // so. Then nothing may be written, because it would stand before these frames.
            let is_empty = wal::checkpoint(&self.connection, Checkpoint::Truncate);
            if !is_empty.map_err(|error| classify(&error))? {
                return Err(CommitError::Busy("it is being read".into()));
            }
            self.has_leftovers = false;
            self.log_is_new = true;
        }
        let run = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        match run(&mut self.connection) {
            Ok(done) => Ok(done),
            Err(error) => {
                self.has_leftovers = true;
                self.roll_back()?;
                Err(classify(&error))
            }
        }
    }

    /// Puts the batches in their places in the tables. If that does not work now, for want of room,
    /// all is in the batches.
    fn put_in_place(&mut self) -> Result<(), CommitError> {
        let overfull = std::mem::take(&mut self.overfull);
        let (most, mut meta) = (self.max_history, self.meta.clone());
        let placed = self
            .transact(|transaction| recent::put_in_place(transaction, &mut meta, most, &overfull));
        // Tried again after as many changes as there were.
        self.recent = Recent::default();
        match placed {
            Ok(places) => {
                self.meta = meta;
                self.log_pages += places;
                Ok(())
            }
            Err(CommitError::Fatal(error)) => Err(CommitError::Fatal(error)),
            Err(error) => {
                warn!(%error, "what was committed last was not put in its place yet");
                self.overfull = overfull;
                Ok(())
            }
        }
    }

    /// After an error the transaction must be gone, or nothing may be written any more.
    fn roll_back(&mut self) -> Result<(), CommitError> {
        if !self.connection.is_autocommit() {
            self.connection
                .execute_batch("ROLLBACK")
                .map_err(|error| CommitError::Fatal(error.to_string()))?;
        }
        Ok(())
    }

    /// Empties the log while nobody else uses the database.
    fn empty_log(&mut self, database: &Path) -> Result<(), OpenError> {
        let failed = |detail: String| OpenError::Database {
            path: database.into(),
            detail,
        };
        let is_empty = wal::checkpoint(&self.connection, Checkpoint::Truncate);
        match is_empty.map_err(|error| failed(error.to_string()))? {
            true => Ok(()),
            // What would be written now might stand before frames that a power cut tore, and make
            // them look like damage.
            false => Err(failed("another program reads it, end that first".into())),
        }
    }
}

/// What may be done after an error. Whatever is not known to be harmless is not.
fn classify(error: &rusqlite::Error) -> CommitError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => CommitError::DiskFull(error.to_string()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            CommitError::Busy(error.to_string())
        }
        // The index of the log could not grow. It is made anew from the log whenever it is gone, so
        // nothing that counts was written.
        _ if error.sqlite_error().map(|error| error.extended_code)
            == Some(SQLITE_IOERR_SHMSIZE) =>
        {
            CommitError::DiskFull(error.to_string())
        }
        _ => CommitError::Fatal(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
