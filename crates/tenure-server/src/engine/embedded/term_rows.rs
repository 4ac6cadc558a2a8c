//! The table `term_rows`: the terms that have ended.
//!
//! A row is a segment: some terms of a lease that follow one another, as a JSON array. A lease that changes
//! hands often rewrites its newest segment instead of adding a row per term. A full segment does not change
//! until it is forgotten as a whole.
//!
//! The running term is not in this table, because the row of its lease says everything about it; except that
//! a request has said why it is to end. The newest records are in batches of the log, and may be about a term
//! that this table has already.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Transaction, params};
use tenure_core::lease::Owner;
use tenure_core::{Epoch, UnixMillis};

use super::schema::{Meta, corrupt};
use crate::engine::batch::{end_of, put_number, put_text};
use crate::model::TermRecord;

/// `terms` has `term_count` arrays, each with the values of [`Json`]. The first one has the epoch
/// `first_epoch`.
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

/// Epoch, holder, when the term began and ended in milliseconds, how it ended, why, and its owner.
type Json = (
    u64,
    String,
    u64,
    Option<u64>,
    Option<String>,
    Option<Box<str>>,
    Option<String>,
);

const UPSERT: &str = "
    INSERT INTO term_rows (namespace, lease, first_epoch, term_count, terms, crc)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (namespace, lease, first_epoch) DO UPDATE SET term_count = ?4, terms = ?5, crc = ?6";

pub(super) const SELECT_ALL: &str = "
    SELECT namespace, lease, first_epoch, term_count, terms, crc FROM term_rows
    ORDER BY namespace, lease, first_epoch";

/// From the newest one that has a term up to an epoch.
pub(super) const SELECT: &str = "
    SELECT namespace, lease, first_epoch, term_count, terms, crc FROM term_rows
    WHERE namespace = ?1 AND lease = ?2 AND first_epoch <= ?3 ORDER BY first_epoch DESC";

const DELETE: &str = "DELETE FROM term_rows WHERE namespace = ?1 AND lease = ?2 RETURNING crc";

/// All but the newest so many.
const DELETE_OLD: &str = "
    DELETE FROM term_rows WHERE namespace = ?1 AND lease = ?2 AND first_epoch <= (
        SELECT first_epoch FROM term_rows WHERE namespace = ?1 AND lease = ?2
        ORDER BY first_epoch DESC LIMIT 1 OFFSET ?3)
    RETURNING crc";

/// How many terms a full segment has. Usual ones fit into a quarter of a page, so a row needs no page of its
/// own.
pub(super) const SEGMENT: usize = 8;

/// Some terms of a lease that follow one another.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) namespace: String,
    pub(super) lease: String,
    first_epoch: u64,
    pub(super) count: usize,
    terms: String,
    pub(super) crc: u32,
}

impl Segment {
    /// The segment in this row, if it matches its checksum.
    pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Self, String> {
        let read = || -> rusqlite::Result<Self> {
            Ok(Self {
                namespace: row.get(0)?,
                lease: row.get(1)?,
                first_epoch: row.get(2)?,
                count: row.get(3)?,
                terms: row.get(4)?,
                crc: row.get(5)?,
            })
        };
        let segment = read().map_err(|error| error.to_string())?;
        let key = (segment.namespace.as_str(), segment.lease.as_str());
        match crc(key, segment.first_epoch, segment.count, &segment.terms) == segment.crc {
            true => Ok(segment),
            false => Err(segment.damage("do not match their checksum")),
        }
    }

    /// Its terms, in order. They match their checksum, so another program wrote terms that are not valid.
    pub(super) fn terms(&self) -> Result<Vec<TermRecord>, String> {
        let not_valid = || self.damage("are not valid");
        let terms: Vec<Json> = serde_json::from_str(&self.terms).map_err(|_| not_valid())?;
        let terms = terms.into_iter().map(record);
        let terms: Option<Vec<TermRecord>> = terms.collect();
        let terms = terms.ok_or_else(not_valid)?;
        let first = terms.first().map(|first| first.epoch.get());
        let is_ordered = terms.is_sorted_by(|one, next| one.epoch < next.epoch);
        match is_ordered && first == Some(self.first_epoch) && terms.len() == self.count {
            true => Ok(terms),
            false => Err(not_valid()),
        }
    }

    fn damage(&self, what: &str) -> String {
        let Self {
            namespace,
            lease,
            first_epoch,
            ..
        } = self;
        format!("the terms of {namespace:?}/{lease:?} from epoch {first_epoch} on {what}")
    }
}

fn json(term: &TermRecord) -> Json {
    (
        term.epoch.get(),
        term.holder.as_str().to_owned(),
        term.began_at.get(),
        term.ended.map(|(_, at)| at.get()),
        term.ended.map(|(end, _)| end.as_str().to_owned()),
        term.reason.clone(),
        term.owner.as_ref().map(|owner| owner.as_str().to_owned()),
    )
}

fn record((epoch, holder, began_at, ended_at, end, reason, owner): Json) -> Option<TermRecord> {
    let ended = match (end, ended_at) {
        (None, None) => None,
        (Some(end), Some(at)) => Some((end_of(&end)?, UnixMillis::new(at))),
        _ => return None,
    };
    Some(TermRecord {
        epoch: Epoch::new(epoch)?,
        holder: holder.parse().ok()?,
        owner: owner.map(Owner::new),
        began_at: UnixMillis::new(began_at),
        ended,
        reason,
    })
}

fn crc((namespace, lease): (&str, &str), first_epoch: u64, count: usize, terms: &str) -> u32 {
    let mut bytes = Vec::with_capacity(256);
    put_text(&mut bytes, namespace);
    put_text(&mut bytes, lease);
    put_number(&mut bytes, Some(first_epoch));
    put_number(&mut bytes, Some(count as u64));
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes);
    sum.update(terms.as_bytes());
    sum.finalize()
}

/// Writes terms of a lease, and forgets old ones if there are more than `most` without them. Returns how many
/// rows were written or deleted.
pub(super) fn write(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    key: (&str, &str),
    terms: BTreeMap<Epoch, TermRecord>,
    most: usize,
) -> rusqlite::Result<usize> {
    // Older ones would be forgotten at once.
    let skipped = terms.len().saturating_sub(most);
    if skipped == terms.len() {
        return Ok(0);
    }
    let newest = newest(transaction, key)?;
    let mut replaced = newest.as_ref().map(|newest| newest.crc);
    let mut segment = match newest {
        Some(newest) => newest.terms().map_err(corrupt)?,
        None => Vec::new(),
    };
    let mut rows = 1;
    for term in terms.into_values().skip(skipped) {
        match segment.last().map(|last| last.epoch) {
            Some(last) if last == term.epoch => {
                let earlier = segment.pop();
                let term = earlier.map(|earlier| term.replacing(earlier));
                segment.extend(term);
                continue;
            }
            // The epochs of a lease only grow, so the table has the term, or has forgotten it.
            Some(last) if last > term.epoch => continue,
            Some(_) if segment.len() >= SEGMENT => {
                write_segment(transaction, meta, key, &segment, replaced.take())?;
                segment.clear();
                rows += 1;
            }
            _ => {}
        }
        segment.push(term);
    }
    write_segment(transaction, meta, key, &segment, replaced)?;
    if rows > 1 {
        rows += forget_before(transaction, meta, key, segment.len(), most)?;
    }
    Ok(rows)
}

/// Writes a segment, which may replace one with this checksum.
fn write_segment(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    (namespace, lease): (&str, &str),
    terms: &[TermRecord],
    replaced: Option<u32>,
) -> rusqlite::Result<()> {
    let first_epoch = terms.first().map_or(0, |first| first.epoch.get());
    let json: Vec<Json> = terms.iter().map(json).collect();
    // Numbers and texts always have a JSON form.
    let json = serde_json::to_string(&json).unwrap_or_default();
    let crc = crc((namespace, lease), first_epoch, terms.len(), &json);
    let mut upsert = transaction.prepare_cached(UPSERT)?;
    upsert.execute(params![
        namespace,
        lease,
        first_epoch,
        terms.len(),
        json,
        crc
    ])?;
    meta.account(replaced, Some(crc));
    Ok(())
}

/// The newest segment of the lease.
fn newest(
    transaction: &Transaction<'_>,
    (namespace, lease): (&str, &str),
) -> rusqlite::Result<Option<Segment>> {
    let mut select = transaction.prepare_cached(SELECT)?;
    let newest = select.query_row(params![namespace, lease, Epoch::MAX.get()], |row| {
        Segment::read(row).map_err(corrupt)
    });
    newest.optional()
}

/// How many segments have the last `most` terms, if the newest segment has `newest`.
pub(super) const fn segments(newest: usize, most: usize) -> usize {
    match most {
        0 => 0,
        _ => 1 + most.saturating_sub(newest).div_ceil(SEGMENT),
    }
}

/// Forgets all terms of the lease. Returns how many rows were deleted.
pub(super) fn delete(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    (namespace, lease): (&str, &str),
) -> rusqlite::Result<usize> {
    let mut delete = transaction.prepare_cached(DELETE)?;
    account_deleted(meta, delete.query(params![namespace, lease])?)
}

/// Forgets the segments of the lease that have none of its last `most` terms.
pub(super) fn forget_old(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    key: (&str, &str),
    most: usize,
) -> rusqlite::Result<usize> {
    match newest(transaction, key)? {
        Some(newest) => forget_before(transaction, meta, key, newest.count, most),
        None => Ok(0),
    }
}

/// The same, if the newest segment has so many terms.
fn forget_before(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    (namespace, lease): (&str, &str),
    newest: usize,
    most: usize,
) -> rusqlite::Result<usize> {
    let kept = segments(newest, most) as u64;
    let mut delete = transaction.prepare_cached(DELETE_OLD)?;
    account_deleted(meta, delete.query(params![namespace, lease, kept])?)
}

/// Accounts for deleted segments. Returns how many there are.
fn account_deleted(meta: &mut Meta, mut deleted: rusqlite::Rows<'_>) -> rusqlite::Result<usize> {
    let mut rows = 0;
    while let Some(row) = deleted.next()? {
        meta.account(Some(row.get(0)?), None);
        rows += 1;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::lease::TermEnd;

    #[test]
    fn a_term_is_read_from_json_as_it_was_written() {
        let running = TermRecord {
            epoch: Epoch::MAX,
            holder: "a-1".parse().unwrap(),
            owner: Some(Owner::new("worker")),
            began_at: UnixMillis::new(7),
            ended: None,
            reason: None,
        };
        let ended = TermEnd::ALL.map(|end| TermRecord {
            ended: Some((end, UnixMillis::new(9))),
            reason: Some("\"ä\n".into()),
            ..running.clone()
        });
        for term in ended.into_iter().chain([running]) {
            assert_eq!(record(json(&term)), Some(term.clone()));
            let mut half = json(&term);
            half.3 = if half.3.is_some() { None } else { Some(1) };
            assert_eq!(record(half), None);
        }
    }

    #[test]
    fn as_many_segments_are_kept_as_have_the_last_terms() {
        for (newest, most, kept) in [
            (1, 0, 0),
            (1, 1, 1),
            (8, 8, 1),
            (7, 8, 2),
            (1, 9, 2),
            (1, 10, 3),
            (8, 100, 13),
        ] {
            assert_eq!(segments(newest, most), kept, "{newest} {most}");
        }
    }
}
