//! The tables, and the connections to them.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, params};

use super::folder::{FORMAT, private};
use super::{batch_log, deleted, documents, identity, term_rows};
use crate::engine::OpenError;
use crate::model::{Floors, StoreId};
use crate::random::OsRandom;

/// "tenr": the application id in the header of the database.
pub(super) const APPLICATION_ID: i32 = 0x7465_6e72;

/// The definitions of the tables. Times are in milliseconds; `duration_ms` is null for an infinite
/// lease. `without_store` is a JSON array: the number of periods in which the term was led without the
/// store, the beginning of the first, the end of the last, and their total time.
const TABLES: &str = "
    CREATE TABLE lease_rows (
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        state TEXT NOT NULL,
        holder TEXT,
        owner TEXT,
        epoch INTEGER,
        granted_at_ms INTEGER,
        duration_ms INTEGER,
        lease_id BLOB,
        break_ms INTEGER,
        lock_delay_ms INTEGER,
        metadata TEXT NOT NULL,
        reserved_for TEXT,
        reserved_ms INTEGER,
        without_store TEXT,
        retired BLOB NOT NULL,
        revision INTEGER NOT NULL,
        crc INTEGER NOT NULL,
        PRIMARY KEY (namespace, lease)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        revision INTEGER NOT NULL,
        floors TEXT NOT NULL,
        row_count INTEGER NOT NULL,
        digest INTEGER NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT;
";

/// The views for people: `select * from leases`, `select * from terms`. They omit lease ids, which
/// are secrets. They lag behind the log by about a second.
const VIEWS: &str = "
    CREATE VIEW leases AS
    SELECT namespace, lease, state, holder, owner, epoch,
        strftime('%Y-%m-%dT%H:%M:%fZ', granted_at_ms / 1000.0, 'unixepoch') AS granted_at,
        duration_ms, break_ms, lock_delay_ms, metadata, reserved_for, reserved_ms, without_store, revision
    FROM lease_rows;
    CREATE VIEW terms AS
    WITH ended AS (
        SELECT namespace, lease,
            json_extract(value, '$[0]') AS epoch, json_extract(value, '$[1]') AS holder,
            json_extract(value, '$[2]') AS began_at_ms, json_extract(value, '$[3]') AS ended_at_ms,
            json_extract(value, '$[4]') AS end, json_extract(value, '$[5]') AS reason,
            json_extract(value, '$[6]') AS owner, json_extract(value, '$[7]') AS without_store
        FROM term_rows, json_each(term_rows.terms)
    ), all_terms AS (
        SELECT * FROM ended
        UNION ALL
        SELECT namespace, lease, epoch, holder, granted_at_ms, NULL, NULL, NULL, owner, without_store FROM lease_rows
        WHERE state IN ('leased', 'breaking') AND NOT EXISTS (
            SELECT * FROM ended WHERE ended.namespace = lease_rows.namespace
                AND ended.lease = lease_rows.lease AND ended.epoch = lease_rows.epoch)
    )
    SELECT namespace, lease, epoch, holder, owner,
        strftime('%Y-%m-%dT%H:%M:%fZ', began_at_ms / 1000.0, 'unixepoch') AS began_at,
        strftime('%Y-%m-%dT%H:%M:%fZ', ended_at_ms / 1000.0, 'unixepoch') AS ended_at,
        end, reason, without_store
    FROM all_terms ORDER BY namespace, lease, epoch;
";

/// The time to wait while other connections lock the database.
const PATIENCE: Duration = Duration::from_secs(5);

/// The columns of `lease_rows` in the order of `batch::columns`, and the checksum over them.
macro_rules! lease_columns {
    () => {
        "namespace, lease, state, holder, owner, metadata, reserved_for, without_store, lease_id, retired, epoch, \
         granted_at_ms, duration_ms, break_ms, lock_delay_ms, reserved_ms, revision, crc"
    };
}

pub(super) const SELECT_LEASES: &str = concat!("SELECT ", lease_columns!(), " FROM lease_rows");

pub(super) const WRITE_LEASE: &str = concat!(
    "INSERT OR REPLACE INTO lease_rows (",
    lease_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
);

pub(super) const SELECT_LEASE_CRC: &str =
    "SELECT crc FROM lease_rows WHERE namespace = ?1 AND lease = ?2";

pub(super) const DELETE_LEASE: &str = "DELETE FROM lease_rows WHERE namespace = ?1 AND lease = ?2";

pub(super) const SELECT_META: &str =
    "SELECT revision, floors, row_count, digest, crc FROM meta WHERE id = 1";

const UPDATE_META: &str = "
    INSERT OR REPLACE INTO meta (id, revision, floors, row_count, digest, crc)
    VALUES (1, ?1, ?2, ?3, ?4, ?5)";

/// The row with the totals of all tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    /// The tables contain all changes up to this revision, and later changes of some leases.
    pub(super) revision: u64,
    /// The floors of deleted leases, and those that a restore set; in JSON.
    pub(super) floors: Floors,
    /// The number of rows in the tables, without this row and the batches.
    pub(super) row_count: u64,
    /// The exclusive or of the checksums of these rows.
    pub(super) digest: u32,
}

impl Meta {
    /// Adds an inserted row.
    pub(super) const fn add(&mut self, crc: u32) {
        self.digest ^= crc;
        self.row_count += 1;
    }

    /// Removes a row that was deleted, or that is to be replaced.
    pub(super) const fn remove(&mut self, crc: u32) {
        self.digest ^= crc;
        self.row_count = self.row_count.saturating_sub(1);
    }

    pub(super) fn crc(&self, floors: &str) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.revision.to_le_bytes());
        hasher.update(floors.as_bytes());
        hasher.update(&self.row_count.to_le_bytes());
        hasher.update(&self.digest.to_le_bytes());
        hasher.finalize()
    }

    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut update = connection.prepare_cached(UPDATE_META)?;
        // Names and numbers always have a form in JSON.
        let floors = serde_json::to_string(&self.floors).unwrap_or_default();
        let (rows, crc) = (self.row_count, self.crc(&floors));
        update.execute(params![self.revision, floors, rows, self.digest, crc])?;
        Ok(())
    }
}

/// Creates the database in one transaction, completely in the main file.
///
/// A start that was interrupted here left an empty database or none, and no marker. Then the
/// database is created again. A database with tables is never changed.
pub(super) fn create(path: &Path) -> Result<(), OpenError> {
    private().open(path).map_err(OpenError::io(path))?;
    let make = || -> rusqlite::Result<bool> {
        let connection = connect(path)?;
        let tables: u32 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if tables > 0 {
            let owner: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
            return Ok(owner == APPLICATION_ID);
        }
        let transaction = connection.unchecked_transaction()?;
        create_tables(&transaction, &StoreId::random(&mut OsRandom))?;
        transaction.commit()?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(true)
    };
    match make() {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::Database {
            path: path.into(),
            detail: "it belongs to another program, use another folder".into(),
        }),
        Err(error) => Err(broken(path, &error)),
    }
}

/// Creates the tables of a store with this id.
pub(super) fn create_tables(connection: &Connection, store: &StoreId) -> rusqlite::Result<()> {
    // SQLite checks the list of free pages only if the last object of the schema is not a view, so
    // the views come first.
    for sql in [
        VIEWS,
        TABLES,
        term_rows::TABLE,
        batch_log::TABLE,
        deleted::TABLE,
        documents::TABLE,
        identity::TABLE,
    ] {
        connection.execute_batch(sql)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    Meta::default().write(connection)?;
    identity::create(connection, store)
}

/// Opens a connection for reading while another connection writes.
pub(super) fn connect_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // The first read opens the write-ahead log. Later the process may have no file descriptor left
    // for it.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// Opens a connection for writing, with all settings for durability.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // The file exists. A file that vanishes meanwhile must not be created anew.
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_journal_mode(&connection, "wal")?;
    connection.execute_batch(
        "PRAGMA wal_autocheckpoint = 0;
         -- Room for what a checkpoint changes, in KiB.
         PRAGMA cache_size = -8192;",
    )?;
    // A statement is then prepared once, and not again for each value that is bound to it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Opens a connection to a copy that no store uses: one file, without a write-ahead log.
pub(super) fn connect_to_copy(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_journal_mode(&connection, "delete")?;
    Ok(connection)
}

fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // A store that refuses the file must leave it unchanged, also when it closes the file.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(PATIENCE)?;
    // Another program may have changed the file, so its content is not trusted.
    connection.execute_batch(
        "PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;
         PRAGMA synchronous = FULL;
         PRAGMA temp_store = MEMORY;",
    )?;
    Ok(connection)
}

fn set_journal_mode(connection: &Connection, mode: &str) -> rusqlite::Result<()> {
    let set = format!("PRAGMA journal_mode = {mode}");
    let is: String = connection.query_row(&set, [], |row| row.get(0))?;
    match is == mode {
        true => Ok(()),
        false => Err(rusqlite::Error::InvalidQuery),
    }
}

/// Converts an error while opening. The error is [`OpenError::Damaged`] if the database reports
/// damage.
pub(super) fn broken(path: &Path, error: &rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let (path, detail) = (path.to_owned(), error.to_string());
    let is_damage = match error {
        // The statements are valid for the tables of a store. If one is invalid, or a value has
        // another type, these are not the tables of a store.
        rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::FromSqlConversionFailure(..) => true,
        // An invalid statement is also an `SQLITE_ERROR`, if SQLite does not report the position of
        // the error.
        error => error.sqlite_error().is_some_and(|error| {
            matches!(error.code, DatabaseCorrupt | NotADatabase)
                || error.extended_code == rusqlite::ffi::SQLITE_ERROR
        }),
    };
    match is_damage {
        true => OpenError::Damaged { path, detail },
        false => OpenError::Database { path, detail },
    }
}

/// Returns the error for a row that a store did not write.
pub(super) fn corrupt(detail: impl Into<String>) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(detail.into()))
}
