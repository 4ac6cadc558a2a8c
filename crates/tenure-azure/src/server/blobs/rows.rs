//! The tables: containers and blobs, each row with a checksum, and a row about all of them.

use std::path::Path;
use std::sync::Arc;

use axum::body::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::catalog::{Blob, BlobChange, Body, Catalog, ContentHeaders, Stamp, Version};
use super::disk::open_error;
use crate::server::headers::Metadata;
use tenure_server::OpenError;

/// "tenb", which no other program uses for its databases.
const APPLICATION_ID: i32 = 0x7465_6e62;

const FORMAT: u32 = 1;

/// Metadata and content headers are JSON objects. `length` is set for page blobs, which have no
/// body.
const TABLES: &str = "
    CREATE TABLE containers (
        account TEXT NOT NULL,
        container TEXT NOT NULL,
        number INTEGER NOT NULL,
        modified_at_ms INTEGER NOT NULL,
        metadata TEXT NOT NULL,
        crc INTEGER NOT NULL,
        PRIMARY KEY (account, container)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE blobs (
        account TEXT NOT NULL,
        container TEXT NOT NULL,
        blob TEXT NOT NULL,
        number INTEGER NOT NULL,
        modified_at_ms INTEGER NOT NULL,
        created_number INTEGER NOT NULL,
        created_at_ms INTEGER NOT NULL,
        length INTEGER,
        body BLOB,
        content TEXT NOT NULL,
        metadata TEXT NOT NULL,
        crc INTEGER NOT NULL,
        PRIMARY KEY (account, container, blob)
    ) STRICT;
    CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        number INTEGER NOT NULL,
        row_count INTEGER NOT NULL,
        digest INTEGER NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT;
";

/// The row about all other rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    /// The greatest number of a change.
    pub(super) number: u64,
    row_count: u64,
    /// All rows' checksums, xor.
    digest: u32,
}

impl Meta {
    fn crc(self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.number.to_le_bytes());
        hasher.update(&self.row_count.to_le_bytes());
        hasher.update(&self.digest.to_le_bytes());
        hasher.finalize()
    }

    pub(super) fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        let put = "INSERT OR REPLACE INTO meta (id, number, row_count, digest, crc) \
                   VALUES (1, ?1, ?2, ?3, ?4)";
        connection.prepare_cached(put)?.execute(params![
            self.number,
            self.row_count,
            self.digest,
            self.crc()
        ])?;
        Ok(())
    }
}

/// Whether the database has no tables yet: it is new, or the first start was interrupted.
pub(super) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let count = "SELECT count(*) FROM sqlite_schema";
    connection.query_row(count, [], |row| Ok(row.get::<_, u32>(0)? == 0))
}

pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    Meta::default().write(&transaction)?;
    transaction.commit()
}

pub(super) fn write(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    stamp: Stamp,
    change: &BlobChange,
) -> rusqlite::Result<()> {
    match change {
        BlobChange::PutContainer {
            account,
            container,
            metadata,
        } => {
            let old = "SELECT crc FROM containers WHERE account = ?1 AND container = ?2";
            forget(transaction, meta, old, [account, container])?;
            let metadata = json(metadata);
            let crc = container_crc(account, container, stamp, &metadata);
            let put = "INSERT OR REPLACE INTO containers (account, container, number, \
                       modified_at_ms, metadata, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            transaction.prepare_cached(put)?.execute(params![
                account,
                container,
                stamp.number,
                stamp.wall_ms,
                metadata,
                crc
            ])?;
            remember(meta, crc);
        }
        BlobChange::DeleteContainer { account, container } => {
            for table in ["containers", "blobs"] {
                let of = "WHERE account = ?1 AND container = ?2";
                let old = format!("SELECT crc FROM {table} {of}");
                forget(transaction, meta, &old, [account, container])?;
                let delete = format!("DELETE FROM {table} {of}");
                transaction.execute(&delete, [account, container])?;
            }
        }
        BlobChange::PutBlob {
            account,
            container,
            name,
            blob,
        } => {
            let old = "SELECT crc FROM blobs WHERE account = ?1 AND container = ?2 AND blob = ?3";
            forget(transaction, meta, old, [account, container, name])?;
            let row = BlobRow::of(blob);
            let crc = row.crc([account, container, name]);
            let put = "INSERT OR REPLACE INTO blobs (account, container, blob, number, \
                       modified_at_ms, created_number, created_at_ms, length, body, content, \
                       metadata, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
            transaction.prepare_cached(put)?.execute(params![
                account,
                container,
                name,
                row.stamp.number,
                row.stamp.wall_ms,
                row.created.number,
                row.created.wall_ms,
                row.length,
                row.body.as_deref(),
                row.content,
                row.metadata,
                crc
            ])?;
            remember(meta, crc);
        }
        BlobChange::DeleteBlob {
            account,
            container,
            name,
        } => {
            let of = "WHERE account = ?1 AND container = ?2 AND blob = ?3";
            let old = format!("SELECT crc FROM blobs {of}");
            forget(transaction, meta, &old, [account, container, name])?;
            let delete = format!("DELETE FROM blobs {of}");
            transaction.execute(&delete, [account, container, name])?;
        }
    }
    Ok(())
}

/// Removes the checksums of rows that are deleted or replaced.
fn forget<const N: usize>(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    select: &str,
    names: [&String; N],
) -> rusqlite::Result<()> {
    let mut select = transaction.prepare_cached(select)?;
    let rows = select.query_map(rusqlite::params_from_iter(names), |row| {
        row.get::<_, u32>(0)
    })?;
    for crc in rows {
        meta.digest ^= crc?;
        meta.row_count = meta.row_count.saturating_sub(1);
    }
    Ok(())
}

fn remember(meta: &mut Meta, crc: u32) {
    meta.digest ^= crc;
    meta.row_count += 1;
}

/// The columns of a blob without its names.
struct BlobRow {
    stamp: Stamp,
    created: Stamp,
    length: Option<u64>,
    body: Option<Bytes>,
    content: String,
    metadata: String,
}

impl BlobRow {
    fn of(blob: &Blob) -> Self {
        let (length, body) = match &blob.body {
            Body::Block(bytes) => (None, Some(bytes.clone())),
            Body::Page(length) => (Some(*length), None),
        };
        Self {
            stamp: blob.version.stamp,
            created: blob.created,
            length,
            body,
            content: json(&blob.content.0),
            metadata: json(&blob.metadata),
        }
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            stamp: Stamp {
                number: row.get(3)?,
                wall_ms: row.get(4)?,
            },
            created: Stamp {
                number: row.get(5)?,
                wall_ms: row.get(6)?,
            },
            length: row.get(7)?,
            body: row.get::<_, Option<Vec<u8>>>(8)?.map(Bytes::from),
            content: row.get(9)?,
            metadata: row.get(10)?,
        })
    }

    fn crc(&self, names: [&String; 3]) -> u32 {
        let mut checksum = Checksum::default();
        for name in names {
            checksum.bytes(name.as_bytes());
        }
        checksum.stamp(self.stamp);
        checksum.stamp(self.created);
        checksum.bytes(&self.length.unwrap_or(u64::MAX).to_le_bytes());
        checksum.bytes(self.body.as_deref().unwrap_or_default());
        checksum.bytes(self.content.as_bytes());
        checksum.bytes(self.metadata.as_bytes());
        checksum.0.finalize()
    }

    fn into_blob(self) -> Option<Blob> {
        let body = match (self.body, self.length) {
            (Some(body), None) => Body::Block(body),
            (None, Some(length)) => Body::Page(length),
            _ => return None,
        };
        Some(Blob {
            version: Version::new(self.stamp),
            created: self.created,
            body,
            blocks: Arc::default(),
            content: ContentHeaders(serde_json::from_str(&self.content).ok()?),
            metadata: serde_json::from_str(&self.metadata).ok()?,
        })
    }
}

fn container_crc(account: &str, container: &str, stamp: Stamp, metadata: &str) -> u32 {
    let mut checksum = Checksum::default();
    checksum.bytes(account.as_bytes());
    checksum.bytes(container.as_bytes());
    checksum.stamp(stamp);
    checksum.bytes(metadata.as_bytes());
    checksum.0.finalize()
}

/// The checksum covers the length of each part, so that no byte can move from one part to the next.
#[derive(Default)]
struct Checksum(crc32fast::Hasher);

impl Checksum {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn stamp(&mut self, stamp: Stamp) {
        self.bytes(&stamp.number.to_le_bytes());
        self.bytes(&stamp.wall_ms.to_le_bytes());
    }
}

fn json(pairs: &Metadata) -> String {
    serde_json::to_string(pairs).unwrap_or_default()
}

/// Reads all rows, and checks each row and all together.
pub(super) fn load(connection: &Connection, path: &Path) -> Result<(Meta, Catalog), OpenError> {
    let broken = |error: rusqlite::Error| open_error(path, &error);
    let damaged = |detail: &str| OpenError::Damaged {
        path: path.into(),
        detail: detail.into(),
    };
    let pragma = |name: &str| -> rusqlite::Result<i64> {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
    };
    if pragma("application_id").map_err(broken)? != i64::from(APPLICATION_ID) {
        return Err(damaged("it belongs to another program"));
    }
    match u32::try_from(pragma("user_version").map_err(broken)?) {
        Ok(FORMAT) => {}
        Ok(found) if found > FORMAT => {
            return Err(OpenError::Newer {
                path: path.into(),
                found,
                known: FORMAT,
            });
        }
        _ => return Err(damaged("it has no format")),
    }
    let mut found = Meta::default();
    let mut catalog = Catalog::default();
    let mut read = || -> rusqlite::Result<Option<&'static str>> {
        let mut select = connection.prepare(
            "SELECT account, container, number, modified_at_ms, metadata, crc FROM containers",
        )?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (account, container): (String, String) = (row.get(0)?, row.get(1)?);
            let stamp = Stamp {
                number: row.get(2)?,
                wall_ms: row.get(3)?,
            };
            let metadata: String = row.get(4)?;
            let crc = container_crc(&account, &container, stamp, &metadata);
            let Ok(metadata) = serde_json::from_str(&metadata) else {
                return Ok(Some("a container's metadata are none"));
            };
            if crc != row.get::<_, u32>(5)? {
                return Ok(Some("a container does not fit its checksum"));
            }
            remember(&mut found, crc);
            catalog.apply(
                stamp,
                BlobChange::PutContainer {
                    account,
                    container,
                    metadata,
                },
            );
        }
        let mut select = connection.prepare(
            "SELECT account, container, blob, number, modified_at_ms, created_number, \
             created_at_ms, length, body, content, metadata, crc FROM blobs",
        )?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (account, container): (String, String) = (row.get(0)?, row.get(1)?);
            let name: String = row.get(2)?;
            let columns = BlobRow::read(row)?;
            let crc = columns.crc([&account, &container, &name]);
            if crc != row.get::<_, u32>(11)? {
                return Ok(Some("a blob does not fit its checksum"));
            }
            remember(&mut found, crc);
            let stamp = columns.stamp;
            let Some(blob) = columns.into_blob() else {
                return Ok(Some("a blob's columns don't fit together"));
            };
            if catalog.container(&account, &container).is_none() {
                return Ok(Some("a blob has no container"));
            }
            catalog.apply(
                stamp,
                BlobChange::PutBlob {
                    account,
                    container,
                    name,
                    blob: Arc::new(blob),
                },
            );
        }
        Ok(None)
    };
    if let Some(detail) = read().map_err(broken)? {
        return Err(damaged(detail));
    }
    let meta = connection.query_row(
        "SELECT number, row_count, digest, crc FROM meta WHERE id = 1",
        [],
        |row| {
            let meta = Meta {
                number: row.get(0)?,
                row_count: row.get(1)?,
                digest: row.get(2)?,
            };
            Ok((meta, row.get::<_, u32>(3)?))
        },
    );
    let Some((meta, crc)) = meta.optional().map_err(broken)? else {
        return Err(damaged("the row about all others is missing"));
    };
    if meta.crc() != crc {
        return Err(damaged(
            "the row about all others does not fit its checksum",
        ));
    }
    if (meta.row_count, meta.digest) != (found.row_count, found.digest) {
        return Err(damaged("rows are missing, or too many"));
    }
    catalog.last.number = catalog.last.number.max(meta.number);
    Ok((meta, catalog))
}
