//! Reads and checks the whole database.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, Row};

use super::backlog::Backlog;
use super::folder::FORMAT;
use super::schema::{
    APPLICATION_ID, Meta, SELECT_LEASES, SELECT_META, broken, connect_to_read, corrupt,
};
use super::term_rows::{self, Segment};
use super::{batch_log, deleted, documents, identity, rows};
use crate::engine::batch::{COLUMNS, Columns, DecodeError, Replay, decode};
use crate::engine::{LeaseList, Loaded, LoadedLease, OpenError};
use crate::model::Floors;

/// The content of a database that passed all checks.
pub(super) struct Checked<L = LeaseList> {
    pub(super) loaded: Loaded<L>,
    /// The row with the totals of all tables.
    pub(super) meta: Meta,
    /// The changes that the tables lack.
    pub(super) backlog: Backlog,
}

/// Reads and checks everything in the tables and the batches. The terms are checked and not loaded.
/// The leases are added to `leases`, one by one. If the result is an error, they were not all
/// checked, and must not be used.
pub(super) fn load<L: Extend<LoadedLease>>(
    connection: &Connection,
    path: &Path,
    leases: L,
) -> Result<Checked<L>, OpenError> {
    let failed = |error: rusqlite::Error| broken(path, &error);
    let number = |pragma| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    if number("PRAGMA application_id").map_err(failed)? != i64::from(APPLICATION_ID) {
        return Err(failed(corrupt("it belongs to another program")));
    }
    let found = number("PRAGMA user_version").map_err(failed)?;
    match u32::try_from(found) {
        Ok(FORMAT) => {
            // Another thread checks the structure while this one reads the rows, because a start
            // with a million leases takes seconds. An error in the structure is the cause of any
            // error in the rows.
            let (structure, checked) = thread::scope(|scope| {
                let structure = scope.spawn(|| check_structure(path));
                let checked = read(connection, leases);
                (structure.join(), checked)
            });
            let structure = structure.unwrap_or_else(|panic| resume_unwind(panic));
            structure.and(checked).map_err(failed)
        }
        Ok(found) if found > FORMAT => Err(OpenError::Newer {
            path: path.into(),
            found,
            known: FORMAT,
        }),
        _ => Err(failed(corrupt(format!(
            "it has the unknown format {found}"
        )))),
    }
}

/// Checks the structure of the database file.
fn check_structure(path: &Path) -> rusqlite::Result<()> {
    let connection = connect_to_read(path)?;
    let check = "PRAGMA quick_check(1)";
    let verdict: String = connection.query_row(check, [], |row| row.get(0))?;
    match verdict == "ok" {
        true => Ok(()),
        false => Err(corrupt(verdict)),
    }
}

fn read<L: Extend<LoadedLease>>(
    connection: &Connection,
    mut leases: L,
) -> rusqlite::Result<Checked<L>> {
    let mut meta = read_meta(connection)?;
    let batches = batch_log::read(connection, meta.revision)?;
    let mut replay = Replay::of(&batches, meta.revision).map_err(corrupt)?;
    let mut counted = Meta {
        row_count: 0,
        digest: 0,
        ..meta.clone()
    };
    let mut select = connection.prepare(SELECT_LEASES)?;
    let mut rows = select.query([])?;
    let mut bytes = Vec::new();
    while let Some(row) = rows.next()? {
        let lease = read_lease(row, &mut bytes, &mut counted)?;
        leases.extend(replay.pass(lease).map_err(corrupt)?);
    }
    // Terms are numerous, and the leases do not need them.
    let mut select = connection.prepare(term_rows::SELECT_ALL)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        counted.add(Segment::read(row)?.crc);
    }
    let deleted = deleted::read(connection, &mut counted)?;
    let documents = documents::read(connection, &mut counted)?;
    if counted != meta {
        return Err(corrupt(format!(
            "it has {} rows and should have {}, or its rows were changed",
            counted.row_count, meta.row_count
        )));
    }
    let mut loaded = Loaded {
        leases,
        deleted,
        revision: meta.revision,
        floors: meta.floors.clone(),
        documents,
        store_id: Some(identity::read(connection)?),
    };
    let changes = replay.finish(&mut loaded).map_err(corrupt)?;
    meta.floors.clone_from(&loaded.floors);
    let mut backlog = Backlog::default();
    backlog.is_first = true;
    for (batch, changes) in batches.iter().zip(&changes) {
        for change in changes {
            let term = change.term.as_ref();
            backlog.add_change(batch, &change.key, change.revision, &change.content, term);
        }
        backlog.add_batch(batch, changes.len(), Instant::now());
    }
    Ok(Checked {
        loaded,
        meta,
        backlog,
    })
}

/// Reads a lease and checks its checksum. It uses the memory of `bytes`.
fn read_lease(
    row: &Row<'_>,
    bytes: &mut Vec<u8>,
    counted: &mut Meta,
) -> rusqlite::Result<LoadedLease> {
    bytes.clear();
    rows::encode(row, COLUMNS, bytes)?;
    let crc = row.get(COLUMNS)?;
    if crc32fast::hash(bytes) != crc {
        let name = rows::name(row, 0)?;
        let detail = format!("the row of {name} does not match its checksum");
        return Err(corrupt(detail));
    }
    counted.add(crc);
    // The checksum matched, so an invalid value was written by another program.
    decode(&mut Columns(bytes)).map_err(|DecodeError(column)| match rows::name(row, 0) {
        Ok(name) => corrupt(format!("the row of {name} has an invalid {column}")),
        Err(error) => error,
    })
}

fn read_meta(connection: &Connection) -> rusqlite::Result<Meta> {
    let read = |row: &Row<'_>| {
        let floors: String = row.get(1)?;
        let meta = Meta {
            revision: row.get(0)?,
            floors: serde_json::from_str(&floors).unwrap_or_default(),
            row_count: row.get(2)?,
            digest: row.get(3)?,
        };
        // The checksum is over the text, so a text that is not valid was written by another program.
        let is_valid = serde_json::from_str::<Floors>(&floors).is_ok();
        let is_right = meta.crc(&floors) == row.get::<_, u32>(4)?;
        Ok((is_valid && is_right).then_some(meta))
    };
    match connection.query_row(SELECT_META, [], read).optional()? {
        Some(Some(meta)) => Ok(meta),
        Some(None) => Err(corrupt(
            "the row with the totals does not match its checksum",
        )),
        None => Err(corrupt("the row with the totals is missing")),
    }
}
