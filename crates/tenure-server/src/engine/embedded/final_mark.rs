//! The mark of a final backup: a table that only the file of such a backup has.
//!
//! The store was stopped for good before its final backup was made, so the backup lacks nothing. A
//! restore of it goes on where the store ended.

use rusqlite::{Connection, OptionalExtension as _};

/// Creates the mark. It names the last revision, so that it has no effect in a database to which
/// something was added later.
const MARK: &str = "
    CREATE TABLE final_backup (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        revision INTEGER NOT NULL
    ) STRICT;
";

const IS_THERE: &str =
    "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'final_backup'";

/// Marks the database, whose last revision is this one, as a final backup.
pub(super) fn write(connection: &Connection, revision: u64) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    remove(&transaction)?;
    transaction.execute_batch(MARK)?;
    let insert = "INSERT INTO final_backup (id, revision) VALUES (1, ?1)";
    transaction.execute(insert, [revision])?;
    transaction.commit()
}

/// Returns whether the database, whose last revision is this one, is a final backup.
pub(super) fn is_there(connection: &Connection, revision: u64) -> rusqlite::Result<bool> {
    let tables: u32 = connection.query_row(IS_THERE, [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(false);
    }
    let select = "SELECT revision FROM final_backup WHERE id = 1";
    let marked: Option<u64> = connection
        .query_row(select, [], |row| row.get(0))
        .optional()?;
    Ok(marked == Some(revision))
}

/// Removes the mark, if there is one.
pub(super) fn remove(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP TABLE IF EXISTS final_backup")
}
