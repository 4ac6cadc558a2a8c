//! What was committed last, and is not in its place in the tables `leases` and `terms` yet.
//!
//! A commit only puts its batch behind all others: a page or two for one change, and for many no more
//! than their bytes. In their places each would cost a page of its lease and one of its term. Now and
//! then all batches are put in their places, in one transaction that deletes them too; of a lease that
//! changed a hundred times only what it became is written there.
//!
//! **Nothing is lost or done twice by that.** A commit is acknowledged when its batch is durable here.
//! Whoever reads the tables reads the batches too, in order, as if they were in their places. The
//! transaction that puts them there is whole or has not happened: after a crash there are the batches
//! and the tables as they were, or the tables as they became and no batches. A batch has the whole of
//! a lease and not what is different in it, so to apply one again would change nothing, either.

use std::collections::{BTreeMap, BTreeSet, LinkedList};

use rusqlite::{OptionalExtension, Transaction, params};
use tenure_core::Name;
use tenure_core::lease::Stored;

use super::columns::{self, Columns, NotColumns};
use super::row::Row;
use super::schema::{DELETE, Meta, SELECT_CRC, UPDATE_META, UPSERT, corrupt};
use super::terms;
use crate::engine::{Content, Write};
use crate::table::Key;

/// `revision` is that of the batch's last change; `changes` is read by [`Batches`].
pub(super) const TABLE: &str = "
    CREATE TABLE recent (
        revision INTEGER PRIMARY KEY,
        changes BLOB NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT;
";

const INSERT: &str = "INSERT INTO recent (revision, changes, crc) VALUES (?1, ?2, ?3)";

const SELECT: &str = "SELECT revision, changes, crc FROM recent ORDER BY revision";

const DELETE_ALL: &str = "DELETE FROM recent";

/// A row is begun anew when it has so many bytes, far below the most that SQLite takes.
const ROW_BYTES: usize = 1024 * 1024;

/// One change as it stands in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    /// The whole of a lease.
    Lease(Row<'a>),
    /// A lease and all its terms are forgotten.
    Deleted(Deleted<'a>),
    /// What was noted of a term.
    Term(terms::Row<'a>),
}

/// The name of a lease that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deleted<'a> {
    pub(super) namespace: &'a str,
    pub(super) lease: &'a str,
}

impl Deleted<'_> {
    pub(super) fn is_of(&self, key: &Key) -> bool {
        (self.namespace, self.lease) == (key.namespace(), key.lease())
    }
}

impl<'a> Change<'a> {
    /// Puts what there is of a write behind what is in `to`: of each change its kind, its length and
    /// its columns.
    fn encode(write: &Write, to: &mut Vec<u8>) {
        let mut put = |kind: u8, columns: &dyn Fn(&mut Vec<u8>)| {
            to.push(kind);
            let len_at = to.len();
            to.extend_from_slice(&[0; 4]);
            columns(to);
            // Names, metadata and lease ids have limits, far below this one.
            let len = u32::try_from(to.len() - len_at - 4).unwrap_or(u32::MAX);
            to[len_at..len_at + 4].copy_from_slice(&len.to_le_bytes());
        };
        match &write.content {
            Content::Lease(stored) => {
                let row = Row::of(&write.key, stored, write.revision);
                put(b'L', &|to| row.encode(to));
            }
            Content::Deleted(_) => put(b'D', &|to| {
                for name in [write.key.namespace(), write.key.lease()] {
                    columns::put(to, Some(name.as_bytes()));
                }
            }),
        }
        if let Some(term) = &write.term {
            put(b'T', &|to| terms::Row::of(&write.key, term).encode(to));
        }
    }

    /// Takes the first of the changes off.
    fn take(changes: &mut &'a [u8]) -> Result<Self, NotColumns> {
        let (kind, rest) = changes.split_first().ok_or(NotColumns)?;
        let (len, rest) = rest.split_first_chunk().ok_or(NotColumns)?;
        let (bytes, rest) = rest
            .split_at_checked(u32::from_le_bytes(*len) as usize)
            .ok_or(NotColumns)?;
        *changes = rest;
        match kind {
            b'L' => Row::decode(bytes).map(Self::Lease),
            b'T' => terms::Row::decode(bytes).map(Self::Term),
            b'D' => {
                let mut columns = Columns(bytes);
                let (namespace, lease) = (columns.text()?, columns.text()?);
                columns.end()?;
                Ok(Self::Deleted(Deleted { namespace, lease }))
            }
            _ => Err(NotColumns),
        }
    }
}

/// Puts a batch behind all others. Returns how many bytes it has. `changes` is room to write in.
pub(super) fn append(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    writes: &[&Write],
    changes: &mut Vec<u8>,
) -> rusqlite::Result<usize> {
    let mut insert = transaction.prepare_cached(INSERT)?;
    let mut bytes = 0;
    changes.clear();
    for (index, write) in writes.iter().enumerate() {
        Change::encode(write, changes);
        if let Content::Deleted(epoch) = write.content {
            meta.floor = meta.floor.max(epoch);
        }
        meta.revision = write.revision;
        if changes.len() >= ROW_BYTES || index + 1 == writes.len() {
            let crc = crc(write.revision, changes);
            insert.execute(params![write.revision, *changes, crc])?;
            meta.account(None, Some(crc));
            bytes += changes.len();
            changes.clear();
        }
    }
    Ok(bytes)
}

fn crc(revision: u64, changes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&revision.to_le_bytes());
    sum.update(changes);
    sum.finalize()
}

/// All batches that are not in their places yet, in order, each as it was written.
#[derive(Debug)]
pub(super) struct Batches(Vec<(Vec<u8>, u32)>);

impl Batches {
    pub(super) fn read(connection: &rusqlite::Connection) -> Result<Self, String> {
        let text = |error: rusqlite::Error| error.to_string();
        let mut batches = Vec::new();
        let mut select = connection.prepare_cached(SELECT).map_err(text)?;
        let mut rows = select.query([]).map_err(text)?;
        while let Some(row) = rows.next().map_err(text)? {
            let read = || rusqlite::Result::Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let (revision, changes, stands): (u64, Vec<u8>, u32) = read().map_err(text)?;
            if crc(revision, &changes) != stands {
                return Err(format!(
                    "the batch up to revision {revision} does not fit its checksum"
                ));
            }
            batches.push((changes, stands));
        }
        Ok(Self(batches))
    }

    /// The checksums of all batches.
    pub(super) fn crcs(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|&(_, crc)| crc)
    }

    /// All changes, in order. A batch fits its checksum, so one that makes no sense was written by
    /// something else than a store of this format.
    pub(super) fn changes(&self) -> impl Iterator<Item = Result<Change<'_>, String>> {
        self.0.iter().flat_map(|(changes, _)| {
            let mut rest = changes.as_slice();
            std::iter::from_fn(move || {
                (!rest.is_empty()).then(|| {
                    let change = Change::take(&mut rest);
                    if change.is_err() {
                        rest = &[];
                    }
                    change.map_err(|NotColumns| "a batch has a senseless change".into())
                })
            })
        })
    }

    /// What the batches make of the leases that they are about.
    fn outcome(&self) -> Result<Outcomes<'_>, String> {
        let mut outcomes = Outcomes::new();
        for change in self.changes() {
            match change? {
                Change::Lease(row) => {
                    let of_lease = outcomes.entry((row.namespace, row.lease)).or_default();
                    of_lease.row = Some(row);
                    of_lease.is_deleted = false;
                }
                Change::Deleted(Deleted { namespace, lease }) => {
                    let deleted = Outcome {
                        is_deleted: true,
                        forgets_terms: true,
                        ..Outcome::default()
                    };
                    outcomes.insert((namespace, lease), deleted);
                }
                Change::Term(term) => {
                    let of_lease = outcomes.entry((term.namespace, term.lease)).or_default();
                    let earlier = of_lease.terms.remove(&term.epoch);
                    let term = earlier.map_or(term, |earlier| term.after(earlier));
                    of_lease.terms.insert(term.epoch, term);
                }
            }
        }
        Ok(outcomes)
    }

    /// The leases as they are with these batches: `leases` is what the table has.
    pub(super) fn apply(&self, leases: &mut LinkedList<(Key, Stored, u64)>) -> Result<(), String> {
        let mut latest = BTreeMap::new();
        for ((namespace, lease), outcome) in self.outcome()? {
            if let Some(row) = outcome.row {
                let lease = row.into_lease()?;
                latest.insert(lease.0.clone(), Some(lease));
            } else if outcome.is_deleted {
                let name = |name: &str| name.parse::<Name>();
                let (Ok(namespace), Ok(lease)) = (name(namespace), name(lease)) else {
                    return Err("a batch has a senseless name".into());
                };
                latest.insert(Key::new(&namespace, &lease), None);
            }
        }
        if latest.is_empty() {
            return Ok(());
        }
        let in_place = std::mem::take(leases).into_iter();
        let as_they_are = in_place.filter_map(|lease| match latest.remove(&lease.0) {
            None => Some(lease),
            Some(newer) => newer,
        });
        *leases = as_they_are.collect();
        leases.extend(latest.into_values().flatten());
        Ok(())
    }
}

/// By namespace and lease, in the order of the tables.
type Outcomes<'a> = BTreeMap<(&'a str, &'a str), Outcome<'a>>;

/// What all batches together make of one lease.
#[derive(Default)]
struct Outcome<'a> {
    /// `None` if nothing is said of the lease, or it is deleted.
    row: Option<Row<'a>>,
    is_deleted: bool,
    /// Terms that are in their places are of a lease that was deleted since.
    forgets_terms: bool,
    terms: BTreeMap<u64, terms::Row<'a>>,
}

/// Puts all batches in their places, and forgets terms of a lease beyond the last so many; also of
/// those in `overfull`. Returns how many places were written to.
pub(super) fn put_in_place(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    most_terms: usize,
    overfull: &BTreeSet<Key>,
) -> rusqlite::Result<usize> {
    let batches = Batches::read(transaction).map_err(corrupt)?;
    let mut places = 0;
    for (key, outcome) in batches.outcome().map_err(corrupt)? {
        places += outcome.put_in_place(transaction, meta, key, most_terms)?;
    }
    for key in overfull {
        let key = (key.namespace(), key.lease());
        terms::prune(transaction, meta, key, most_terms)?;
    }
    transaction.prepare_cached(DELETE_ALL)?.execute([])?;
    for crc in batches.crcs() {
        meta.account(Some(crc), None);
    }
    meta.write(&mut transaction.prepare_cached(UPDATE_META)?)?;
    Ok(places)
}

impl Outcome<'_> {
    fn put_in_place(
        self,
        transaction: &Transaction<'_>,
        meta: &mut Meta,
        key: (&str, &str),
        most_terms: usize,
    ) -> rusqlite::Result<usize> {
        let (namespace, lease) = key;
        if self.row.is_some() || self.is_deleted {
            let mut select = transaction.prepare_cached(SELECT_CRC)?;
            let old = select.query_row(params![namespace, lease], |row| row.get(0));
            let old: Option<u32> = old.optional()?;
            let new = match &self.row {
                Some(row) => Some(row.write(&mut transaction.prepare_cached(UPSERT)?)?),
                None => {
                    let mut delete = transaction.prepare_cached(DELETE)?;
                    delete.execute(params![namespace, lease])?;
                    None
                }
            };
            meta.account(old, new);
        }
        if self.forgets_terms {
            terms::delete(transaction, meta, key)?;
        }
        if self.terms.is_empty() {
            return Ok(1);
        }
        // Older ones would be forgotten at once.
        for term in self.terms.into_values().rev().take(most_terms) {
            terms::put(transaction, meta, term)?;
        }
        terms::prune(transaction, meta, key, most_terms)?;
        Ok(3)
    }
}
