//! Reads the whole database and believes none of it.

use std::collections::{BTreeSet, LinkedList};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};
use tenure_core::Epoch;

use super::folder::FORMAT;
use super::recent::Batches;
use super::row::Row;
use super::schema::{APPLICATION_ID, Meta, SELECT_ALL, SELECT_META, broken};
use super::{deleted, terms};
use crate::engine::{Loaded, OpenError};
use crate::table::Key;

/// A database all of which is as it was written.
pub(super) struct Checked {
    pub(super) loaded: Loaded,
    /// What stands there about all that is in its place.
    pub(super) meta: Meta,
    /// Leases with more terms than are to be remembered.
    pub(super) overfull: BTreeSet<Key>,
}

/// Everything in the database, if all of it is as it was written; but the terms, which are checked
/// and left there.
pub(super) fn load(
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
        let (row, crc) = Row::read(row).map_err(|error| damaged(path, error.to_string()))?;
        if row.crc() != crc {
            let detail = format!("the row of {} does not fit its checksum", row.name());
            return Err(damaged(path, detail));
        }
        counted.account(None, Some(crc));
        leases.push_back(row.into_lease().map_err(|detail| damaged(path, detail))?);
    }
    let damage = |detail| damaged(path, detail);
    let overfull = check_terms(connection, path, &mut counted, max_history)?;
    let batches = Batches::read(connection).map_err(damage)?;
    let deleted = deleted::read(connection, &mut counted).map_err(damage)?;
    if counted != meta {
        let detail = format!(
            "it has {} rows and should have {}, or other ones",
            counted.row_count, meta.row_count
        );
        return Err(damaged(path, detail));
    }
    let revision = batches.follow(meta.revision).map_err(damage)?;
    // A lease may be in its place as of a later revision than `meta` says, but not of one after all batches.
    if let Some((key, ..)) = leases.iter().find(|(.., newest)| *newest > revision) {
        let detail = format!("the row of {:?} is newer than the whole", key.as_str());
        return Err(damaged(path, detail));
    }
    let mut loaded = Loaded {
        leases,
        deleted,
        revision,
        floor: meta.floor,
    };
    // In their order, and after what is in its place.
    batches.apply(&mut loaded).map_err(damage)?;
    Ok(Checked {
        loaded,
        meta,
        overfull,
    })
}

/// Looks at all terms, segment by segment: they are many, and none is needed in memory.
fn check_terms(
    connection: &Connection,
    path: &Path,
    counted: &mut Meta,
    max_history: usize,
) -> Result<BTreeSet<Key>, OpenError> {
    let failed = |error: rusqlite::Error| broken(path, &error);
    let damage = |detail| damaged(path, detail);
    let mut overfull = BTreeSet::new();
    let mut select = connection.prepare(terms::SELECT_ALL).map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    let (mut namespace, mut lease, mut segments) = (String::new(), String::new(), 0);
    while let Some(row) = rows.next().map_err(failed)? {
        let segment = terms::Segment::read(row).map_err(damage)?;
        counted.account(None, Some(segment.crc));
        if (&segment.namespace, &segment.lease) != (&namespace, &lease) {
            namespace.clone_from(&segment.namespace);
            lease.clone_from(&segment.lease);
            segments = 0;
        }
        segments += 1;
        // In the order of their epochs, so the last one tells how full the newest is.
        let terms = segment.terms().map_err(damage)?;
        let Some(term) = terms.last() else {
            return Err(damaged(path, "a segment has no terms"));
        };
        let (key, _) = term.into_term().map_err(damage)?;
        match segments > terms::segments(terms.len(), max_history) {
            true => overfull.insert(key),
            false => overfull.remove(&key),
        };
    }
    Ok(overfull)
}

/// The database is a store's, of the format that this version knows.
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
            "the row about the whole does not fit its checksum",
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
