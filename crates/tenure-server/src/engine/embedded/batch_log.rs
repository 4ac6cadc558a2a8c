//! The table `batches`, which is the log.
//!
//! An append writes one row with the whole batch. One change takes a page or two, and many changes
//! take no more room than their bytes. An update of the tables would instead write a page per lease
//! and one per term.

use rusqlite::{Connection, params};

use super::schema::corrupt;
use crate::engine::Batch;

/// The definition of the table. `previous` is the revision that the batch follows.
pub(super) const TABLE: &str = "
    CREATE TABLE batches (
        revision INTEGER PRIMARY KEY,
        previous INTEGER NOT NULL,
        changes BLOB NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT;
";

/// Inserts the batch only if it follows the last one. If the table has no batch, the other tables
/// contain everything up to the revision in `meta`.
const APPEND: &str = "
    INSERT INTO batches (revision, previous, changes, crc)
    SELECT ?1, ?2, ?3, ?4 WHERE ?2 = coalesce(
        (SELECT max(revision) FROM batches), (SELECT revision FROM meta WHERE id = 1))";

const SELECT: &str =
    "SELECT revision, previous, changes, crc FROM batches WHERE previous >= ?1 ORDER BY revision";

const DELETE_UP_TO: &str = "DELETE FROM batches WHERE revision <= ?1";

/// Appends a batch. Returns whether it follows the last one; if not, nothing was written.
pub(super) fn append(connection: &Connection, batch: &Batch) -> rusqlite::Result<bool> {
    let mut append = connection.prepare_cached(APPEND)?;
    let rows = append.execute(params![
        batch.revision,
        batch.previous,
        batch.changes,
        batch.crc()
    ])?;
    Ok(rows == 1)
}

/// Reads all batches that follow this revision, in order, and checks their checksums.
pub(super) fn read(connection: &Connection, after: u64) -> rusqlite::Result<Vec<Batch>> {
    let mut select = connection.prepare_cached(SELECT)?;
    let batches = select.query_and_then([after], |row| {
        let batch = Batch {
            revision: row.get(0)?,
            previous: row.get(1)?,
            changes: row.get(2)?,
        };
        match batch.crc() == row.get::<_, u32>(3)? {
            true => Ok(batch),
            false => Err(corrupt(format!(
                "the batch up to revision {} does not match its checksum",
                batch.revision
            ))),
        }
    })?;
    batches.collect()
}

/// Deletes the batches up to this revision.
pub(super) fn delete_up_to(connection: &Connection, revision: u64) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached(DELETE_UP_TO)?;
    delete.execute([revision])?;
    Ok(())
}
