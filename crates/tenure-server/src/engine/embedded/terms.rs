//! The terms that have ended, as rows.
//!
//! The term that goes on has no row, because the row of its lease says all about it; but for one
//! that is to end and somebody has said why. What was noted last is in a batch of
//! [`recent`](super::recent), and may be about a term that has a row already.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{CachedStatement, Connection, Transaction, params};
use tenure_core::lease::TermEnd;
use tenure_core::{Epoch, Name, UnixMillis};

use super::columns::{self, Columns, NotColumns};
use super::recent::{Batches, Change};
use super::schema::{self, Meta, corrupt};
use crate::engine::{Archive, OpenError, Term};
use crate::table::Key;

/// `ended_at_ms` and `end` are null for a term that is to end, and will.
pub(super) const TABLE: &str = "
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
";

const INSERT: &str = "
    INSERT INTO terms (namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING";

const UPDATE: &str = "
    UPDATE terms SET holder = ?4, began_at_ms = ?5, ended_at_ms = ?6, end = ?7, reason = ?8, crc = ?9
    WHERE namespace = ?1 AND lease = ?2 AND epoch = ?3";

pub(super) const SELECT_ALL: &str = "
    SELECT namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc FROM terms
    ORDER BY namespace, lease, epoch";

const SELECT: &str = "
    SELECT namespace, lease, epoch, holder, began_at_ms, ended_at_ms, end, reason, crc FROM terms
    WHERE namespace = ?1 AND lease = ?2 AND epoch <= ?3 ORDER BY epoch DESC LIMIT ?4";

const DELETE: &str = "DELETE FROM terms WHERE namespace = ?1 AND lease = ?2 RETURNING crc";

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
    pub(super) epoch: u64,
    holder: &'a str,
    began_at_ms: u64,
    ended_at_ms: Option<u64>,
    end: Option<&'a str>,
    reason: Option<&'a str>,
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

    /// The row as it is after `earlier` was noted of the same term.
    pub(super) fn after(self, earlier: Self) -> Self {
        Self {
            reason: Term::first_reason(earlier.reason, self.reason),
            ..self
        }
    }

    /// Puts all columns behind what is in `to`.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let texts = [self.namespace, self.lease, self.holder].map(Some);
        for text in texts.into_iter().chain([self.end, self.reason]) {
            columns::put(to, text.map(str::as_bytes));
        }
        for number in [Some(self.epoch), Some(self.began_at_ms), self.ended_at_ms] {
            columns::put_number(to, number);
        }
    }

    /// The row that [`Row::encode`] put there, and nothing behind it.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, NotColumns> {
        let mut columns = Columns(bytes);
        let row = Self {
            namespace: columns.text()?,
            lease: columns.text()?,
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

    fn crc(&self) -> u32 {
        let mut bytes = Vec::with_capacity(256);
        self.encode(&mut bytes);
        crc32fast::hash(&bytes)
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

/// Puts a term in its place.
pub(super) fn put(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    term: Row<'_>,
) -> rusqlite::Result<()> {
    let (count, crc) = term.write(&mut transaction.prepare_cached(INSERT)?)?;
    if count == 1 {
        meta.account(None, Some(crc));
        return Ok(());
    }
    // Something was noted of it before.
    let mut select = transaction.prepare_cached(SELECT)?;
    let mut rows = select.query(params![term.namespace, term.lease, term.epoch, 1])?;
    let Some(row) = rows.next()? else {
        return Ok(());
    };
    let (earlier, old) = Row::read(row).map_err(corrupt)?;
    let (_, crc) = term
        .after(earlier)
        .write(&mut transaction.prepare_cached(UPDATE)?)?;
    meta.account(Some(old), Some(crc));
    Ok(())
}

/// Forgets all terms of the lease.
pub(super) fn delete(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    (namespace, lease): (&str, &str),
) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare_cached(DELETE)?;
    let mut rows = delete.query(params![namespace, lease])?;
    while let Some(row) = rows.next()? {
        meta.account(Some(row.get(0)?), None);
    }
    Ok(())
}

/// Forgets the terms of the lease before its last so many.
pub(super) fn prune(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    (namespace, lease): (&str, &str),
    most: usize,
) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare_cached(DELETE_OLD)?;
    let mut rows = delete.query(params![namespace, lease, most as u64])?;
    while let Some(row) = rows.next()? {
        meta.account(Some(row.get(0)?), None);
    }
    Ok(())
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
                Change::Term(_) | Change::Deleted(_) | Change::Lease(_) => {}
            }
        }
        if !forgotten {
            let mut select = transaction.prepare_cached(SELECT).map_err(text)?;
            let (namespace, lease) = (key.namespace(), key.lease());
            let of_lease = params![namespace, lease, last.get(), most as u64];
            let mut rows = select.query(of_lease).map_err(text)?;
            while let Some(row) = rows.next().map_err(text)? {
                add(Row::read(row)?.0)?;
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
            assert_eq!(Row::decode(&bytes), Ok(row));
            assert_eq!(Row::decode(&bytes[1..]), Err(NotColumns));
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
