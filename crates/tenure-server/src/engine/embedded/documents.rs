//! The table `documents`: what other protocols keep in the store.
//!
//! An append writes documents at once, in the transaction of its batch, so a batch has none of them.

use axum::body::Bytes;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::schema::Meta;
use crate::engine::Document;
use crate::engine::batch::{put_number, put_text};
use crate::model::{ChangeSet, DocumentChange};

/// A start creates it, because a database from before it has none.
pub(super) const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS documents (
        name TEXT PRIMARY KEY,
        revision INTEGER NOT NULL,
        content BLOB NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT;
";

const EXISTS: &str = "SELECT count(*) FROM sqlite_schema WHERE name = 'documents'";

const INSERT: &str = "INSERT INTO documents (name, revision, content, crc) VALUES (?1, ?2, ?3, ?4)";

const SELECT_ALL: &str = "SELECT name, revision, content, crc FROM documents";

const DELETE: &str = "DELETE FROM documents WHERE name = ?1 RETURNING crc";

/// Writes and deletes documents. The caller writes `meta`.
pub(super) fn write(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    sets: &[ChangeSet],
) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare_cached(DELETE)?;
    let mut insert = transaction.prepare_cached(INSERT)?;
    for change in sets.iter().flat_map(|set| &set.documents) {
        let DocumentChange { name, revision, .. } = change;
        let old = delete.query_row([name], |row| row.get(0)).optional()?;
        let new = match &change.content {
            Some(content) => {
                let crc = crc(name, *revision, content);
                insert.execute(params![name, revision, &**content, crc])?;
                Some(crc)
            }
            None => None,
        };
        meta.account(old, new);
    }
    Ok(())
}

/// All documents. Each matches its checksum.
pub(super) fn read(connection: &Connection, counted: &mut Meta) -> Result<Vec<Document>, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let mut documents = Vec::new();
    let exists: bool = connection
        .query_row(EXISTS, [], |row| row.get(0))
        .map_err(text)?;
    if !exists {
        return Ok(documents);
    }
    let mut select = connection.prepare(SELECT_ALL).map_err(text)?;
    let mut rows = select.query([]).map_err(text)?;
    while let Some(row) = rows.next().map_err(text)? {
        let read = || {
            let document = Document {
                name: row.get(0)?,
                revision: row.get(1)?,
                content: Bytes::from(row.get::<_, Vec<u8>>(2)?),
            };
            rusqlite::Result::Ok((document, row.get(3)?))
        };
        let (document, stored) = read().map_err(text)?;
        if crc(&document.name, document.revision, &document.content) != stored {
            let name = document.name;
            return Err(format!("the document {name:?} does not match its checksum"));
        }
        counted.account(None, Some(stored));
        documents.push(document);
    }
    Ok(documents)
}

fn crc(name: &str, revision: u64, content: &[u8]) -> u32 {
    let mut head = Vec::with_capacity(256);
    put_text(&mut head, name);
    put_number(&mut head, Some(revision));
    put_number(&mut head, Some(content.len() as u64));
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head);
    sum.update(content);
    sum.finalize()
}
