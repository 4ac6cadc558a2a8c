//! Leases in an SQLite database, written by one thread in batches.
//!
//! ```text
//! data_dir/             0700
//!   lock                held while a store uses the folder
//!   FORMAT              "tenure-store 1": there was a database here
//!   RUNNING             while the database is open: how far it had come, so that a lost log is
//!                       noticed
//!   leases.db           one row a lease, one row about all of them
//!   leases.db-wal       what was committed and is not in leases.db yet
//! ```
//!
//! A commit is one transaction with one fsync (`synchronous=FULL`). Every row has a checksum over
//! all its columns, and the `meta` row one over all of these, so rows that were lost or altered are
//! noticed at the next start. Nothing is ever repaired silently.

mod check;
mod folder;
mod row;
mod schema;
mod wal;

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use tracing::{error, warn};

use self::folder::Folder;
use self::row::Row;
use self::schema::Meta;
use super::{CommitError, Content, Engine, Loaded, OpenError, Write};

/// After so many written rows the write-ahead log is moved into the database: a row takes a page or
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
    /// Held for as long as the database is open.
    folder: Folder,
}

/// Opens the database in `data_dir`, or makes it, and reads all of it.
pub(super) fn open(data_dir: &Path) -> Result<(Loaded, Embedded), OpenError> {
    let folder = Folder::open(data_dir)?;
    let database = folder.database();
    if folder.is_new()? {
        schema::create(&database)?;
        folder.mark()?;
    } else {
        folder.check_database()?;
        wal::check(&database)?;
    }
    let connection = schema::connect(&database)?;
    let (mut loaded, meta) = check::load(&connection, &database)?;
    folder.check_revision(meta.revision)?;
    let mut engine = Embedded {
        connection,
        meta,
        rows_since_checkpoint: 0,
        has_leftovers: false,
        folder,
    };
    let failed = |error: rusqlite::Error| OpenError::Database {
        path: database.clone(),
        detail: error.to_string(),
    };
    // The log starts anew with other salts: a tail that a power cut tore is not looked at again.
    engine.checkpoint(Checkpoint::Truncate).map_err(failed)?;
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
        if self.has_leftovers {
            // So that frames of the failed transaction never stand behind good ones, where they
            // would look like damage. It also gives room back, which may be what is missing.
            self.checkpoint(Checkpoint::Truncate)
                .map_err(|error| classify(&error))?;
            self.has_leftovers = false;
        }
        match self.transact(writes) {
            Ok(meta) => self.meta = meta,
            Err(error) => {
                self.has_leftovers = true;
                self.roll_back()?;
                return Err(classify(&error));
            }
        }
        self.rows_since_checkpoint += writes.len();
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), CommitError> {
        if self.rows_since_checkpoint < CHECKPOINT_AFTER_ROWS {
            return Ok(());
        }
        self.rows_since_checkpoint = 0;
        match self
            .checkpoint(Checkpoint::Passive)
            .map_err(|error| classify(&error))
        {
            Ok(()) => Ok(()),
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
        match self.checkpoint(Checkpoint::Truncate) {
            Ok(()) => self.folder.end(),
            Err(error) => {
                error!(%error, "the write-ahead log was not moved into the database; nothing is lost");
            }
        }
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

    fn transact(&mut self, writes: &[Write]) -> rusqlite::Result<Meta> {
        let mut meta = self.meta.clone();
        let transaction = self.connection.transaction()?;
        {
            let mut select = transaction.prepare_cached(schema::SELECT_CRC)?;
            let mut upsert = transaction.prepare_cached(schema::UPSERT)?;
            let mut delete = transaction.prepare_cached(schema::DELETE)?;
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
                        meta.floor = meta.floor.max(*epoch);
                        None
                    }
                };
                meta.account(old, new);
                meta.revision = write.revision;
            }
            let mut update = transaction.prepare_cached(schema::UPDATE_META)?;
            meta.write(&mut update)?;
        }
        transaction.commit()?;
        Ok(meta)
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

    fn checkpoint(&mut self, how: Checkpoint) -> rusqlite::Result<()> {
        let sql = match how {
            Checkpoint::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
            Checkpoint::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        };
        // The first column tells that somebody else reads the database; the next one gets it done.
        self.connection.query_row(sql, [], |_| Ok(()))
    }
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
