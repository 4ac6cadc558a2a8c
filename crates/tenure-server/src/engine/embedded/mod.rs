//! Leases in an SQLite database, written by one thread in batches.
//!
//! ```text
//! data_dir/             0700
//!   lock                held while a store uses the folder
//!   FORMAT              "tenure-store 2": there was a database here
//!   RUNNING             while the database is open: how far it had come, so that a lost log is
//!                       noticed
//!   leases.db           one row a lease, one row a term that has ended, one row about all of them
//!   leases.db-wal       what was committed and is not in leases.db yet
//!   leases.db.restoring while a backup is restored: until it is whole, and named leases.db
//! ```
//!
//! A commit is one transaction with one fsync (`synchronous=FULL`). Every row has a checksum over
//! all its columns, and the `meta` row one over all of these, so rows that were lost or altered are
//! noticed at the next start. Nothing is ever repaired silently.

mod backup;
mod check;
mod checksum;
mod folder;
mod restore;
mod row;
mod schema;
mod terms;
mod wal;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params};
use tracing::{error, warn};

use self::folder::{FORMAT, Folder};
use self::row::Row;
use self::schema::Meta;
use self::terms::Reader;
use super::{Archive, CommitError, Content, Engine, Loaded, OpenError, Write};
use crate::table::Key;

pub use backup::{BackupError, Contents, Existing, backup};
pub use restore::{RestoreError, Restored, restore};

/// After so many written rows of leases the write-ahead log is moved into the database: a row takes a page or
/// two in it, so it stays at some 10 or 20 MB, and a start has little to read back.
const CHECKPOINT_AFTER_ROWS: usize = 2_000;

/// The database, open for writing.
#[derive(Debug)]
pub(super) struct Embedded {
    connection: Connection,
    meta: Meta,
    rows_since_checkpoint: usize,
    /// A transaction failed half way and may have left frames behind the log's end.
    has_leftovers: bool,
    reader: Arc<Reader>,
    /// How many terms of a lease are remembered, and the leases that may have more by now.
    max_history: usize,
    overfull: BTreeSet<Key>,
    /// Held for as long as the database is open.
    folder: Folder,
}

/// Opens the database in `data_dir`, or makes it, and reads all of it.
///
/// A folder of the first format becomes one of this format, in two steps: the database in one
/// transaction, then the marker. A start that is cut short between them finds a new database under
/// an old marker, and does the second step.
pub(super) fn open(data_dir: &Path, max_history: usize) -> Result<(Loaded, Embedded), OpenError> {
    let folder = Folder::open(data_dir)?;
    let database = folder.database();
    folder.check_not_restoring()?;
    let marked = folder.format()?;
    if marked.is_none() {
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
    folder.check_revision(checked.meta.revision)?;
    let mut engine = Embedded {
        reader: Reader::open(&database)?,
        connection,
        meta: checked.meta,
        rows_since_checkpoint: 0,
        has_leftovers: false,
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
        schema::upgrade(&engine.connection).map_err(failed)?;
        // In the database file before the marker says so.
        engine.empty_log(&database)?;
    }
    if marked != Some(FORMAT) {
        engine.folder.mark()?;
    }
    loaded.revision = engine.begin().map_err(failed)?;
    engine.folder.begin(loaded.revision)?;
    Ok((loaded, engine))
}

/// How the write-ahead log is moved into the database.
#[derive(Clone, Copy, Debug)]
enum Checkpoint {
    /// As far as nobody is in the way.
    Passive,
    /// All of it, and the log is cut to nothing.
    Truncate,
}

impl Engine for Embedded {
    fn commit(&mut self, writes: &[Write]) -> Result<(), CommitError> {
        self.transact(|transaction, meta| write_all(transaction, meta, writes))?;
        for write in writes {
            self.rows_since_checkpoint += 1;
            if write.term.is_some() && !self.overfull.contains(&write.key) {
                self.overfull.insert(write.key.clone());
            }
        }
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), CommitError> {
        if self.rows_since_checkpoint < CHECKPOINT_AFTER_ROWS {
            return Ok(());
        }
        self.rows_since_checkpoint = 0;
        self.prune()?;
        match self
            .checkpoint(Checkpoint::Passive)
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

    fn close(&mut self) {
        self.reader.close();
        let closed = self.prune().and_then(|()| {
            self.checkpoint(Checkpoint::Truncate)
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
            }
        }
    }

    fn archive(&self) -> Arc<dyn Archive> {
        Arc::clone(&self.reader) as Arc<dyn Archive>
    }
}

impl Embedded {
    /// Takes a revision for the start itself, so that the log has something in it from now on.
    fn begin(&mut self) -> rusqlite::Result<u64> {
        let mut meta = self.meta.clone();
        meta.revision += 1;
        meta.write(&mut self.connection.prepare_cached(schema::UPDATE_META)?)?;
        self.meta = meta;
        Ok(self.meta.revision)
    }

    /// Does `work` in one transaction: all of it is durable then, or nothing has changed.
    fn transact(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Meta) -> rusqlite::Result<()>,
    ) -> Result<(), CommitError> {
        if self.has_leftovers {
            // So that frames of the failed transaction never stand behind good ones, where they
            // would look like damage. It also gives room back, which may be what is missing.
            //
            // While somebody reads, the log stays as it is, which is no error: only the answer says
            // so. Then nothing may be written, because it would stand before these frames.
            let is_empty = self.checkpoint(Checkpoint::Truncate);
            if !is_empty.map_err(|error| classify(&error))? {
                return Err(CommitError::Busy("it is being read".into()));
            }
            self.has_leftovers = false;
        }
        let mut meta = self.meta.clone();
        let run = |connection: &mut Connection, meta: &mut Meta| {
            let transaction = connection.transaction()?;
            work(&transaction, meta)?;
            transaction.commit()
        };
        match run(&mut self.connection, &mut meta) {
            Ok(()) => {
                self.meta = meta;
                Ok(())
            }
            Err(error) => {
                self.has_leftovers = true;
                self.roll_back()?;
                Err(classify(&error))
            }
        }
    }

    /// Puts terms in their places, and forgets those beyond what is remembered, of leases whose terms
    /// have ended since the last time. So there are never more of them, in all, than rows between two
    /// checkpoints.
    fn prune(&mut self) -> Result<(), CommitError> {
        let overfull = std::mem::take(&mut self.overfull);
        let most = self.max_history;
        let pruned = self.transact(|transaction, meta| {
            let before = meta.clone();
            if !overfull.is_empty() {
                terms::put_in_place(transaction, meta)?;
            }
            for key in &overfull {
                terms::prune(transaction, meta, key, most)?;
            }
            if *meta != before {
                meta.write(&mut transaction.prepare_cached(schema::UPDATE_META)?)?;
            }
            Ok(())
        });
        match pruned {
            Ok(()) => Ok(()),
            Err(CommitError::Fatal(error)) => Err(CommitError::Fatal(error)),
            Err(error) => {
                warn!(%error, "old terms were not forgotten yet");
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
        let is_empty = self.checkpoint(Checkpoint::Truncate);
        match is_empty.map_err(|error| failed(error.to_string()))? {
            true => Ok(()),
            // What would be written now might stand before frames that a power cut tore, and make
            // them look like damage.
            false => Err(failed("another program reads it, end that first".into())),
        }
    }

    /// Tells whether it is done; if not, somebody else reads the database, and a later one gets it
    /// done.
    fn checkpoint(&mut self, how: Checkpoint) -> rusqlite::Result<bool> {
        let sql = match how {
            Checkpoint::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
            Checkpoint::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        };
        let is_busy: bool = self.connection.query_row(sql, [], |row| row.get(0))?;
        Ok(!is_busy)
    }
}

fn write_all(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    writes: &[Write],
) -> rusqlite::Result<()> {
    let mut select = transaction.prepare_cached(schema::SELECT_CRC)?;
    let mut upsert = transaction.prepare_cached(schema::UPSERT)?;
    let mut delete = transaction.prepare_cached(schema::DELETE)?;
    let mut note = transaction.prepare_cached(terms::NOTE)?;
    for write in writes {
        let (namespace, lease) = (write.key.namespace(), write.key.lease());
        let old: Option<u32> = select
            .query_row(params![namespace, lease], |row| row.get(0))
            .optional()?;
        let new = match &write.content {
            Content::Lease(stored) => {
                let row = Row::of(&write.key, stored, write.revision);
                let crc = row.crc();
                row.write(&mut upsert, crc)?;
                Some(crc)
            }
            Content::Deleted(epoch) => {
                delete.execute(params![namespace, lease])?;
                terms::delete(transaction, meta, &write.key)?;
                meta.floor = meta.floor.max(*epoch);
                None
            }
        };
        meta.account(old, new);
        if let Some(term) = &write.term {
            terms::note(&mut note, meta, &write.key, term)?;
        }
        meta.revision = write.revision;
    }
    meta.write(&mut transaction.prepare_cached(schema::UPDATE_META)?)
}

/// What may be done after an error. Whatever is not known to be harmless is not.
fn classify(error: &rusqlite::Error) -> CommitError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => CommitError::DiskFull(error.to_string()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            CommitError::Busy(error.to_string())
        }
        _ => CommitError::Fatal(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
