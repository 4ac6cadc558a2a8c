//! A log in an SQLite database, written by one thread.
//!
//! ```text
//! data_dir/             0700
//!   lock                held while a store uses the folder
//!   FORMAT              "tenure-store 1": the folder has a database
//!   RUNNING             while the database is open: a revision that its write-ahead log alone has, so that
//!                       a lost write-ahead log is noticed
//!   RUNNING.new         the next RUNNING, opened ahead
//!   leases.db           the batches of the log; one row per lease, rows with its ended terms, one row for
//!                       each of the last leases that were deleted, one row per document, one row about all
//!                       of these
//!   leases.db-wal       SQLite's write-ahead log: what was committed and is not in leases.db yet
//!   leases.db.restoring while a backup is restored: until it is complete and gets the name leases.db
//! ```
//!
//! An append is one transaction with one fsync (`synchronous=FULL`), which writes one row with the whole
//! batch. Checkpoints bring the tables up to the batches in slices, between appends ([`backlog`] says how
//! large a slice is). Every row has a checksum over all its columns, and the `meta` row has one over all of
//! these; each batch names the revision that it follows; and `RUNNING` has the revision of the first append
//! after the write-ahead log was last moved into the database. So the next start notices rows that were lost
//! or changed. Nothing is ever repaired silently.

mod backlog;
mod backup;
mod batch_log;
mod check;
mod checkpoint;
mod deleted;
mod documents;
mod folder;
mod lease_rows;
mod restore;
mod running;
mod schema;
mod term_reader;
mod term_rows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use rusqlite::{Connection, ErrorCode, Transaction};
use tracing::{error, warn};

use self::backlog::Backlog;
use self::folder::Folder;
use self::running::Running;
use self::schema::Meta;
use self::term_reader::TermReader;
use super::wal::{self, Checkpoint};
use super::{AppendError, Batch, Load, Loaded, Log, OpenError, Progress, TermHistory};
use crate::model::{ChangeSet, Content, LeaseChange, LeaseKey};

pub use backup::backup;
pub use backup::{BackupError, Contents, Existing};
pub use restore::restore;
pub use restore::{RestoreError, Restored};

/// After so many pages the write-ahead log is moved into the database: it stays at some 10 or 20 MB, and a
/// start has little to read. A page that was written several times meanwhile is moved once.
const CHECKPOINT_AFTER_PAGES: usize = 4_000;

/// The size of a page, for such estimates.
const PAGE: usize = 4_096;

/// The database, open for writing.
#[derive(Debug)]
pub(super) struct Embedded {
    database: PathBuf,
    connection: Connection,
    /// The row about all tables.
    meta: Meta,
    /// The changes that this process appended and the tables lack.
    backlog: Backlog,
    /// The tables lack batches that the start found, and these leases have more terms than the store
    /// remembers.
    behind_at_start: Option<BTreeSet<LeaseKey>>,
    /// How many pages the write-ahead log may have.
    wal_pages: usize,
    /// A transaction failed half way and may have left frames behind the end of the write-ahead log.
    has_leftovers: bool,
    /// The write-ahead log was moved into the database: it alone has the next commit.
    wal_is_new: bool,
    reader: Arc<TermReader>,
    /// How many terms of a lease the store remembers.
    max_history: usize,
    /// Whether the folder has its marker.
    is_marked: bool,
    /// The revision in `RUNNING`, if the last store did not close the database.
    began: Option<u64>,
    running: Running,
    /// Held for as long as the database is open.
    folder: Folder,
}

/// Opens the database in `data_dir`, or makes it. It is not changed before [`Log::begin`].
pub(super) fn open(data_dir: &Path, max_history: usize) -> Result<Embedded, OpenError> {
    let folder = Folder::open(data_dir)?;
    let database = folder.database();
    folder.check_not_restoring()?;
    let is_marked = folder.is_marked()?;
    let began = folder.began()?;
    if is_marked {
        folder.check_database()?;
        wal::check(&database)?;
    } else {
        if began.is_some() {
            return Err(folder.marker_is_missing());
        }
        schema::create(&database)?;
    }
    let connection = schema::connect(&database)?;
    let reader = TermReader::open(&database)?;
    let running = Running::open(folder.path()).map_err(OpenError::io(folder.path()))?;
    Ok(Embedded {
        database,
        connection,
        meta: Meta::default(),
        backlog: Backlog::default(),
        behind_at_start: None,
        wal_pages: 0,
        has_leftovers: false,
        wal_is_new: false,
        reader,
        max_history,
        is_marked,
        began,
        running,
        folder,
    })
}

impl Log for Embedded {
    fn load_tables(&mut self) -> Result<Loaded, OpenError> {
        let checked = check::load_tables(&self.connection, &self.database, self.max_history)?;
        self.meta = checked.meta;
        self.behind_at_start = Some(checked.over_limit);
        Ok(checked.loaded)
    }

    fn read_batches(&mut self, after: u64) -> Result<Vec<Batch>, OpenError> {
        let batches = batch_log::read(&self.connection, after);
        batches.map_err(|detail| self.damaged(detail))
    }

    fn damaged(&self, detail: String) -> OpenError {
        let path = self.database.clone();
        OpenError::Damaged { path, detail }
    }

    fn begin(&mut self, loaded: &Loaded, revision: u64) -> Result<(), OpenError> {
        if !self.is_marked && !loaded.leases.is_empty() {
            return Err(self.folder.marker_is_missing());
        }
        self.folder.check_revision(self.began, loaded.revision)?;
        // The write-ahead log begins again with other salts, so that a tail that a power cut tore is not
        // read again.
        self.empty_wal()?;
        if !self.is_marked {
            self.folder.mark()?;
        }
        // From now on the write-ahead log has something in it.
        let created = self.transact(|transaction| transaction.execute_batch(documents::TABLE));
        created.map_err(|error| self.failed(&error))?;
        let batch = Batch::empty(loaded.revision, revision);
        let begun = self.insert(&batch, &[]);
        begun.map_err(|error| self.failed(&error))?;
        let written = self.running.write(revision);
        written.map_err(OpenError::io(self.folder.path()))?;
        self.apply_all().map_err(|error| self.failed(&error))?;
        Ok(())
    }

    fn append(&mut self, batch: &Batch, sets: &[ChangeSet]) -> Result<(), AppendError> {
        self.insert(batch, sets)?;
        if self.wal_is_new {
            // The commit itself is durable. If this fails it is tried again with the next one.
            self.wal_is_new = !self.running.try_write(batch.revision);
        }
        let changes: Vec<&LeaseChange> = sets.iter().flat_map(|set| &set.changes).collect();
        for change in &changes {
            if let Content::Deleted(deleted) = &change.content {
                self.meta.floor = self.meta.floor.max(deleted.last);
            }
        }
        let bytes = batch.changes.len();
        self.backlog.add(&changes, bytes, Instant::now());
        // The pages of the row, a page at each end, and one or two of the tree.
        self.wal_pages += bytes / PAGE + 3;
        for document in sets.iter().flat_map(|set| &set.documents) {
            let bytes = document.content.as_ref().map_or(0, |content| content.len());
            self.wal_pages += bytes / PAGE + 3;
        }
        Ok(())
    }

    fn checkpoint(&mut self, load: Load) -> Result<Progress, AppendError> {
        match load {
            Load::Idle => self.checkpoint_idle(),
            Load::Busy => {
                self.checkpoint_busy()?;
                Ok(match self.backlog.is_empty() {
                    true => Progress::Done,
                    false => Progress::More,
                })
            }
        }
    }

    fn close(&mut self) -> Result<(), AppendError> {
        self.reader.close();
        let closed = self.apply_all().and_then(|_| {
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
                if !error.is_transient() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn terms(&self) -> Arc<dyn TermHistory> {
        Arc::clone(&self.reader) as Arc<dyn TermHistory>
    }
}

impl Embedded {
    /// Appends a batch and writes documents, unless another store has appended since the last batch.
    fn insert(&mut self, batch: &Batch, sets: &[ChangeSet]) -> Result<(), AppendError> {
        let mut meta = self.meta.clone();
        let are_tables_level = self.backlog.is_empty() && self.behind_at_start.is_none();
        let is_appended = self.transact(|transaction| {
            let is_appended = batch_log::append(transaction, batch)?;
            let has_documents = sets.iter().any(|set| !set.documents.is_empty());
            if is_appended && has_documents {
                documents::write(transaction, &mut meta, sets)?;
                if are_tables_level && batch.changes.is_empty() {
                    // The tables lack nothing, so no batch need stay: a store whose clients only
                    // change documents has no backlog, and no checkpoint that deletes batches.
                    meta.revision = batch.revision;
                }
                checkpoint::finish(transaction, &meta)?;
            }
            Ok(is_appended)
        })?;
        match is_appended {
            true => {
                self.meta = meta;
                Ok(())
            }
            false => Err(AppendError::NotOwner(format!(
                "{} has changes after revision {} that this store did not make",
                self.database.display(),
                batch.previous
            ))),
        }
    }

    fn checkpoint_busy(&mut self) -> Result<(), AppendError> {
        let (mut slices, due) = (0, self.backlog.slices_due());
        // A slice that failed is put off, so this ends.
        while self.backlog.needs_slice(Instant::now())
            && (slices < due || self.backlog.is_over_limit())
        {
            self.write_slice()?;
            slices += 1;
        }
        if self.wal_pages < CHECKPOINT_AFTER_PAGES {
            return Ok(());
        }
        self.wal_pages = 0;
        self.wal_is_new = true;
        match wal::checkpoint(&self.connection, Checkpoint::Passive)
            .map_err(|error| classify(&error))
        {
            Ok(_) => Ok(()),
            // The write-ahead log has everything; it grows until this works.
            Err(error) if error.is_transient() => {
                warn!(%error, "the write-ahead log was not moved into the database");
                Ok(())
            }
            // The next fsync of the database file would not report one that failed.
            Err(error) => Err(error),
        }
    }

    fn checkpoint_idle(&mut self) -> Result<Progress, AppendError> {
        if self.backlog.is_empty() || !self.write_slice()? || self.backlog.is_empty() {
            return Ok(Progress::Done);
        }
        Ok(Progress::More)
    }

    /// Does `work` in one transaction: all of it is durable then, or nothing has changed.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, AppendError> {
        if self.has_leftovers {
            // So that frames of the failed transaction never stand behind good ones, where they would look
            // like damage. It also frees room, which may be what is missing.
            //
            // While another program reads, the write-ahead log stays as it is, and only the result says so.
            // Then nothing may be written, because it would stand before these frames.
            let is_empty = wal::checkpoint(&self.connection, Checkpoint::Truncate);
            if !is_empty.map_err(|error| classify(&error))? {
                return Err(AppendError::Busy("another program reads it".into()));
            }
            self.has_leftovers = false;
            self.wal_is_new = true;
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

    /// Writes the first leases of the backlog. Returns whether it did: if there is no room now, the batches
    /// have everything.
    fn write_slice(&mut self) -> Result<bool, AppendError> {
        // The backlog lacks the batches that the start found, and a slice must not delete them.
        if self.behind_at_start.is_some() {
            return self.apply_all();
        }
        let backlog = std::mem::take(&mut self.backlog);
        let (most, mut meta) = (self.max_history, self.meta.clone());
        let written =
            self.transact(|transaction| backlog.write_slice(transaction, &mut meta, most));
        self.backlog = backlog;
        match written {
            Ok(slice) => {
                self.backlog.remove(&slice);
                self.meta = meta;
                self.wal_pages += slice.rows;
                Ok(true)
            }
            Err(error) => self.put_off(error),
        }
    }

    /// Applies all batches, also those that the start found, in one transaction.
    fn apply_all(&mut self) -> Result<bool, AppendError> {
        let over_limit = self.behind_at_start.take().unwrap_or_default();
        let (most, mut meta) = (self.max_history, self.meta.clone());
        let applied = self.transact(|transaction| {
            checkpoint::apply_all(transaction, &mut meta, most, &over_limit)
        });
        match applied {
            Ok(rows) => {
                self.backlog.clear();
                self.meta = meta;
                self.wal_pages += rows;
                Ok(true)
            }
            Err(error) => {
                self.behind_at_start = Some(over_limit);
                self.put_off(error)
            }
        }
    }

    /// The tables were not brought up to the batches: tried again later, unless the store must end.
    fn put_off(&mut self, error: AppendError) -> Result<bool, AppendError> {
        if !error.is_transient() {
            return Err(error);
        }
        warn!(%error, "the tables were not brought up to the log; tried again later");
        self.backlog.put_off(Instant::now());
        Ok(false)
    }

    /// After an error the transaction must be gone, or nothing may be written.
    fn roll_back(&self) -> Result<(), AppendError> {
        if !self.connection.is_autocommit() {
            self.connection
                .execute_batch("ROLLBACK")
                .map_err(|error| AppendError::Unknown(error.to_string()))?;
        }
        Ok(())
    }

    /// Empties the write-ahead log while no other program uses the database.
    fn empty_wal(&self) -> Result<(), OpenError> {
        let is_empty = wal::checkpoint(&self.connection, Checkpoint::Truncate);
        match is_empty.map_err(|error| self.failed(&error))? {
            true => Ok(()),
            // New frames could precede frames that a power cut tore, which would then look damaged.
            false => Err(self.failed(&"another program reads it, end that first")),
        }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> OpenError {
        OpenError::Database {
            path: self.database.clone(),
            detail: error.to_string(),
        }
    }
}

/// Classifies an error. One that is not known to be harmless leaves the outcome unknown.
fn classify(error: &rusqlite::Error) -> AppendError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => AppendError::DiskFull(error.to_string()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            AppendError::Busy(error.to_string())
        }
        // The index of the write-ahead log could not grow. It is made again whenever it is missing, so
        // nothing was written that matters.
        _ if error.sqlite_error().map(|error| error.extended_code)
            == Some(SQLITE_IOERR_SHMSIZE) =>
        {
            AppendError::DiskFull(error.to_string())
        }
        _ => AppendError::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
