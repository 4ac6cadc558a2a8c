//! The database of containers and blobs: `blobs.db`, beside the one of leases.
//!
//! Each change is one transaction with one fsync (`synchronous=FULL`). Every row has a checksum,
//! and the row about all of them has one over these, so the next start detects lost or altered
//! rows, and also a missing database or log ([`watermark`](super::watermark)). Nothing is ever
//! repaired silently.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tracing::{error, warn};

use super::catalog::{BlobChange, Catalog, Stamp};
use super::rows::{self, Meta};
use super::watermark::{self, Watermark};
use tenure_server::OpenError;
use tenure_server::companion::{self, Checkpoint, checkpoint};

/// The name of the file in the data directory.
pub(in crate::server) const DATABASE: &str = "blobs.db";

/// Writes after which the log is moved into the database.
const CHECKPOINT_AFTER_WRITES: u32 = 200;

/// Why a change is not durable.
#[derive(Debug)]
pub(super) enum WriteError {
    /// It is not on disk. Later ones may succeed.
    Undone(String),
    /// It is unknown whether it is on disk.
    Fatal(String),
}

/// The database, open for writing.
#[derive(Debug)]
pub(super) struct Disk {
    connection: Connection,
    meta: Meta,
    mark: Watermark,
    /// The log was moved into the database: the next change is only in the log.
    log_is_new: bool,
    writes_since_checkpoint: u32,
    /// A transaction failed and may have left frames behind the end of the log.
    has_leftovers: bool,
    /// Nothing may be written any more: after a failed fsync the operating system may have dropped
    /// the data, and the next fsync may succeed.
    failed: bool,
}

impl Disk {
    /// Reads and checks the database.
    pub(super) fn open(folder: &Path) -> Result<(Self, Catalog), OpenError> {
        let path = folder.join(DATABASE);
        let restoring = restoring(folder);
        if !path.exists() && restoring.exists() {
            // It was complete before the leases were restored, and no store starts without these.
            let name = || {
                fs::rename(&restoring, &path)?;
                File::open(folder)?.sync_all()
            };
            name().map_err(OpenError::io(&path))?;
        }
        let mark = Watermark::of(folder);
        let marked = mark.read(&path)?;
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(OpenError::io(&path))?;
        let broken = |error: rusqlite::Error| open_error(&path, &error);
        companion::check(&path)?;
        let connection = connect(&path).map_err(broken)?;
        if marked.is_none() && rows::is_empty(&connection).map_err(broken)? {
            rows::create(&connection).map_err(broken)?;
        }
        let (meta, catalog) = rows::load(&connection, &path)?;
        watermark::check(&path, marked, meta.number)?;
        // An empty log: a torn tail is not read again, and new frames never come before it, where
        // the tail would look like damage.
        if !checkpoint(&connection, Checkpoint::Truncate).map_err(broken)? {
            return Err(OpenError::Database {
                path,
                detail: "another program reads it, end that first".into(),
            });
        }
        let disk = Self {
            connection,
            meta,
            mark,
            log_is_new: true,
            writes_since_checkpoint: 0,
            has_leftovers: false,
            failed: false,
        };
        Ok((disk, catalog))
    }

    /// Makes one change durable, or changes nothing.
    pub(super) fn write(&mut self, stamp: Stamp, change: &BlobChange) -> Result<(), WriteError> {
        if self.failed {
            return Err(WriteError::Fatal("it has failed before".into()));
        }
        let written = self.write_once(stamp, change);
        self.failed = matches!(written, Err(WriteError::Fatal(_)));
        written
    }

    fn write_once(&mut self, stamp: Stamp, change: &BlobChange) -> Result<(), WriteError> {
        if self.has_leftovers {
            // Frames of the failed transaction must never follow good ones, where they would look
            // like damage at the next start.
            let emptied = checkpoint(&self.connection, Checkpoint::Truncate);
            if !emptied.map_err(|error| classify(&error))? {
                return Err(WriteError::Undone("it is being read".into()));
            }
            self.has_leftovers = false;
            self.log_is_new = true;
        }
        let mut meta = self.meta;
        meta.number = stamp.number;
        let mut run = || -> rusqlite::Result<()> {
            // A failure rolls it back. If that fails, too, the next transaction cannot begin.
            let transaction = self.connection.transaction()?;
            rows::write(&transaction, &mut meta, stamp, change)?;
            meta.write(&transaction)?;
            transaction.commit()
        };
        if let Err(error) = run() {
            self.has_leftovers = true;
            return Err(classify(&error));
        }
        self.meta = meta;
        if self.log_is_new {
            match self.mark.write(stamp.number) {
                Ok(()) => self.log_is_new = false,
                // The change itself is on disk. The next change tries this again.
                Err(error) => warn!(%error, "a loss of the log of blobs would not be detected now"),
            }
        }
        self.writes_since_checkpoint += 1;
        if self.writes_since_checkpoint >= CHECKPOINT_AFTER_WRITES {
            self.writes_since_checkpoint = 0;
            self.log_is_new = true;
            let done = checkpoint(&self.connection, Checkpoint::Passive);
            return match done.map_err(|error| classify(&error)) {
                Err(WriteError::Fatal(error)) => Err(WriteError::Fatal(error)),
                // Everything is in the log, which grows until this succeeds.
                Ok(_) | Err(WriteError::Undone(_)) => Ok(()),
            };
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if !self.failed
            && let Err(error) = checkpoint(&self.connection, Checkpoint::Truncate)
        {
            error!(%error, "the log of blobs was not moved into their database; nothing is lost");
        }
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // A store that refuses the file does not change it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(rusqlite::Error::InvalidQuery);
    }
    connection.execute_batch(
        "PRAGMA wal_autocheckpoint = 0;
         PRAGMA synchronous = FULL;
         PRAGMA temp_store = MEMORY;
         PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;",
    )?;
    Ok(connection)
}

/// The file of a database during its restore.
pub(in crate::server) fn restoring(folder: &Path) -> PathBuf {
    folder.join("blobs.db.restoring")
}

pub(super) fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path: PathBuf = path.into();
    let detail = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            OpenError::Damaged { path, detail }
        }
        _ => OpenError::Database { path, detail },
    }
}

fn classify(error: &rusqlite::Error) -> WriteError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            WriteError::Undone(text)
        }
        _ => WriteError::Fatal(text),
    }
}
