//! Reads the whole database and believes none of it.

use std::collections::{BTreeSet, LinkedList};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};
use tenure_core::Epoch;

use super::folder::FORMAT;
use super::recent::Batches;
use super::row::Row;
use super::schema::{APPLICATION_ID, Meta, SELECT_ALL, SELECT_META, broken};
use super::terms;
use super::upgrade::{SELECT_RECENT_TERMS, WITH_RECENT_TERMS, WITHOUT_TERMS};
use crate::engine::{Loaded, OpenError};
use crate::table::Key;

/// A database all of which is as it was written.
pub(super) struct Checked {
    pub(super) format: u32,
    pub(super) loaded: Loaded,
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
    let format = check_owner(connection, path)?;
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
        if row.revision > meta.revision {
            let detail = format!("the row of {} is newer than the whole", row.name());
            return Err(damaged(path, detail));
        }
        counted.account(None, Some(crc));
        leases.push_back(row.into_lease().map_err(|detail| damaged(path, detail))?);
    }
    let mut overfull = BTreeSet::new();
    if format > WITHOUT_TERMS {
        overfull = check_terms(connection, path, &mut counted, max_history)?;
    }
    if format == WITH_RECENT_TERMS {
        overfull.extend(check_recent_terms(connection, path, &mut counted)?);
    }
    if format == FORMAT {
        let batches = Batches::read(connection).map_err(|detail| damaged(path, detail))?;
        batches
            .crcs()
            .for_each(|crc| counted.account(None, Some(crc)));
        // In their order, and after what is in its place: they are newer.
        batches
            .apply(&mut leases)
            .map_err(|detail| damaged(path, detail))?;
    }
    if counted != meta {
        let detail = format!(
            "it has {} rows and should have {}, or other ones",
            counted.row_count, meta.row_count
        );
        return Err(damaged(path, detail));
    }
    let loaded = Loaded {
        leases,
        revision: meta.revision,
        floor: meta.floor,
    };
    Ok(Checked {
        format,
        loaded,
        meta,
        overfull,
    })
}

/// Looks at each term, row by row: they are many, and none is needed in memory.
fn check_terms(
    connection: &Connection,
    path: &Path,
    counted: &mut Meta,
    max_history: usize,
) -> Result<BTreeSet<Key>, OpenError> {
    let failed = |error: rusqlite::Error| broken(path, &error);
    let mut overfull = BTreeSet::new();
    let mut select = connection.prepare(terms::SELECT_ALL).map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    let (mut namespace, mut lease, mut of_lease) = (String::new(), String::new(), 0);
    while let Some(row) = rows.next().map_err(failed)? {
        let (row, crc) = terms::Row::read(row).map_err(|detail| damaged(path, detail))?;
        counted.account(None, Some(crc));
        if (row.namespace, row.lease) != (namespace.as_str(), lease.as_str()) {
            row.namespace.clone_into(&mut namespace);
            row.lease.clone_into(&mut lease);
            of_lease = 0;
        }
        of_lease += 1;
        if Some(of_lease) == max_history.checked_add(1) {
            let (key, _) = row.into_term().map_err(|detail| damaged(path, detail))?;
            overfull.insert(key);
        }
    }
    Ok(overfull)
}

/// The same for those of the second format that are not in their places yet; all their leases may have
/// more than are to be remembered.
fn check_recent_terms(
    connection: &Connection,
    path: &Path,
    counted: &mut Meta,
) -> Result<BTreeSet<Key>, OpenError> {
    let failed = |error: rusqlite::Error| broken(path, &error);
    let mut overfull = BTreeSet::new();
    let mut select = connection.prepare(SELECT_RECENT_TERMS).map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let (row, crc) = terms::Row::read(row).map_err(|detail| damaged(path, detail))?;
        counted.account(None, Some(crc));
        let (key, _) = row.into_term().map_err(|detail| damaged(path, detail))?;
        overfull.insert(key);
    }
    Ok(overfull)
}

/// The database is a store's, of a format that this version knows: of this or an older one.
fn check_owner(connection: &Connection, path: &Path) -> Result<u32, OpenError> {
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
        Ok(format @ 1..=FORMAT) => Ok(format),
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
