//! The table `documents`: data that other protocols keep in the store.
//!
//! An append writes documents directly to this table, in the transaction of its batch. A batch
//! therefore contains no documents.

use axum::body::Bytes;
use rusqlite::Connection;

use super::rows;
use super::schema::{Meta, corrupt};
use crate::engine::Document;
use crate::engine::batch::Column;
use crate::model::ChangeSet;

/// The definition of the table. It has no row id, so the table is its only index: SQLite's quick
/// check does not compare an index with its table.
pub(super) const TABLE: &str = "
    CREATE TABLE documents (
        name TEXT PRIMARY KEY,
        revision INTEGER NOT NULL,
        content BLOB NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

const INSERT: &str = "INSERT INTO documents (name, revision, content, crc) VALUES (?1, ?2, ?3, ?4)";

const SELECT_ALL: &str = "SELECT name, revision, content, crc FROM documents";

const DELETE: &str = "DELETE FROM documents WHERE name = ?1 RETURNING crc";

/// Writes and deletes documents. The caller writes `meta`. Returns the maximum number of pages that
/// the documents take.
pub(super) fn write(
    connection: &Connection,
    meta: &mut Meta,
    sets: &[ChangeSet],
) -> rusqlite::Result<usize> {
    let mut pages = 0;
    for change in sets.iter().flat_map(|set| &set.documents) {
        let name = change.name.as_str();
        pages += rows::delete(connection, meta, DELETE, [name])?;
        if let Some(content) = &change.content {
            let columns = [name.into(), change.revision.into(), Column::Bytes(content)];
            pages += rows::write(connection, meta, INSERT, &columns)?;
        }
    }
    Ok(pages)
}

/// Reads all documents and checks their checksums.
pub(super) fn read(connection: &Connection, counted: &mut Meta) -> rusqlite::Result<Vec<Document>> {
    let mut documents = Vec::new();
    let mut select = connection.prepare(SELECT_ALL)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let document = Document {
            name: row.get(0)?,
            revision: row.get(1)?,
            content: Bytes::from(row.get::<_, Vec<u8>>(2)?),
        };
        let crc = row.get(3)?;
        if crc32fast::hash(&rows::encoded(row, 3)?) != crc {
            let detail = format!(
                "the document {:?} does not match its checksum",
                document.name
            );
            return Err(corrupt(detail));
        }
        counted.add(crc);
        documents.push(document);
    }
    Ok(documents)
}
