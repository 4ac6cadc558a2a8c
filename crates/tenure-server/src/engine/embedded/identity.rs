//! The table `identity`: the id of the store, which its backups keep.

use rusqlite::{Connection, OptionalExtension as _};

use super::schema::corrupt;
use crate::model::StoreId;

/// The definition of the table.
pub(super) const TABLE: &str = "
    CREATE TABLE identity (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        store TEXT NOT NULL
    ) STRICT;
";

/// Writes the id of a new store.
pub(super) fn create(connection: &Connection, id: &StoreId) -> rusqlite::Result<()> {
    let insert = "INSERT INTO identity (id, store) VALUES (1, ?1)";
    connection.execute(insert, [id.as_str()]).map(|_| ())
}

pub(super) fn read(connection: &Connection) -> rusqlite::Result<StoreId> {
    let select = "SELECT store FROM identity WHERE id = 1";
    let text: Option<String> = connection
        .query_row(select, [], |row| row.get(0))
        .optional()?;
    let text = text.ok_or_else(|| corrupt("it has no id of the store"))?;
    StoreId::parse(&text).ok_or_else(|| corrupt("the id of the store is not 32 hexadecimal digits"))
}
