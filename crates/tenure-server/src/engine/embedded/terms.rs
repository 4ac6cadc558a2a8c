//! The terms that have ended.
//!
//! The terms of a lease are in segments of some, in the order of their epochs: a lease that changes hands
//! often writes the row that it wrote before, and not one more for each term. Of a full segment nothing
//! changes any more until it is forgotten as a whole.
//!
//! The term that goes on has no place there, because the row of its lease says all about it; but for one
//! that is to end and somebody has said why. What was noted last is in a batch of
//! [`recent`](super::recent), and may be about a term that has its place already.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tenure_core::lease::TermEnd;
use tenure_core::{Epoch, Name, UnixMillis};

use super::columns::{self, Columns, NotColumns};
use super::recent::{Batches, Change};
use super::schema::{self, Meta, corrupt};
use crate::engine::{Archive, OpenError, Term};
use crate::table::Key;

/// `terms` is read by [`Segment`]; the first of them has the epoch `first_epoch`.
pub(super) const TABLE: &str = "
    CREATE TABLE history (
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        first_epoch INTEGER NOT NULL,
        terms BLOB NOT NULL,
        crc INTEGER NOT NULL,
        PRIMARY KEY (namespace, lease, first_epoch)
    ) STRICT, WITHOUT ROWID;
";

const UPSERT: &str = "
    INSERT INTO history (namespace, lease, first_epoch, terms, crc) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (namespace, lease, first_epoch) DO UPDATE SET terms = ?4, crc = ?5";

pub(super) const SELECT_ALL: &str = "
    SELECT namespace, lease, first_epoch, terms, crc FROM history
    ORDER BY namespace, lease, first_epoch";

/// From the newest one that has a term up to an epoch.
const SELECT: &str = "
    SELECT namespace, lease, first_epoch, terms, crc FROM history
    WHERE namespace = ?1 AND lease = ?2 AND first_epoch <= ?3 ORDER BY first_epoch DESC";

const DELETE: &str = "DELETE FROM history WHERE namespace = ?1 AND lease = ?2 RETURNING crc";

/// All before the newest so many.
const DELETE_OLD: &str = "
    DELETE FROM history WHERE namespace = ?1 AND lease = ?2 AND first_epoch <= (
        SELECT first_epoch FROM history WHERE namespace = ?1 AND lease = ?2
        ORDER BY first_epoch DESC LIMIT 1 OFFSET ?3)
    RETURNING crc";

/// How many terms a segment has, but for the newest one, which may have fewer. So usual ones fit into the
/// quarter of a page up to which a row stands beside others.
pub(super) const SEGMENT: usize = 8;

/// The columns of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) namespace: &'a str,
    pub(super) lease: &'a str,
    pub(super) epoch: u64,
    pub(super) holder: &'a str,
    pub(super) began_at_ms: u64,
    pub(super) ended_at_ms: Option<u64>,
    pub(super) end: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
}

impl<'a> Row<'a> {
    pub(super) fn of(key: &'a Key, term: &'a Term) -> Self {
        Self {
            namespace: key.namespace(),
            lease: key.lease(),
            epoch: term.epoch.get(),
            holder: term.holder.as_str(),
            began_at_ms: term.began_at.get(),
            ended_at_ms: term.ended.map(|(_, at)| at.get()),
            end: term.ended.map(|(end, _)| end.as_str()),
            reason: term.reason.as_deref(),
        }
    }

    pub(super) fn is_of(&self, key: &Key) -> bool {
        (self.namespace, self.lease) == (key.namespace(), key.lease())
    }

    /// The lease in this row, and its term.
    pub(super) fn into_term(self) -> Result<(Key, Term), String> {
        let nonsense = |column: &str| {
            let Self {
                namespace, lease, ..
            } = self;
            format!("a term of {namespace:?}/{lease:?} has a senseless {column}")
        };
        let namespace: Name = self.namespace.parse().map_err(|_| nonsense("namespace"))?;
        let lease: Name = self.lease.parse().map_err(|_| nonsense("lease"))?;
        let ended = match (self.end, self.ended_at_ms) {
            (None, None) => None,
            (Some(word), Some(at)) => {
                let mut ends = TermEnd::ALL.into_iter();
                let end = ends.find(|end| end.as_str() == word);
                Some((end.ok_or_else(|| nonsense("end"))?, UnixMillis::new(at)))
            }
            _ => return Err(nonsense("ended_at_ms")),
        };
        let term = Term {
            epoch: Epoch::new(self.epoch).ok_or_else(|| nonsense("epoch"))?,
            holder: self.holder.parse().map_err(|_| nonsense("holder"))?,
            began_at: UnixMillis::new(self.began_at_ms),
            ended,
            reason: self.reason.map(Into::into),
        };
        Ok((Key::new(&namespace, &lease), term))
    }

    /// The row as it is after `earlier` was noted of the same term.
    pub(super) fn after(self, earlier: Self) -> Self {
        Self {
            reason: Term::first_reason(earlier.reason, self.reason),
            ..self
        }
    }

    /// Puts all columns behind what is in `to`.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        for name in [self.namespace, self.lease] {
            columns::put(to, Some(name.as_bytes()));
        }
        self.encode_term(to);
    }

    /// The same but for the lease's name.
    fn encode_term(&self, to: &mut Vec<u8>) {
        for text in [Some(self.holder), self.end, self.reason] {
            columns::put(to, text.map(str::as_bytes));
        }
        for number in [Some(self.epoch), Some(self.began_at_ms), self.ended_at_ms] {
            columns::put_number(to, number);
        }
    }

    /// The row that [`Row::encode`] put there, and nothing behind it.
    pub(super) fn decode(mut columns: Columns<'a>) -> Result<Self, NotColumns> {
        let key = (columns.text()?, columns.text()?);
        Self::decode_term(key, columns)
    }

    /// The same for [`Row::encode_term`].
    fn decode_term(
        (namespace, lease): (&'a str, &'a str),
        mut columns: Columns<'a>,
    ) -> Result<Self, NotColumns> {
        let row = Self {
            namespace,
            lease,
            holder: columns.text()?,
            end: columns.optional_text()?,
            reason: columns.optional_text()?,
            epoch: columns.number()?,
            began_at_ms: columns.number()?,
            ended_at_ms: columns.optional_number()?,
        };
        columns.end()?;
        Ok(row)
    }
}

/// Some terms of a lease that follow one another.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) namespace: String,
    pub(super) lease: String,
    first_epoch: u64,
    /// Each term as a column.
    terms: Vec<u8>,
    pub(super) crc: u32,
}

impl Segment {
    /// The segment, if it fits the checksum that stands in it.
    pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Self, String> {
        let read = || -> rusqlite::Result<Self> {
            Ok(Self {
                namespace: row.get(0)?,
                lease: row.get(1)?,
                first_epoch: row.get(2)?,
                terms: row.get(3)?,
                crc: row.get(4)?,
            })
        };
        let segment = read().map_err(|error| error.to_string())?;
        if crc(segment.key(), segment.first_epoch, &segment.terms) != segment.crc {
            return Err(segment.damage("do not fit their checksum"));
        }
        Ok(segment)
    }

    /// Its terms, in order. They fit their checksum, so if they make no sense they were written by
    /// something else than a store of this format.
    pub(super) fn terms(&self) -> Result<Vec<Row<'_>>, String> {
        let mut columns = Columns(&self.terms);
        let mut terms: Vec<Row<'_>> = Vec::new();
        while columns.end().is_err() {
            let term = columns.bytes();
            let term = term.and_then(|term| Row::decode_term(self.key(), Columns(term)));
            let term = term.map_err(|NotColumns| self.damage("make no sense"))?;
            let is_next = terms.last().is_none_or(|last| last.epoch < term.epoch);
            let is_first = !terms.is_empty() || term.epoch == self.first_epoch;
            if !(is_next && is_first) {
                return Err(self.damage("are not in their order"));
            }
            terms.push(term);
        }
        Ok(terms)
    }

    fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.lease)
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

fn crc((namespace, lease): (&str, &str), first_epoch: u64, terms: &[u8]) -> u32 {
    let mut bytes = Vec::with_capacity(256);
    columns::put(&mut bytes, Some(namespace.as_bytes()));
    columns::put(&mut bytes, Some(lease.as_bytes()));
    columns::put_number(&mut bytes, Some(first_epoch));
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes);
    sum.update(terms);
    sum.finalize()
}

/// Puts terms of a lease in their places, and forgets old ones if there are more than `most` without them.
/// Returns how many rows were written or deleted.
pub(super) fn put(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    key: (&str, &str),
    terms: BTreeMap<u64, Row<'_>>,
    most: usize,
) -> rusqlite::Result<usize> {
    // Older ones would be forgotten at once.
    let skipped = terms.len().saturating_sub(most);
    if skipped == terms.len() {
        return Ok(0);
    }
    let newest = newest(transaction, key)?;
    let mut segment = match &newest {
        Some(newest) => newest.terms().map_err(corrupt)?,
        None => Vec::new(),
    };
    let mut replaced = newest.as_ref().map(|newest| newest.crc);
    let mut rows = 1;
    for term in terms.into_values().skip(skipped) {
        let is_full = segment.len() >= SEGMENT;
        match segment.last_mut() {
            // Something was noted of it before.
            Some(last) if last.epoch == term.epoch => {
                *last = term.after(*last);
                continue;
            }
            // Epochs of a lease only grow, so it is in its place, or was forgotten.
            Some(last) if last.epoch > term.epoch => continue,
            Some(_) if is_full => {
                write(transaction, meta, key, &segment, replaced.take())?;
                segment.clear();
                rows += 1;
            }
            _ => {}
        }
        segment.push(term);
    }
    write(transaction, meta, key, &segment, replaced)?;
    if rows > 1 {
        rows += forget_before(transaction, meta, key, segment.len(), most)?;
    }
    Ok(rows)
}

/// Writes a segment, in the place of one with this checksum.
fn write(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    (namespace, lease): (&str, &str),
    terms: &[Row<'_>],
    replaced: Option<u32>,
) -> rusqlite::Result<()> {
    let (mut bytes, mut column) = (Vec::with_capacity(1_024), Vec::with_capacity(128));
    for term in terms {
        column.clear();
        term.encode_term(&mut column);
        columns::put(&mut bytes, Some(&column));
    }
    let first_epoch = terms.first().map_or(0, |first| first.epoch);
    let crc = crc((namespace, lease), first_epoch, &bytes);
    let mut upsert = transaction.prepare_cached(UPSERT)?;
    upsert.execute(params![namespace, lease, first_epoch, bytes, crc])?;
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

/// How many segments there are with the last `most` terms, of which the newest one has so many.
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
    forget(meta, delete.query(params![namespace, lease])?)
}

/// Forgets the segments of the lease that have none of its last so many terms.
pub(super) fn forget_old(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    key: (&str, &str),
    most: usize,
) -> rusqlite::Result<usize> {
    let Some(newest) = newest(transaction, key)? else {
        return Ok(0);
    };
    let newest = newest.terms().map_err(corrupt)?.len();
    forget_before(transaction, meta, key, newest, most)
}

/// The same, where the newest segment has so many.
fn forget_before(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    (namespace, lease): (&str, &str),
    newest: usize,
    most: usize,
) -> rusqlite::Result<usize> {
    let kept = segments(newest, most) as u64;
    let mut delete = transaction.prepare_cached(DELETE_OLD)?;
    forget(meta, delete.query(params![namespace, lease, kept])?)
}

/// These segments are deleted. Returns how many they are.
fn forget(meta: &mut Meta, mut deleted: rusqlite::Rows<'_>) -> rusqlite::Result<usize> {
    let mut rows = 0;
    while let Some(row) = deleted.next()? {
        meta.account(Some(row.get(0)?), None);
        rows += 1;
    }
    Ok(rows)
}

/// A second connection, that only reads: readers don't wait for commits, nor commits for them.
#[derive(Debug)]
pub(super) struct Reader {
    /// `None` once the engine is closed.
    connection: Mutex<Option<Connection>>,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, OpenError> {
        let connection = Mutex::new(Some(schema::connect_to_read(path)?));
        Ok(Arc::new(Self { connection }))
    }

    /// Waits for a read that is under way, and takes no more.
    pub(super) fn close(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Connection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Archive for Reader {
    fn terms(&self, key: &Key, last: Epoch, most: usize) -> Result<Vec<Term>, String> {
        let text = |error: rusqlite::Error| error.to_string();
        let connection = self.lock();
        let connection = connection.as_ref().ok_or("the database is closed")?;
        // Both looks are at one commit: what is put in its place in between is there once.
        let transaction = connection.unchecked_transaction().map_err(text)?;
        let mut terms = BTreeMap::new();
        let mut add = |row: Row<'_>| -> Result<(), String> {
            let (_, term) = row.into_term()?;
            let term = match terms.remove(&term.epoch) {
                Some(earlier) => term.after(earlier),
                None => term,
            };
            terms.insert(term.epoch, term);
            Ok(())
        };
        let mut forgotten = false;
        let mut recent_terms = Vec::new();
        let batches = Batches::read(&transaction)?;
        for change in batches.changes() {
            match change? {
                Change::Term(term) if term.is_of(key) && term.epoch <= last.get() => {
                    recent_terms.push(term);
                }
                Change::Deleted(deleted) if deleted.is_of(key) => {
                    forgotten = true;
                    recent_terms.clear();
                }
                Change::Term(_) | Change::Deleted(_) | Change::Lease(..) => {}
            }
        }
        if !forgotten {
            let mut select = transaction.prepare_cached(SELECT).map_err(text)?;
            let of_lease = params![key.namespace(), key.lease(), last.get()];
            let mut rows = select.query(of_lease).map_err(text)?;
            let mut found = 0;
            while let Some(row) = rows.next().map_err(text)?.filter(|_| found < most) {
                let segment = Segment::read(row)?;
                let terms = segment.terms()?;
                for term in terms.into_iter().filter(|term| term.epoch <= last.get()) {
                    add(term)?;
                    found += 1;
                }
            }
        }
        recent_terms.into_iter().try_for_each(&mut add)?;
        let terms = terms.into_values().rev().take(most).collect();
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term() -> Term {
        Term {
            epoch: Epoch::MAX,
            holder: "a-1".parse().unwrap(),
            began_at: UnixMillis::new(7),
            ended: Some((TermEnd::HandedOver, UnixMillis::new(9))),
            reason: Some("\"ä\n".into()),
        }
    }

    #[test]
    fn a_term_comes_back_from_its_row_as_it_was() {
        let key = Key::of_text("ns/lease");
        let running = Term {
            ended: None,
            reason: None,
            ..term()
        };
        let all = TermEnd::ALL.map(|end| Term {
            ended: Some((end, UnixMillis::new(9))),
            ..term()
        });
        for term in all.into_iter().chain([running]) {
            let row = Row::of(&key, &term);
            let mut bytes = Vec::new();
            row.encode(&mut bytes);
            assert_eq!(Row::decode(Columns(&bytes)), Ok(row));
            assert_eq!(Row::decode(Columns(&bytes[1..])), Err(NotColumns));
            assert_eq!(row.into_term(), Ok((key.clone(), term.clone())));
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
