//! The table `term_rows`: the terms that have ended.
//!
//! A row is a segment: some consecutive terms of a lease, as a JSON array. A lease that changes
//! hands often rewrites its newest segment instead of adding a row per term. A full segment does
//! not change until it is forgotten as a whole.
//!
//! The running term is not in this table, because the row of its lease has all its data. The only
//! exceptions are a running term whose end was given a reason by a request, and a term that continues
//! after its end was recorded: their records are here, without an end. The newest records are in batches of the log, and may be about a term that this
//! table already has.

use rusqlite::{Connection, OptionalExtension, params};
use tenure_core::Epoch;

use super::rows;
use super::schema::{Meta, corrupt};
use crate::engine::batch::{Column, TermFields, fields, record};
use crate::engine::pending::{SEGMENT, segments};
use crate::model::{LeaseKey, TermRecord};

/// The definition of the table. `terms` has `term_count` arrays, each with the values of
/// [`TermFields`]. The first term has the epoch `first_epoch`.
pub(super) const TABLE: &str = "
    CREATE TABLE term_rows (
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        first_epoch INTEGER NOT NULL,
        term_count INTEGER NOT NULL,
        terms TEXT NOT NULL,
        crc INTEGER NOT NULL,
        PRIMARY KEY (namespace, lease, first_epoch)
    ) STRICT, WITHOUT ROWID;
";

const WRITE: &str = "INSERT OR REPLACE INTO term_rows VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

pub(super) const SELECT_ALL: &str = "SELECT * FROM term_rows";

/// Selects segments, from the newest one that has a term up to an epoch.
pub(super) const SELECT: &str = "
    SELECT * FROM term_rows
    WHERE namespace = ?1 AND lease = ?2 AND first_epoch <= ?3 ORDER BY first_epoch DESC";

const DELETE: &str = "DELETE FROM term_rows WHERE namespace = ?1 AND lease = ?2 RETURNING crc";

/// Deletes all segments of a lease but a number of the newest.
const DELETE_OLD: &str = "
    DELETE FROM term_rows WHERE namespace = ?1 AND lease = ?2 AND first_epoch <= (
        SELECT first_epoch FROM term_rows WHERE namespace = ?1 AND lease = ?2
        ORDER BY first_epoch DESC LIMIT 1 OFFSET ?3)
    RETURNING crc";

/// Selects the leases whose oldest segment has none of their last terms.
const SELECT_OVER_LIMIT: &str = "
    SELECT namespace, lease, term_count, min(first_epoch) FROM term_rows GROUP BY namespace, lease
    HAVING sum(term_count) - term_count >= ?1";

/// Some consecutive terms of a lease.
#[derive(Debug)]
pub(super) struct Segment {
    name: String,
    first_epoch: u64,
    count: usize,
    terms: String,
    pub(super) crc: u32,
}

impl Segment {
    /// Reads the segment in this row and checks its checksum.
    pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let segment = Self {
            name: rows::name(row, 0)?,
            first_epoch: row.get(2)?,
            count: row.get(3)?,
            terms: row.get(4)?,
            crc: row.get(5)?,
        };
        let mut columns = rows::encoded(row, 4)?;
        columns.extend_from_slice(segment.terms.as_bytes());
        match crc32fast::hash(&columns) == segment.crc {
            true => Ok(segment),
            false => Err(segment.damage("do not match their checksum")),
        }
    }

    /// Decodes its terms, in order. The checksum matched, so invalid terms were written by another
    /// program.
    pub(super) fn terms(&self) -> rusqlite::Result<Vec<TermRecord>> {
        let fields: Result<Vec<TermFields>, _> = serde_json::from_str(&self.terms);
        let terms = fields.ok().map(|fields| fields.into_iter().map(record));
        let terms = terms.and_then(|terms| terms.collect());
        terms.ok_or_else(|| self.damage("are not valid"))
    }

    fn damage(&self, problem: &str) -> rusqlite::Error {
        corrupt(format!(
            "the terms of {} from epoch {} on {problem}",
            self.name, self.first_epoch
        ))
    }
}

/// Reads the lease and the terms of the segment in this row.
pub(super) fn read_all(row: &rusqlite::Row<'_>) -> rusqlite::Result<(LeaseKey, Vec<TermRecord>)> {
    let segment = Segment::read(row)?;
    let (namespace, lease): (String, String) = (row.get(0)?, row.get(1)?);
    let key = LeaseKey::of_path(&namespace, &lease);
    let key = key.ok_or_else(|| segment.damage("have an invalid name"))?;
    Ok((key, segment.terms()?))
}

/// Writes terms of a lease, oldest first. Forgets the segments that have none of the last `most`
/// terms. Returns the number of rows that were written or deleted.
pub(super) fn write(
    connection: &Connection,
    meta: &mut Meta,
    key: &LeaseKey,
    terms: &[TermRecord],
    most: usize,
) -> rusqlite::Result<usize> {
    // Older terms would be forgotten at once.
    let terms = &terms[terms.len().saturating_sub(most)..];
    if terms.is_empty() {
        return Ok(0);
    }
    let mut all = Vec::new();
    if let Some(newest) = newest(connection, key)? {
        meta.remove(newest.crc);
        all = newest.terms()?;
    }
    for term in terms {
        term.clone().add_to(&mut all);
    }
    let mut rows = 0;
    for segment in all.chunks(SEGMENT) {
        rows += write_segment(connection, meta, key, segment)?;
    }
    if let Some(newest) = all.chunks(SEGMENT).skip(1).last() {
        rows += forget_before(connection, meta, key, newest.len(), most)?;
    }
    Ok(rows)
}

/// Writes a segment with these terms, oldest first.
pub(super) fn write_segment(
    connection: &Connection,
    meta: &mut Meta,
    key: &LeaseKey,
    terms: &[TermRecord],
) -> rusqlite::Result<usize> {
    let json: Vec<TermFields> = terms.iter().map(fields).collect();
    // Numbers and texts always have a form in JSON.
    let json = serde_json::to_string(&json).unwrap_or_default();
    let columns = [
        key.namespace().into(),
        key.lease().into(),
        terms.first().map(|first| first.epoch.get()).into(),
        Column::Number(terms.len() as u64),
        Column::LastText(&json),
    ];
    rows::write(connection, meta, WRITE, &columns)
}

/// Reads the newest segment of the lease.
fn newest(connection: &Connection, key: &LeaseKey) -> rusqlite::Result<Option<Segment>> {
    let mut select = connection.prepare_cached(SELECT)?;
    let newest = params![key.namespace(), key.lease(), Epoch::MAX.get()];
    select.query_row(newest, Segment::read).optional()
}

/// Forgets all terms of the lease. Returns the number of deleted rows.
pub(super) fn delete(
    connection: &Connection,
    meta: &mut Meta,
    key: &LeaseKey,
) -> rusqlite::Result<usize> {
    rows::delete(connection, meta, DELETE, [key.namespace(), key.lease()])
}

/// Forgets the segments that have none of the last `most` terms of their leases. It reads all rows.
pub(super) fn forget_old(
    connection: &Connection,
    meta: &mut Meta,
    most: usize,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare(SELECT_OVER_LIMIT)?;
    let names = select.query_map([most], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let names: Vec<(String, String)> = names.collect::<Result<_, _>>()?;
    for (namespace, lease) in names {
        let key = LeaseKey::of_path(&namespace, &lease);
        let key = key.ok_or_else(|| corrupt("a term has an invalid name"))?;
        if let Some(newest) = newest(connection, &key)? {
            forget_before(connection, meta, &key, newest.count, most)?;
        }
    }
    Ok(())
}

/// Forgets the segments of the lease that have none of its last `most` terms. `newest` is the
/// number of terms in the newest segment. Returns the number of deleted rows.
fn forget_before(
    connection: &Connection,
    meta: &mut Meta,
    key: &LeaseKey,
    newest: usize,
    most: usize,
) -> rusqlite::Result<usize> {
    let kept = segments(newest, most) as u64;
    let old = params![key.namespace(), key.lease(), kept];
    rows::delete(connection, meta, DELETE_OLD, old)
}
