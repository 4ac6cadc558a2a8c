//! The table `deleted`: the lease ids of ended terms of leases that were deleted.
//!
//! The rows are in the order of the deletions, and only the last ones are kept. A lease that is made again has
//! these ids in its own row; the row here stays until it is one of the oldest, and is not used.

use rusqlite::{Connection, Transaction, params};
use tenure_core::lease::LeaseId;

use super::schema::Meta;
use crate::engine::batch::{DeletedLease, put, put_number, put_text};
use crate::model::{DELETED_LIMIT, LeaseKey};

/// `retired` has lease ids, one after the other, oldest first.
pub(super) const TABLE: &str = "
    CREATE TABLE deleted (
        number INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        retired BLOB NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT;
";

const INSERT: &str =
    "INSERT INTO deleted (number, namespace, lease, retired, crc) VALUES (?1, ?2, ?3, ?4, ?5)";

const SELECT_ALL: &str =
    "SELECT number, namespace, lease, retired, crc FROM deleted ORDER BY number";

const SELECT_LAST: &str = "SELECT coalesce(max(number), 0) FROM deleted";

const FORGET: &str = "DELETE FROM deleted WHERE number <= ?1 RETURNING crc";

/// How many rows a page has at least, where names are short.
const ROWS_IN_A_PAGE: usize = 16;

/// Inserts deletions, and forgets the oldest beyond [`DELETED_LIMIT`]. Returns how many pages that takes.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    deletions: &[DeletedLease<'_>],
) -> rusqlite::Result<usize> {
    let with_ids = || {
        deletions
            .iter()
            .filter(|deleted| !deleted.retired.is_empty())
    };
    let count = with_ids().count();
    if count == 0 {
        return Ok(0);
    }
    let mut insert = transaction.prepare_cached(INSERT)?;
    let mut last: u64 = transaction.query_row(SELECT_LAST, [], |row| row.get(0))?;
    for deleted in with_ids() {
        last += 1;
        let DeletedLease {
            namespace,
            lease,
            retired,
            ..
        } = *deleted;
        let crc = crc(last, (namespace, lease), retired);
        insert.execute(params![last, namespace, lease, retired, crc])?;
        meta.account(None, Some(crc));
    }
    let mut forget = transaction.prepare_cached(FORGET)?;
    let mut rows = forget.query([last.saturating_sub(DELETED_LIMIT as u64)])?;
    while let Some(row) = rows.next()? {
        meta.account(Some(row.get(0)?), None);
    }
    Ok(count.div_ceil(ROWS_IN_A_PAGE))
}

/// All rows. Each matches its checksum.
pub(super) fn read(
    connection: &Connection,
    counted: &mut Meta,
) -> Result<Vec<(LeaseKey, Vec<LeaseId>)>, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let mut deleted = Vec::new();
    let mut select = connection.prepare(SELECT_ALL).map_err(text)?;
    let mut rows = select.query([]).map_err(text)?;
    while let Some(row) = rows.next().map_err(text)? {
        let read = || {
            rusqlite::Result::Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        };
        let (number, namespace, lease, retired, stands): (u64, String, String, Vec<u8>, u32) =
            read().map_err(text)?;
        if crc(number, (&namespace, &lease), &retired) != stands {
            return Err(format!(
                "the row of the deleted {namespace:?}/{lease:?} does not match its checksum"
            ));
        }
        counted.account(None, Some(stands));
        let row = DeletedLease {
            namespace: &namespace,
            lease: &lease,
            last: None,
            retired: &retired,
        };
        deleted.push(row.left()?);
    }
    Ok(deleted)
}

fn crc(number: u64, (namespace, lease): (&str, &str), retired: &[u8]) -> u32 {
    let mut bytes = Vec::with_capacity(256);
    put_number(&mut bytes, Some(number));
    put_text(&mut bytes, namespace);
    put_text(&mut bytes, lease);
    put(&mut bytes, Some(retired));
    crc32fast::hash(&bytes)
}
