//! Leases in an SQLite database, written by one thread in batches.
//!
//! ```text
//! data_dir/             0700
//!   lock                held while a store uses the folder
//!   FORMAT              "tenure-store 5": there was a database here
//!   RUNNING             while the database is open: how far it had come at least, which is in the log
//!                       alone, so that a lost log is noticed
//!   RUNNING.new         what RUNNING is written to the next time, opened ahead
//!   leases.db           one row a lease, one for some of its terms that have ended, one for each of the
//!                       last leases that were deleted, one about all of these, and what was committed
//!                       last in batches
//!   leases.db-wal       what was committed and is not in leases.db yet
//!   leases.db.restoring while a backup is restored: until it is whole, and named leases.db
//! ```
//!
//! A commit is one transaction with one fsync (`synchronous=FULL`). It writes one row, with the whole
//! batch. Batches are put in their places in the tables in slices, between commits ([`recent`] says
//! why nothing is lost by that, [`backlog`] how much a slice is). Every row has a checksum over all its columns, and the `meta` row one over all of
//! these; each batch tells which one it follows; and `RUNNING` tells how far the log had come when it was
//! last moved into the database. So rows that were lost or altered are noticed at the next start. Nothing
//! is ever repaired silently.

mod backlog;
mod backup;
mod check;
mod columns;
mod deleted;
mod folder;
mod recent;
mod restore;
mod row;
mod running;
mod schema;
mod terms;
mod upgrade;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use rusqlite::{Connection, ErrorCode, Transaction};
use tracing::{error, warn};

use self::backlog::Backlog;
use self::folder::{FORMAT, Folder};
use self::running::Running;
use self::schema::Meta;
use self::terms::Reader;
use super::wal::{self, Checkpoint};
use super::{Archive, CommitError, Content, Engine, Loaded, OpenError, Rest, Write};
use crate::table::Key;

pub use backup::{BackupError, Contents, Existing};
pub use backup::{backup, check_log};
pub use restore::restore;
pub use restore::{RestoreError, Restored};

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
    /// What is in batches only, since the start.
    backlog: Backlog,
    /// What the start found in batches is not in its place yet, and these leases had more terms than are
    /// remembered.
    unplaced_at_start: Option<BTreeSet<Key>>,
    /// Where a batch is written before it is committed.
    room: Vec<u8>,
    /// How many pages the log may have.
    log_pages: usize,
    /// A transaction failed half way and may have left frames behind the log's end.
    has_leftovers: bool,
    /// The log was moved into the database: the next commit is in the log alone.
    log_is_new: bool,
    reader: Arc<Reader>,
    /// How many terms of a lease are remembered.
    max_history: usize,
    running: Running,
    /// Held for as long as the database is open.
    folder: Folder,
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
    let running = Running::open(folder.path()).map_err(OpenError::io(folder.path()))?;
    let mut engine = Embedded {
        reader: Reader::open(&database)?,
        connection,
        meta: checked.meta,
        revision: loaded.revision,
        backlog: Backlog::default(),
        unplaced_at_start: Some(checked.overfull),
        room: Vec::new(),
        log_pages: 0,
        has_leftovers: false,
        log_is_new: false,
        max_history,
        running,
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
    let begun = engine.running.write(loaded.revision);
    begun.map_err(OpenError::io(engine.folder.path()))?;
    let placed = engine.put_all_in_place();
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
            // The commit itself is on disk. Tried again with the next one.
            self.log_is_new = !self.running.try_write(self.revision);
        }
        for write in writes {
            if let Content::Deleted(deleted) = &write.content {
                self.meta.floor = self.meta.floor.max(deleted.last);
            }
        }
        self.backlog.add(writes, bytes);
        // Its bytes, and the ends of them; and one or two of the tree.
        self.log_pages += bytes / PAGE + 3;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), CommitError> {
        let (mut slices, due) = (0, self.backlog.slices_due());
        // After one that failed it is not large.
        while self.backlog.is_large() && (slices < due || self.backlog.is_too_large()) {
            self.put_slice_in_place()?;
            slices += 1;
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

    fn rest(&mut self) -> Result<Rest, CommitError> {
        if self.backlog.is_empty() || !self.put_slice_in_place()? || self.backlog.is_empty() {
            return Ok(Rest::Done);
        }
        Ok(Rest::More)
    }

    fn close(&mut self) -> Result<(), CommitError> {
        self.reader.close();
        let closed = self.put_all_in_place().and_then(|_| {
            wal::checkpoint(&self.connection, Checkpoint::Truncate)
                .map_err(|error| classify(&error))
        });
        match closed {
            Ok(true) => self.running.remove(),
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

    /// Puts the first leases of the backlog in their places in the tables. Tells whether it did: if that
    /// does not work now, for want of room, all is in the batches.
    fn put_slice_in_place(&mut self) -> Result<bool, CommitError> {
        // The backlog knows nothing of what was there at the start, and must not delete it.
        if self.unplaced_at_start.is_some() {
            return self.put_all_in_place();
        }
        let backlog = std::mem::take(&mut self.backlog);
        let (most, mut meta) = (self.max_history, self.meta.clone());
        let placed = self.transact(|transaction| backlog.put_slice(transaction, &mut meta, most));
        self.backlog = backlog;
        match placed {
            Ok(slice) => {
                self.backlog.forget(&slice);
                self.meta = meta;
                self.log_pages += slice.rows;
                Ok(true)
            }
            Err(error) => self.put_off(error),
        }
    }

    /// The same for everything, also for what was there at the start, in one transaction.
    fn put_all_in_place(&mut self) -> Result<bool, CommitError> {
        let overfull = self.unplaced_at_start.take().unwrap_or_default();
        let (most, mut meta) = (self.max_history, self.meta.clone());
        let placed = self
            .transact(|transaction| recent::put_in_place(transaction, &mut meta, most, &overfull));
        match placed {
            Ok(rows) => {
                self.backlog = Backlog::default();
                self.meta = meta;
                self.log_pages += rows;
                Ok(true)
            }
            Err(error) => {
                self.unplaced_at_start = Some(overfull);
                self.put_off(error)
            }
        }
    }

    /// Something was not put in its place: tried again later, unless that is the end.
    fn put_off(&mut self, error: CommitError) -> Result<bool, CommitError> {
        if matches!(error, CommitError::Fatal(_)) {
            return Err(error);
        }
        warn!(%error, "what was committed last was not put in its place yet");
        self.backlog.put_off();
        Ok(false)
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
