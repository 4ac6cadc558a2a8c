//! The terms that have ended, as rows, each written once: in the transaction that ended it.
//!
//! The term that goes on has no row, because the row of its lease says all about it; but for one
//! that is to end and somebody has said why.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{CachedStatement, Connection, ToSql, Transaction, params};
use tenure_core::lease::TermEnd;
use tenure_core::{Epoch, Name, UnixMillis};

use super::checksum::Checksum;
use super::schema::{self, Meta};
use crate::engine::{Archive, OpenError, Term};
use crate::table::Key;

/// `ended_at_ms` and `end` are null for a term that is to end, and will.
///
/// What is noted goes behind all else in `recent_terms`, where a page takes many: in its place among
/// the terms of its lease each would be a page of its own in the log. It is put there when the log is
/// moved into the database. Until then there may be several rows of a term, the last of which counts.
pub(super) const TABLES: &str = "
    CREATE TABLE terms (
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        holder TEXT NOT NULL,
        began_at_ms INTEGER NOT NULL,
        ended_at_ms INTEGER,
        end TEXT,
        reason TEXT,
        crc INTEGER NOT NULL,
        PRIMARY KEY (namespace, lease, epoch)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE recent_terms (
        number INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        holder TEXT NOT NULL,
        began_at_ms INTEGER NOT NULL,
        ended_at_ms INTEGER,
        end TEXT,
        reason TEXT,
        crc INTEGER NOT NULL
    ) STRICT;
";

pub(super) const NOTE: &str = "
    INSERT INTO recent_terms (namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason,
        crc)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

const INSERT: &str = "
    INSERT INTO terms (namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING";

const UPDATE: &str = "
    UPDATE terms SET holder = ?4, began_at_ms = ?5, ended_at_ms = ?6, end = ?7, reason = ?8, crc = ?9
    WHERE namespace = ?1 AND lease = ?2 AND epoch = ?3";

pub(super) const SELECT_RECENT: &str = "
    SELECT namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc
    FROM recent_terms ORDER BY number";

const SELECT_RECENT_OF: &str = "
    SELECT namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc
    FROM recent_terms WHERE namespace = ?1 AND lease = ?2 AND epoch <= ?3 ORDER BY number";

pub(super) const SELECT_ALL: &str = "
    SELECT namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc FROM terms
    ORDER BY namespace, lease, epoch";

const SELECT: &str = "
    SELECT namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc FROM terms
    WHERE namespace = ?1 AND lease = ?2 AND epoch <= ?3 ORDER BY epoch DESC LIMIT ?4";

const DELETE: [&str; 2] = [
    "DELETE FROM terms WHERE namespace = ?1 AND lease = ?2 RETURNING crc",
    "DELETE FROM recent_terms WHERE namespace = ?1 AND lease = ?2 RETURNING crc",
];

const DELETE_OLD: &str = "
    DELETE FROM terms WHERE namespace = ?1 AND lease = ?2 AND epoch <= (
        SELECT epoch FROM terms WHERE namespace = ?1 AND lease = ?2
        ORDER BY epoch DESC LIMIT 1 OFFSET ?3)
    RETURNING crc";

/// The columns of a row, but for the checksum over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) namespace: &'a str,
    pub(super) lease: &'a str,
    epoch: u64,
    holder: &'a str,
    began_at_ms: u64,
    ended_at_ms: Option<u64>,
    end: Option<&'a str>,
    reason: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn of(key: &'a Key, term: &'a Term) -> Self {
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

    /// The row, if it fits the checksum that stands in it, and that.
    pub(super) fn read(row: &'a rusqlite::Row<'_>) -> Result<(Self, u32), String> {
        let read = || -> rusqlite::Result<(Self, u32)> {
            let text = |index| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_str()?);
            let optional = |index| {
                let text = row.get_ref(index)?.as_str_or_null()?;
                Ok::<_, rusqlite::Error>(text)
            };
            let read = Self {
                namespace: text(0)?,
                lease: text(1)?,
                epoch: row.get(2)?,
                holder: text(3)?,
                began_at_ms: row.get(4)?,
                ended_at_ms: row.get(5)?,
                end: optional(6)?,
                reason: optional(7)?,
            };
            Ok((read, row.get(8)?))
        };
        let (read, crc) = read().map_err(|error| error.to_string())?;
        if read.crc() == crc {
            return Ok((read, crc));
        }
        let Self {
            namespace, lease, ..
        } = read;
        Err(format!(
            "the row of a term of {namespace:?}/{lease:?} does not fit its checksum"
        ))
    }

    /// The lease in this row, and its term.
    pub(super) fn into_term(self) -> Result<(Key, Term), String> {
        let nonsense = |column: &str| {
            let Self {
                namespace, lease, ..
            } = self;
            format!("the row of a term of {namespace:?}/{lease:?} has a senseless {column}")
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

    fn crc(&self) -> u32 {
        let mut sum = Checksum::default();
        for text in [self.namespace, self.lease, self.holder] {
            sum.column(Some(text.as_bytes()));
        }
        for text in [self.end, self.reason] {
            sum.column(text.map(str::as_bytes));
        }
        for number in [Some(self.epoch), Some(self.began_at_ms), self.ended_at_ms] {
            sum.number(number);
        }
        sum.finish()
    }

    /// Writes it with either statement; tells how many rows that made or changed, and the checksum.
    fn write(&self, statement: &mut CachedStatement<'_>) -> rusqlite::Result<(usize, u32)> {
        let crc = self.crc();
        let count = statement.execute(params![
            self.namespace,
            self.lease,
            self.epoch,
            self.holder,
            self.began_at_ms,
            self.ended_at_ms,
            self.end,
            self.reason,
            crc,
        ])?;
        Ok((count, crc))
    }
}

/// Notes a term of the lease.
pub(super) fn note(
    note: &mut CachedStatement<'_>,
    meta: &mut Meta,
    key: &Key,
    term: &Term,
) -> rusqlite::Result<()> {
    let (_, crc) = Row::of(key, term).write(note)?;
    meta.account(None, Some(crc));
    Ok(())
}

/// Puts all that was noted in its place.
pub(super) fn put_in_place(transaction: &Transaction<'_>, meta: &mut Meta) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(INSERT)?;
    let mut select = transaction.prepare_cached(SELECT_RECENT)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (row, crc) = Row::read(row).map_err(corrupt)?;
        let (key, term) = row.into_term().map_err(corrupt)?;
        meta.account(Some(crc), None);
        put(transaction, &mut insert, meta, (&key, term))?;
    }
    transaction.execute("DELETE FROM recent_terms", [])?;
    Ok(())
}

fn put(
    transaction: &Transaction<'_>,
    insert: &mut CachedStatement<'_>,
    meta: &mut Meta,
    (key, mut term): (&Key, Term),
) -> rusqlite::Result<()> {
    let (count, crc) = Row::of(key, &term).write(insert)?;
    if count == 1 {
        meta.account(None, Some(crc));
        return Ok(());
    }
    // Something was noted of it before.
    let mut select = transaction.prepare_cached(SELECT)?;
    let mut rows = select.query(params![key.namespace(), key.lease(), term.epoch.get(), 1])?;
    let mut old = None;
    if let Some(row) = rows.next()? {
        let (row, crc) = Row::read(row).map_err(corrupt)?;
        let (_, earlier) = row.into_term().map_err(corrupt)?;
        term = term.after(earlier);
        old = Some(crc);
    }
    let (_, crc) = Row::of(key, &term).write(&mut transaction.prepare_cached(UPDATE)?)?;
    meta.account(old, Some(crc));
    Ok(())
}

/// Forgets all terms of the lease.
pub(super) fn delete(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    key: &Key,
) -> rusqlite::Result<()> {
    for delete in DELETE {
        let mut delete = transaction.prepare_cached(delete)?;
        let mut rows = delete.query(params![key.namespace(), key.lease()])?;
        while let Some(row) = rows.next()? {
            meta.account(Some(row.get(0)?), None);
        }
    }
    Ok(())
}

/// Forgets the terms of the lease before its last so many.
pub(super) fn prune(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    key: &Key,
    most: usize,
) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare_cached(DELETE_OLD)?;
    let mut rows = delete.query(params![key.namespace(), key.lease(), most as u64])?;
    while let Some(row) = rows.next()? {
        meta.account(Some(row.get(0)?), None);
    }
    Ok(())
}

/// A row that is not as it was written: nothing may be built on it.
fn corrupt(detail: String) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(detail))
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
        let mut add = |sql: &str, of_lease: &[&dyn ToSql]| -> Result<(), String> {
            let mut select = transaction.prepare_cached(sql).map_err(text)?;
            let mut rows = select.query(of_lease).map_err(text)?;
            while let Some(row) = rows.next().map_err(text)? {
                let (row, _) = Row::read(row)?;
                let (_, term) = row.into_term()?;
                let term = match terms.remove(&term.epoch) {
                    Some(earlier) => term.after(earlier),
                    None => term,
                };
                terms.insert(term.epoch, term);
            }
            Ok(())
        };
        let (namespace, lease, last) = (key.namespace(), key.lease(), last.get());
        add(SELECT, params![namespace, lease, last, most as u64])?;
        add(SELECT_RECENT_OF, params![namespace, lease, last])?;
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
            assert_eq!(row.into_term(), Ok((key.clone(), term.clone())));
        }
    }

    #[test]
    fn each_column_counts_for_the_checksum() {
        let (key, term) = (Key::of_text("ns/lease"), term());
        let row = Row::of(&key, &term);
        let change: [fn(&mut Row<'_>); 8] = [
            |row| row.namespace = "nt",
            |row| row.lease = "leasf",
            |row| row.epoch -= 1,
            |row| row.holder = "a-2",
            |row| row.began_at_ms += 1,
            |row| row.ended_at_ms = None,
            |row| row.end = Some("released"),
            |row| row.reason = None,
        ];
        for change in change {
            let mut changed = row;
            change(&mut changed);
            assert_ne!(changed.crc(), row.crc(), "{changed:?}");
        }
    }
}
