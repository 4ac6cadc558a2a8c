//! Reads and checks the whole database.

use std::collections::{BTreeSet, LinkedList};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};
use tenure_core::Epoch;

use super::folder::FORMAT;
use super::schema::{APPLICATION_ID, Meta, SELECT_ALL, SELECT_META, broken};
use super::term_rows::Segment;
use super::{batch_log, deleted, documents, lease_rows, term_rows};
use crate::engine::batch::{key_of, replay};
use crate::engine::{Loaded, OpenError};
use crate::model::LeaseKey;

/// A database that is as a store wrote it.
pub(super) struct Checked {
    pub(super) loaded: Loaded,
    /// The row about all tables.
    pub(super) meta: Meta,
    /// Leases with more terms than the store remembers.
    pub(super) over_limit: BTreeSet<LeaseKey>,
}

/// The tables and the batches of a database that no store uses.
pub(super) fn load(connection: &Connection, path: &Path) -> Result<Checked, OpenError> {
    let mut checked = load_tables(connection, path, usize::MAX)?;
    let batches = batch_log::read(connection, checked.meta.revision);
    let replayed = batches.and_then(|batches| replay(&batches, &mut checked.loaded));
    replayed.map_err(|detail| damaged(path, detail))?;
    Ok(checked)
}

/// Everything in the tables, if all of it is as a store wrote it. The terms are checked and not loaded.
pub(super) fn load_tables(
    connection: &Connection,
    path: &Path,
    max_history: usize,
) -> Result<Checked, OpenError> {
    let failed = |error: rusqlite::Error| broken(path, &error);
    check_owner(connection, path)?;
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    if verdict != "ok" {
        return Err(damaged(path, verdict));
    }
    let meta = read_meta(connection, path)?;
    let mut counted = Meta {
        row_count: 0,
        digest: 0,
        ..meta.clone()
    };
    let mut leases = LinkedList::new();
    let mut select = connection.prepare(SELECT_ALL).map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let (fields, crc) =
            lease_rows::read(row).map_err(|error| damaged(path, error.to_string()))?;
        if fields.crc() != crc {
            let detail = format!("the row of {} does not match its checksum", fields.name());
            return Err(damaged(path, detail));
        }
        counted.account(None, Some(crc));
        let lease = fields.into_lease();
        leases.push_back(lease.map_err(|detail| damaged(path, detail))?);
    }
    let damage = |detail| damaged(path, detail);
    let over_limit = check_terms(connection, path, &mut counted, max_history)?;
    let deleted = deleted::read(connection, &mut counted).map_err(damage)?;
    let documents = documents::read(connection, &mut counted).map_err(damage)?;
    if counted != meta {
        let detail = format!(
            "it has {} rows and should have {}, or has other rows",
            counted.row_count, meta.row_count
        );
        return Err(damaged(path, detail));
    }
    let loaded = Loaded {
        leases,
        deleted,
        revision: meta.revision,
        floor: meta.floor,
        documents,
    };
    Ok(Checked {
        loaded,
        meta,
        over_limit,
    })
}

/// Checks all terms, segment by segment: they are many, and the table needs none of them.
fn check_terms(
    connection: &Connection,
    path: &Path,
    counted: &mut Meta,
    max_history: usize,
) -> Result<BTreeSet<LeaseKey>, OpenError> {
    let failed = |error: rusqlite::Error| broken(path, &error);
    let damage = |detail| damaged(path, detail);
    let mut over_limit = BTreeSet::new();
    let mut select = connection.prepare(term_rows::SELECT_ALL).map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    let (mut namespace, mut lease, mut segments) = (String::new(), String::new(), 0);
    while let Some(row) = rows.next().map_err(failed)? {
        let segment = Segment::read(row).map_err(damage)?;
        counted.account(None, Some(segment.crc));
        if (&segment.namespace, &segment.lease) != (&namespace, &lease) {
            namespace.clone_from(&segment.namespace);
            lease.clone_from(&segment.lease);
            segments = 0;
        }
        segments += 1;
        // They come in the order of their epochs, so the last one is the newest segment.
        let key = key_of((&namespace, &lease)).map_err(damage)?;
        match segments > term_rows::segments(segment.count, max_history) {
            true => over_limit.insert(key),
            false => over_limit.remove(&key),
        };
    }
    Ok(over_limit)
}

/// The database belongs to a store, and has the format that this version knows.
fn check_owner(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let number = |pragma: &str| {
        connection
            .query_row(pragma, [], |row| row.get::<_, i64>(0))
            .map_err(|error| broken(path, &error))
    };
    if number("PRAGMA application_id")? != i64::from(APPLICATION_ID) {
        return Err(damaged(path, "it belongs to another program"));
    }
    let found = number("PRAGMA user_version")?;
    match u32::try_from(found) {
        Ok(FORMAT) => Ok(()),
        Ok(found) if found > FORMAT => Err(OpenError::Newer {
            path: path.into(),
            found,
            known: FORMAT,
        }),
        _ => Err(damaged(path, format!("it has the unknown format {found}"))),
    }
}

fn read_meta(connection: &Connection, path: &Path) -> Result<Meta, OpenError> {
    let read = |row: &rusqlite::Row<'_>| {
        let floor: Option<u64> = row.get(1)?;
        let meta = Meta {
            revision: row.get(0)?,
            floor: floor.and_then(Epoch::new),
            row_count: row.get(2)?,
            digest: row.get(3)?,
        };
        Ok((meta, row.get::<_, u32>(4)?))
    };
    match connection.query_row(SELECT_META, [], read).optional() {
        Ok(Some((meta, crc))) if meta.crc() == crc => Ok(meta),
        Ok(Some(_)) => Err(damaged(
            path,
            "the row about the whole does not match its checksum",
        )),
        Ok(None) => Err(damaged(path, "the row about the whole is missing")),
        Err(error) => Err(damaged(path, error.to_string())),
    }
}

fn damaged(path: &Path, detail: impl Into<String>) -> OpenError {
    OpenError::Damaged {
        path: path.into(),
        detail: detail.into(),
    }
}
