//! A log in an SQLite database, written by one thread.
//!
//! ```text
//! data_dir/             0700
//!   lock                locked while a store uses the directory
//!   FORMAT              "tenure-store 1": the directory has a complete database
//!   RUNNING             while the database is open: a revision that only its write-ahead log has,
//!                       so that the loss of that log is detected
//!   RUNNING.new         the next RUNNING, opened ahead of time
//!   leases.db           the batches of the log; one row per lease, rows with its ended terms, one
//!                       row for each of the last deleted leases, one row per document, and one
//!                       row with the totals of all these rows
//!   leases.db-wal       SQLite's write-ahead log: the commits that are not in leases.db yet
//!   leases.db.restoring during a restore: the database, until it is complete and renamed
//!   MOVED               after a final backup: its time and its file; no store starts
//!   RESTORED            after a restore: its time and its backup, until the audit log has them
//! ```
//!
//! An append is one transaction with one fsync (`synchronous=FULL`), which writes one row with the
//! whole batch. Checkpoints bring the tables up to the batches in slices, between appends
//! ([`backlog`] describes the size of a slice).
//!
//! The next start detects rows that were lost or changed. Every row has a checksum over all its
//! columns, and the `meta` row has a checksum over the checksums of all rows. Each batch names the
//! revision that it follows. `RUNNING` has the revision of the first append after the write-ahead
//! log was last moved into the database. Nothing is ever repaired silently.

mod backlog;
mod backup;
mod backup_file;
mod batch_log;
mod check;
mod deleted;
mod documents;
mod final_mark;
mod folder;
mod identity;
mod import;
mod restore;
mod rows;
mod running;
mod schema;
mod term_reader;
mod term_rows;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE};
use rusqlite::{Connection, ErrorCode};
use tracing::{error, warn};

use self::backlog::{Backlog, SLICE};
use self::check::Checked;
use self::folder::Folder;
use self::running::Running;
use self::schema::Meta;
use self::term_reader::TermReader;
use super::wal::{self, Checkpoint};
use super::{AppendError, Batch, Load, Loaded, LoadedLease, Log, OpenError, Progress, TermHistory};
use crate::disk_full::is_at_limit;
use crate::clock;
use crate::model::{ChangeSet, Content};

pub(super) use backup_file::BackupFile;
pub(super) use import::Import;
pub(super) use restore::{Examined, REVISIONS_AHEAD};

pub use backup::{BackupError, Contents, Existing, backup, final_backup};
pub use restore::{RestoreError, Restored, forget_restore, restore, restore_note};

/// The number of pages after which the write-ahead log is moved into the database. The log stays at
/// some 10 or 20 MB, and a start has little to read. A page that was written several times
/// meanwhile is moved once.
const CHECKPOINT_AFTER_PAGES: usize = 4_000;

/// The size of a page in bytes: SQLite's default, which no setting here changes.
const PAGE: usize = 4_096;

/// The database, open for writing.
#[derive(Debug)]
pub(super) struct Embedded {
    database: PathBuf,
    connection: Connection,
    /// The row with the totals of all tables.
    meta: Meta,
    /// The changes that the tables lack.
    backlog: Backlog,
    /// An upper bound for the number of pages in the write-ahead log.
    wal_pages: usize,
    /// A transaction failed halfway, and may have left frames after the end of the write-ahead log.
    has_leftovers: bool,
    /// The write-ahead log was moved into the database, so the next commit is only in the log.
    wal_is_new: bool,
    reader: Arc<TermReader>,
    /// The number of terms of a lease that the store remembers.
    max_history: usize,
    /// Whether the directory has its marker.
    is_marked: bool,
    /// The revision in `RUNNING`, if the last store did not close the database.
    began: Option<u64>,
    running: Running,
    /// The data directory, locked while the database is open.
    folder: Folder,
}

/// Opens or creates the database in `data_dir`. Nothing is written to an existing database before
/// [`Embedded::start`].
pub(super) fn open(data_dir: &Path, max_history: usize) -> Result<Embedded, OpenError> {
    let folder = Folder::open(data_dir)?;
    let database = folder.database();
    folder.check_not_restoring()?;
    folder.check_not_moved()?;
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
    let broken = |error: rusqlite::Error| schema::broken(&database, &error);
    let connection = schema::connect(&database).map_err(broken)?;
    let reader = TermReader::over(schema::connect_to_read(&database).map_err(broken)?);
    let running = Running::open(folder.path()).map_err(OpenError::io(folder.path()))?;
    Ok(Embedded {
        database,
        connection,
        meta: Meta::default(),
        backlog: Backlog::default(),
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
    fn append(&mut self, batch: &Batch, sets: &[ChangeSet]) -> Result<(), AppendError> {
        let pages = self.insert(batch, sets)?;
        if self.wal_is_new {
            // The commit itself is durable. If this write fails, the next commit tries it again.
            self.wal_is_new = !self.running.try_write(batch.revision);
        }
        let mut count = 0;
        for change in sets.iter().flat_map(|set| &set.changes) {
            if let Content::Deleted(deleted) = &change.content {
                let floors = &mut self.meta.floors;
                floors.raise(change.key.namespace(), deleted.last);
                floors.merge_passed(clock::wall());
            }
            let (key, term) = (&change.key, change.term.as_deref());
            self.backlog
                .add_change(batch, key, change.revision, &change.content, term);
            count += 1;
        }
        // A batch without changes of leases also needs slices, because they delete it.
        count += sets.iter().map(|set| set.documents.len()).sum::<usize>();
        self.backlog.add_batch(batch, count, Instant::now());
        // The estimate has the pages of the row, a page at each end, and one or two pages of the
        // tree.
        self.wal_pages += pages + batch.changes.len() / PAGE + 3;
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), AppendError> {
        // No other process can have opened the data directory.
        Ok(())
    }

    fn checkpoint(&mut self, load: Load) -> Result<Progress, AppendError> {
        let (mut slices, mut has_room) = (0, true);
        while has_room && self.needs_slice(load, slices) {
            has_room = self.write_slice(SLICE)?;
            slices += 1;
        }
        if self.wal_pages >= CHECKPOINT_AFTER_PAGES {
            self.move_wal()?;
        }
        Ok(match has_room && !self.backlog.is_empty() {
            true => Progress::More,
            false => Progress::Done,
        })
    }

    fn close(&mut self) -> Result<(), AppendError> {
        self.reader.close();
        let closed = self.write_slice(usize::MAX).and_then(|_| {
            wal::checkpoint(&self.connection, Checkpoint::Truncate)
                .map_err(|error| self.classify(&error))
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
    /// Loads the content, and begins to append. The next revisions are greater than `least`. The
    /// leases are added to `leases`.
    pub(super) fn start<L: Extend<LoadedLease>>(
        &mut self,
        least: u64,
        leases: L,
    ) -> Result<Loaded<L>, OpenError> {
        let mut loaded = self.load(leases)?;
        let revision = least.max(loaded.revision + 1);
        self.begin(loaded.revision, revision)?;
        loaded.revision = revision;
        Ok(loaded)
    }

    /// Reads and checks the tables and the batches that follow them.
    fn load<L: Extend<LoadedLease>>(&mut self, leases: L) -> Result<Loaded<L>, OpenError> {
        let Checked {
            loaded,
            meta,
            backlog,
        } = check::load(&self.connection, &self.database, leases)?;
        (self.meta, self.backlog) = (meta, backlog);
        if !self.is_marked && (self.meta.row_count != 0 || !self.backlog.is_empty()) {
            return Err(self.folder.marker_is_missing());
        }
        self.folder.check_revision(self.began, loaded.revision)?;
        Ok(loaded)
    }

    /// Makes this process the owner of the loaded log: appends an empty batch with revision
    /// `revision`, which follows the revision `last`. Nothing was written before.
    fn begin(&mut self, last: u64, revision: u64) -> Result<(), OpenError> {
        // The write-ahead log begins again with other salts, so that SQLite never reads frames that
        // a power cut tore.
        let is_empty = wal::checkpoint(&self.connection, Checkpoint::Truncate);
        if !is_empty.map_err(|error| self.failed(&error))? {
            // New frames could otherwise precede frames that a power cut tore, and the log would
            // look damaged.
            return Err(self.failed(&"another program reads it, end that first"));
        }
        if !self.is_marked {
            self.folder.mark()?;
        }
        // From now on the write-ahead log has content that the database lacks.
        let batch = Batch {
            previous: last,
            revision,
            changes: Vec::new(),
        };
        let begun = self.append(&batch, &[]);
        begun.map_err(|error| self.failed(&error))?;
        let written = self.running.write(revision);
        written.map_err(OpenError::io(self.folder.path()))?;
        let written = self.write_slice(usize::MAX);
        written.map(|_| ()).map_err(|error| self.failed(&error))
    }

    /// Appends a batch and writes documents, unless another store has appended since the last
    /// batch. Returns the maximum number of pages that the documents take.
    fn insert(&mut self, batch: &Batch, sets: &[ChangeSet]) -> Result<usize, AppendError> {
        let mut meta = self.meta.clone();
        let appended = self.transact(|connection| {
            if sets.iter().all(|set| set.documents.is_empty()) {
                return Ok(batch_log::append(connection, batch)?.then_some(0));
            }
            let transaction = connection.unchecked_transaction()?;
            if !batch_log::append(&transaction, batch)? {
                return Ok(None);
            }
            let pages = documents::write(&transaction, &mut meta, sets)?;
            meta.write(&transaction)?;
            transaction.commit()?;
            Ok(Some(pages))
        })?;
        let Some(pages) = appended else {
            return Err(AppendError::NotOwner(format!(
                "{} has changes after revision {} that this store did not make",
                self.database.display(),
                batch.previous
            )));
        };
        self.meta = meta;
        Ok(pages)
    }

    /// Returns whether another slice follows after `slices` slices.
    fn needs_slice(&mut self, load: Load, slices: usize) -> bool {
        match load {
            Load::Idle => slices == 0 && !self.backlog.is_empty(),
            Load::Busy => {
                let is_due = slices < self.backlog.slices_due() || self.backlog.is_over_limit();
                is_due && self.backlog.needs_slice(Instant::now())
            }
        }
    }

    /// Moves the write-ahead log into the database, as far as no other program is reading it.
    fn move_wal(&mut self) -> Result<(), AppendError> {
        self.wal_pages = 0;
        self.wal_is_new = true;
        let moved = wal::checkpoint(&self.connection, Checkpoint::Passive);
        match moved.map_err(|error| self.classify(&error)) {
            // The write-ahead log still has everything. It grows until a later attempt succeeds.
            Err(error) if error.is_transient() => {
                warn!(%error, "the write-ahead log was not moved into the database");
                Ok(())
            }
            // This error must not be ignored: after an fsync of the database file failed, the next
            // fsync would not report it.
            moved => moved.map(|_| ()),
        }
    }

    /// Runs `work`, which is one transaction: afterwards either all of it is durable, or nothing
    /// has changed.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AppendError> {
        if self.has_leftovers {
            // The frames of the failed transaction are removed first. Otherwise they would follow
            // valid frames, where they would look like damage. The removal also frees disk space,
            // which may be the cause of the failure.
            //
            // While another program reads, the write-ahead log cannot be truncated, and only the
            // result of the call shows that. Then nothing may be written, because it would precede
            // these frames.
            let is_empty = wal::checkpoint(&self.connection, Checkpoint::Truncate);
            if !is_empty.map_err(|error| self.classify(&error))? {
                return Err(AppendError::Busy(
                    "another program reads the database".into(),
                ));
            }
            self.has_leftovers = false;
            self.wal_is_new = true;
        }
        work(&self.connection).map_err(|error| {
            self.has_leftovers = true;
            // Nothing may be written unless the failed transaction has ended.
            match self.connection.is_autocommit() {
                true => self.classify(&error),
                false => AppendError::Unknown(error.to_string()),
            }
        })
    }

    /// Writes the first leases of the backlog, with at most `most_rows` rows. Returns whether it
    /// succeeded: if there is no disk space now, the batches still have everything.
    fn write_slice(&mut self, most_rows: usize) -> Result<bool, AppendError> {
        let backlog = std::mem::take(&mut self.backlog);
        let (most, mut meta) = (self.max_history, self.meta.clone());
        let written = self.transact(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let slice = backlog.write_slice(&transaction, &mut meta, most, most_rows)?;
            transaction.commit()?;
            Ok(slice)
        });
        self.backlog = backlog;
        match written {
            Ok(slice) => {
                self.backlog.remove(&slice);
                self.meta = meta;
                self.wal_pages += slice.rows;
                Ok(true)
            }
            // A later attempt may succeed, unless the error is final.
            Err(error) if error.is_transient() => {
                warn!(%error, "the tables were not brought up to the log; the store will try again");
                self.backlog.put_off(Instant::now());
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn classify(&self, error: &rusqlite::Error) -> AppendError {
        let files = [&self.database, &wal::log_of(&self.database)];
        classify(error, files.into_iter().any(|file| is_at_limit(file)))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> OpenError {
        OpenError::Database {
            path: self.database.clone(),
            detail: error.to_string(),
        }
    }
}

/// Classifies an error. An error that is not known to be harmless leaves the outcome unknown. With
/// `at_limit`, a file has the greatest size that the process may give it.
fn classify(error: &rusqlite::Error, at_limit: bool) -> AppendError {
    let detail = error.to_string();
    match error.sqlite_error() {
        Some(error) if error.code == ErrorCode::DiskFull => AppendError::DiskFull(detail),
        // The index of the write-ahead log could not grow. SQLite rebuilds it whenever it is
        // missing, so nothing important was lost.
        Some(error) if error.extended_code == SQLITE_IOERR_SHMSIZE => AppendError::DiskFull(detail),
        // SQLite reports this one reason why a file can't grow as an error of the disk.
        Some(error)
            if at_limit
                && matches!(
                    error.extended_code,
                    SQLITE_IOERR_WRITE | SQLITE_IOERR_TRUNCATE
                ) =>
        {
            AppendError::DiskFull(format!(
                "a file has the greatest size that this process may give it (ulimit -f, LimitFSIZE=): {detail}"
            ))
        }
        Some(error)
            if matches!(
                error.code,
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked
            ) =>
        {
            AppendError::Busy(format!("another program has the database locked: {detail}"))
        }
        _ => AppendError::Unknown(detail),
    }
}

#[cfg(test)]
mod tests;
