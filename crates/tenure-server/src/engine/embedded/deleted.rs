//! The table `deleted`: the lease ids of ended terms of leases that were deleted.
//!
//! The rows are in the order of the deletions, and only the newest are kept. A lease that is
//! created again has these ids in its own row. The row here is then unused, and stays until it is
//! one of the oldest.

use rusqlite::Connection;
use tenure_core::lease::LeaseId;

use super::rows;
use super::schema::{Meta, corrupt};
use crate::engine::batch::{Column, Columns, DecodeError};
use crate::model::{DELETED_LIMIT, LeaseKey};

/// The definition of the table. `retired` contains lease ids, oldest first.
pub(super) const TABLE: &str = "
    CREATE TABLE deleted (
        number INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        retired BLOB NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT;
";

const INSERT: &str = "INSERT INTO deleted VALUES (?1, ?2, ?3, ?4, ?5)";

const SELECT_ALL: &str =
    "SELECT number, namespace, lease, retired, crc FROM deleted ORDER BY number";

const SELECT_LAST: &str = "SELECT coalesce(max(number), 0) FROM deleted";

const FORGET: &str = "DELETE FROM deleted WHERE number <= ?1 RETURNING crc";

/// Inserts a deleted lease with its ids, if it has any, and forgets the oldest rows beyond
/// [`DELETED_LIMIT`].
pub(super) fn insert(
    connection: &Connection,
    meta: &mut Meta,
    key: &LeaseKey,
    retired: &[LeaseId],
) -> rusqlite::Result<()> {
    if retired.is_empty() {
        return Ok(());
    }
    let mut select = connection.prepare_cached(SELECT_LAST)?;
    let number = 1 + select.query_row([], |row| row.get::<_, u64>(0))?;
    let columns = [
        number.into(),
        key.namespace().into(),
        key.lease().into(),
        Column::Ids(retired),
    ];
    rows::write(connection, meta, INSERT, &columns)?;
    let oldest = [number.saturating_sub(DELETED_LIMIT as u64)];
    rows::delete(connection, meta, FORGET, oldest)?;
    Ok(())
}

/// Reads all rows and checks their checksums.
pub(super) fn read(
    connection: &Connection,
    counted: &mut Meta,
) -> rusqlite::Result<Vec<(LeaseKey, Vec<LeaseId>)>> {
    let mut deleted = Vec::new();
    let mut select = connection.prepare(SELECT_ALL)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (bytes, crc) = (rows::encoded(row, 4)?, row.get(4)?);
        if crc32fast::hash(&bytes) != crc {
            let name = rows::name(row, 1)?;
            let detail = format!("the row of the deleted {name} does not match its checksum");
            return Err(corrupt(detail));
        }
        counted.add(crc);
        match decode(&mut Columns(&bytes)) {
            Ok(lease) => deleted.push(lease),
            Err(_) => {
                let name = rows::name(row, 1)?;
                return Err(corrupt(format!("the deleted lease {name} is not valid")));
            }
        }
    }
    Ok(deleted)
}

fn decode(columns: &mut Columns<'_>) -> Result<(LeaseKey, Vec<LeaseId>), DecodeError> {
    columns.number("number")?;
    Ok((columns.key()?, columns.ids("retired")?))
}
