//! Rows with checksums.

use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Params, Row, ToSql, params_from_iter};

use super::PAGE;
use super::schema::Meta;
use crate::engine::batch::{Column, put};

impl ToSql for Column<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Null => Null.to_sql(),
            Self::Number(number) => number.to_sql(),
            Self::Text(text) => text.to_sql(),
            Self::Bytes(bytes) => bytes.to_sql(),
            Self::Ids(ids) => {
                let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_bytes()).collect();
                Ok(bytes.into())
            }
            Self::LastText(text) => text.to_sql(),
        }
    }
}

/// Writes a row with these columns and their checksum, and adds it to the totals. Returns the
/// maximum number of pages that the row takes.
pub(super) fn write(
    connection: &Connection,
    meta: &mut Meta,
    sql: &str,
    columns: &[Column<'_>],
) -> rusqlite::Result<usize> {
    let mut bytes = Vec::with_capacity(1024);
    put(&mut bytes, columns);
    let crc = crc32fast::hash(&bytes);
    let last = [Column::Number(crc.into())];
    let mut insert = connection.prepare_cached(sql)?;
    insert.execute(params_from_iter(columns.iter().chain(&last)))?;
    meta.add(crc);
    Ok(1 + bytes.len() / PAGE)
}

/// Deletes rows with a statement that returns their checksums, and subtracts them from the totals.
/// Returns the number of rows.
pub(super) fn delete(
    connection: &Connection,
    meta: &mut Meta,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<usize> {
    let mut delete = connection.prepare_cached(sql)?;
    let mut deleted = delete.query(params)?;
    let mut rows = 0;
    while let Some(row) = deleted.next()? {
        meta.remove(row.get(0)?);
        rows += 1;
    }
    Ok(rows)
}

/// Encodes the first columns of a row.
pub(super) fn encoded(row: &Row<'_>, count: usize) -> rusqlite::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1024);
    encode(row, count, &mut bytes)?;
    Ok(bytes)
}

/// Appends the encoding of the first columns of a row.
pub(super) fn encode(row: &Row<'_>, count: usize, bytes: &mut Vec<u8>) -> rusqlite::Result<()> {
    for index in 0..count {
        let column = match row.get_ref(index)? {
            ValueRef::Null | ValueRef::Real(_) => Column::Null,
            ValueRef::Integer(number) => Column::Number(number.cast_unsigned()),
            ValueRef::Text(value) | ValueRef::Blob(value) => Column::Bytes(value),
        };
        put(bytes, &[column]);
    }
    Ok(())
}

/// Returns the name of the lease in the columns from `first` on, for a message.
pub(super) fn name(row: &Row<'_>, first: usize) -> rusqlite::Result<String> {
    let (namespace, lease): (String, String) = (row.get(first)?, row.get(first + 1)?);
    Ok(format!("{namespace:?}/{lease:?}"))
}
