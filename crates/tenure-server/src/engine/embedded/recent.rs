//! What was committed last, and is not in its place in the tables `leases` and `terms` yet.
//!
//! A commit only puts its batch behind all others: a page or two for one change, and for many no more
//! than their bytes. In their places each would cost a page of its lease and one of its term. Later
//! leases are put in their places, some in one transaction ([`Backlog`](super::backlog::Backlog)); of a
//! lease that changed a hundred times only what it became is written there.
//!
//! **Nothing is lost by that.** A commit is acknowledged when its batch is durable here. Whoever reads the
//! tables reads the batches too, in order. A batch is deleted in the transaction that puts the last
//! of its changes in its place, or in a later one; and only when all batches before it are, too. So the
//! batches that are left have, of each lease, all changes from some revision on, and the row of that lease
//! has all changes before that revision.
//!
//! **Nothing is done twice.** The batches may have changes that are in their places already: those up to
//! the revision in the row of the lease. To apply them again changes nothing:
//!
//! - A change has the whole of a lease, and the last one decides; its row is in its place, or newer. But
//!   retired ids are told as a difference: those up to the revision of the row in its place are passed over.
//! - A deletion forgets all that is in its place, also a lease of the same name that was made after it. But
//!   all changes of that one follow the deletion in the batches.
//! - Epochs of a lease only grow, so a term before the last one in its place is in its place, or was
//!   forgotten as too old. The last one may change; all that was noted of it since it got its place is in the
//!   batches, and the first reason stays.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, LinkedList};

use rusqlite::{OptionalExtension, Transaction, params};
use tenure_core::lease::{LeaseId, Stored};
use tenure_core::{Epoch, Name};

use super::columns::{self, Columns, NotColumns};
use super::row::{ID, Row, bytes_of, ids_of};
use super::schema::{DELETE, Meta, SELECT_BEFORE, UPDATE_META, UPSERT, corrupt};
use super::{deleted, terms};
use crate::engine::{Content, Loaded, Write};
use crate::table::Key;

/// `revision` is that of the batch's last change, and `previous` that of the last one before the batch:
/// so the batches are a chain, and one that is missing is noticed by the next one. `changes` is read by
/// [`Batches`].
pub(super) const TABLE: &str = "
    CREATE TABLE batches (
        revision INTEGER PRIMARY KEY,
        previous INTEGER NOT NULL,
        changes BLOB NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT;
";

const INSERT: &str =
    "INSERT INTO batches (revision, previous, changes, crc) VALUES (?1, ?2, ?3, ?4)";

const SELECT: &str = "SELECT revision, previous, changes, crc FROM batches ORDER BY revision";

const DELETE_UP_TO: &str = "DELETE FROM batches WHERE revision <= ?1";

/// A row is begun anew when it has so many bytes, far below the most that SQLite takes.
const ROW_BYTES: usize = 1024 * 1024;

/// One change as it stands in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    /// The whole of a lease; but for its retired ids, which are told apart.
    Lease(Row<'a>, Retired<'a>),
    /// A lease and all its terms are forgotten.
    Deleted(Deleted<'a>),
    /// What was noted of a term.
    Term(terms::Row<'a>),
}

/// What becomes of the retired ids of a lease. They are the most of it where it changes hands often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Retired<'a> {
    /// They are these.
    All(Cow<'a, [u8]>),
    /// They are what they were without the first of these, and then the second of these.
    But(Cow<'a, [u8]>, Cow<'a, [u8]>),
}

/// A lease that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deleted<'a> {
    pub(super) namespace: &'a str,
    pub(super) lease: &'a str,
    /// No epoch up to this one may be granted again to anybody.
    pub(super) last: Option<u64>,
    /// Lease ids of its ended terms, one behind the other.
    pub(super) retired: &'a [u8],
}

impl Deleted<'_> {
    /// The lease, and the ids that are left of it.
    pub(super) fn left(&self) -> Result<(Key, Vec<LeaseId>), String> {
        let name = |name: &str| name.parse::<Name>();
        let names = (name(self.namespace), name(self.lease));
        match (names, ids_of(self.retired)) {
            ((Ok(namespace), Ok(lease)), Some(ids)) => Ok((Key::new(&namespace, &lease), ids)),
            _ => Err(format!(
                "what is left of the deleted {:?}/{:?} makes no sense",
                self.namespace, self.lease
            )),
        }
    }

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
        match (&write.content, &write.retired) {
            (Content::Lease(stored), None) => put(b'L', &|to| {
                Row::of(&write.key, stored, &stored.retired, write.revision).encode(to);
            }),
            (Content::Lease(stored), Some(retired)) => put(b'C', &|to| {
                columns::put(to, Some(&bytes_of(&retired.forgotten)));
                Row::of(&write.key, stored, &retired.added, write.revision).encode(to);
            }),
            (Content::Deleted(deleted), _) => put(b'D', &|to| {
                for name in [write.key.namespace(), write.key.lease()] {
                    columns::put(to, Some(name.as_bytes()));
                }
                columns::put_number(to, deleted.last.map(Epoch::get));
                columns::put(to, Some(&bytes_of(&deleted.retired)));
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
        let mut columns = Columns(bytes);
        match kind {
            b'L' => {
                let mut row = Row::decode(columns)?;
                let all = std::mem::take(&mut row.retired);
                Ok(Self::Lease(row, Retired::All(all)))
            }
            b'C' => {
                let forgotten = columns.bytes()?;
                let mut row = Row::decode(columns)?;
                let added = std::mem::take(&mut row.retired);
                Ok(Self::Lease(row, Retired::But(forgotten.into(), added)))
            }
            b'T' => terms::Row::decode(columns).map(Self::Term),
            b'D' => {
                let (namespace, lease) = (columns.text()?, columns.text()?);
                let last = columns.optional_number()?;
                let retired = columns.bytes()?;
                columns.end()?;
                Ok(Self::Deleted(Deleted {
                    namespace,
                    lease,
                    last,
                    retired,
                }))
            }
            _ => Err(NotColumns),
        }
    }
}

impl Retired<'_> {
    /// What this makes of a list.
    fn apply(&self, list: &mut Vec<[u8; ID]>) {
        match self {
            Self::All(all) => {
                list.clear();
                list.extend_from_slice(all.as_chunks().0);
            }
            Self::But(forgotten, added) => {
                let forgotten = forgotten.as_chunks().0;
                if !forgotten.is_empty() {
                    list.retain(|id| !forgotten.contains(id));
                }
                list.extend_from_slice(added.as_chunks().0);
            }
        }
    }
}

/// Puts a batch behind all others, of which `previous` is the last revision. Returns how many bytes it
/// has. `changes` is room to write in.
pub(super) fn append(
    transaction: &Transaction<'_>,
    mut previous: u64,
    writes: &[&Write],
    changes: &mut Vec<u8>,
) -> rusqlite::Result<usize> {
    let mut bytes = 0;
    changes.clear();
    for (index, write) in writes.iter().enumerate() {
        Change::encode(write, changes);
        if changes.len() >= ROW_BYTES || index + 1 == writes.len() {
            append_row(transaction, previous, write.revision, changes)?;
            previous = write.revision;
            bytes += changes.len();
            changes.clear();
        }
    }
    Ok(bytes)
}

/// Puts a row with these changes behind all others.
pub(super) fn append_row(
    transaction: &Transaction<'_>,
    previous: u64,
    revision: u64,
    changes: &[u8],
) -> rusqlite::Result<()> {
    let crc = crc(revision, previous, changes);
    let mut insert = transaction.prepare_cached(INSERT)?;
    insert.execute(params![revision, previous, changes, crc])?;
    Ok(())
}

fn crc(revision: u64, previous: u64, changes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&revision.to_le_bytes());
    sum.update(&previous.to_le_bytes());
    sum.update(changes);
    sum.finalize()
}

/// All batches that are not in their places yet, in order, each as it was written.
#[derive(Debug, Default)]
pub(super) struct Batches {
    changes: Vec<Vec<u8>>,
    /// The last revision before the first one, and that of the last one.
    revisions: Option<(u64, u64)>,
}

impl Batches {
    /// Reads them; each follows the one before it.
    pub(super) fn read(connection: &rusqlite::Connection) -> Result<Self, String> {
        let text = |error: rusqlite::Error| error.to_string();
        let mut batches = Self::default();
        let mut select = connection.prepare_cached(SELECT).map_err(text)?;
        let mut rows = select.query([]).map_err(text)?;
        while let Some(row) = rows.next().map_err(text)? {
            let read =
                || rusqlite::Result::Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
            let (revision, previous, changes, stands): (u64, u64, Vec<u8>, u32) =
                read().map_err(text)?;
            if crc(revision, previous, &changes) != stands {
                return Err(format!(
                    "the batch up to revision {revision} does not fit its checksum"
                ));
            }
            let first = match batches.revisions {
                Some((_, last)) if last != previous => {
                    return Err(format!("the batch after revision {last} is missing"));
                }
                Some((first, _)) => first,
                None => previous,
            };
            batches.revisions = Some((first, revision));
            batches.changes.push(changes);
        }
        Ok(batches)
    }

    /// The last of their revisions, if they follow the revision `placed`: or that, if there are none.
    pub(super) fn follow(&self, placed: u64) -> Result<u64, String> {
        match self.revisions {
            None => Ok(placed),
            Some((before, last)) if before == placed => Ok(last),
            Some((before, _)) => Err(format!(
                "the first batch follows revision {before}, and what is in its place ends at {placed}"
            )),
        }
    }

    /// All changes, in order. A batch fits its checksum, so one that makes no sense was written by
    /// something else than a store of this format.
    pub(super) fn changes(&self) -> impl Iterator<Item = Result<Change<'_>, String>> {
        self.changes.iter().flat_map(|changes| {
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

    /// What the batches make of the leases that they are about, and the deletions, in their order.
    fn outcome(&self) -> Result<(Outcomes<'_>, Vec<Deleted<'_>>), String> {
        let (mut outcomes, mut deletions) = (Outcomes::new(), Vec::new());
        for change in self.changes() {
            match change? {
                Change::Lease(row, retired) => {
                    let of_lease = outcomes.entry((row.namespace, row.lease)).or_default();
                    of_lease.put(row, retired);
                }
                Change::Deleted(deleted) => {
                    outcomes.insert((deleted.namespace, deleted.lease), Outcome::deleted());
                    deletions.push(deleted);
                }
                Change::Term(term) => {
                    let of_lease = outcomes.entry((term.namespace, term.lease)).or_default();
                    of_lease.note(term);
                }
            }
        }
        Ok((outcomes, deletions))
    }

    /// What is loaded, as it is with these batches: `loaded` is what the tables have.
    pub(super) fn apply(&self, loaded: &mut Loaded) -> Result<(), String> {
        let (in_batches, deletions) = self.outcome()?;
        loaded.floor = loaded.floor.max(last_epoch(&deletions));
        for deletion in deletions.iter().filter(|it| !it.retired.is_empty()) {
            loaded.deleted.push(deletion.left()?);
        }
        let mut outcomes = BTreeMap::new();
        for (key, outcome) in in_batches {
            let name = |name: &str| name.parse::<Name>();
            let (Ok(namespace), Ok(lease)) = (name(key.0), name(key.1)) else {
                return Err("a batch has a senseless name".into());
            };
            if outcome.row.is_some() || outcome.was_deleted {
                outcomes.insert(Key::new(&namespace, &lease), outcome);
            }
        }
        if outcomes.is_empty() {
            return Ok(());
        }
        let mut leases = LinkedList::new();
        for (key, before, revision) in std::mem::take(&mut loaded.leases) {
            match outcomes.remove(&key) {
                None => leases.push_back((key, before, revision)),
                Some(outcome) => {
                    let retired = bytes_of(&before.retired);
                    leases.extend(outcome.into_lease(revision, &retired)?);
                }
            }
        }
        for outcome in outcomes.into_values() {
            leases.extend(outcome.into_lease(0, &[])?);
        }
        loaded.leases = leases;
        Ok(())
    }
}

/// The greatest epoch that was deleted with its lease.
fn last_epoch(deletions: &[Deleted<'_>]) -> Option<Epoch> {
    let last = deletions.iter().filter_map(|deleted| deleted.last);
    last.filter_map(Epoch::new).max()
}

/// By namespace and lease, in the order of the tables.
type Outcomes<'a> = BTreeMap<(&'a str, &'a str), Outcome<'a>>;

/// What all batches together make of one lease.
#[derive(Default)]
pub(super) struct Outcome<'a> {
    /// `None` if nothing is said of the lease, or it is deleted.
    row: Option<Row<'a>>,
    /// What becomes of its retired ids at these revisions, one after the other.
    retired: Vec<(u64, Retired<'a>)>,
    /// What is in its place, terms too, is of a lease that was deleted since.
    was_deleted: bool,
    terms: BTreeMap<u64, terms::Row<'a>>,
}

/// Puts all batches in their places, and forgets terms of a lease beyond the last so many; also of
/// those in `overfull`. Returns how many rows were written or deleted.
pub(super) fn put_in_place(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    most_terms: usize,
    overfull: &BTreeSet<Key>,
) -> rusqlite::Result<usize> {
    let batches = Batches::read(transaction).map_err(corrupt)?;
    meta.revision = batches.follow(meta.revision).map_err(corrupt)?;
    let mut rows = place(transaction, meta, &batches, most_terms)?;
    for key in overfull {
        let key = (key.namespace(), key.lease());
        rows += terms::forget_old(transaction, meta, key, most_terms)?;
    }
    end(transaction, meta)?;
    Ok(rows)
}

/// Ends a transaction that has put all changes up to `meta.revision` in their places.
pub(super) fn end(transaction: &Transaction<'_>, meta: &Meta) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare_cached(DELETE_UP_TO)?;
    delete.execute([meta.revision])?;
    meta.write(&mut transaction.prepare_cached(UPDATE_META)?)
}

/// The same without an end of it: the batches stay, and what is about all leases is not written.
pub(super) fn place(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    batches: &Batches,
    most_terms: usize,
) -> rusqlite::Result<usize> {
    let (outcomes, deletions) = batches.outcome().map_err(corrupt)?;
    meta.floor = meta.floor.max(last_epoch(&deletions));
    let mut rows = deleted::put(transaction, meta, &deletions)?;
    for (key, outcome) in outcomes {
        rows += outcome.put_in_place(transaction, meta, key, most_terms)?;
    }
    Ok(rows)
}

impl<'a> Outcome<'a> {
    /// A lease that was deleted, whatever was before.
    pub(super) fn deleted() -> Self {
        Self {
            was_deleted: true,
            ..Self::default()
        }
    }

    /// The lease became this, but for its retired ids, which became that.
    fn put(&mut self, row: Row<'a>, retired: Retired<'a>) {
        self.retired.push((row.revision, retired));
        self.row = Some(row);
    }

    /// The lease became all of this.
    pub(super) fn put_whole(&mut self, mut row: Row<'a>) {
        let all = std::mem::take(&mut row.retired);
        self.put(row, Retired::All(all));
    }

    /// This was noted of a term.
    pub(super) fn note(&mut self, term: terms::Row<'a>) {
        let earlier = self.terms.remove(&term.epoch);
        let term = earlier.map_or(term, |earlier| term.after(earlier));
        self.terms.insert(term.epoch, term);
    }

    /// The row with all its retired ids, of which these were in its place as of this revision.
    fn whole_row(&mut self, revision: u64, in_place: &[u8]) -> Option<Row<'a>> {
        let mut row = self.row.take()?;
        // All since a deletion is here, whatever of it is in its place.
        let (revision, in_place) = match self.was_deleted {
            true => (0, [].as_slice()),
            false => (revision, in_place),
        };
        let mut list = in_place.as_chunks().0.to_vec();
        for (at, retired) in &self.retired {
            // The others have made it what it is in its place.
            if *at > revision {
                retired.apply(&mut list);
            }
        }
        row.retired = list.into_flattened().into();
        Some(row)
    }

    /// The lease, if there is one now.
    fn into_lease(
        mut self,
        revision: u64,
        in_place: &[u8],
    ) -> Result<Option<(Key, Stored, u64)>, String> {
        let row = self.whole_row(revision, in_place);
        row.map(Row::into_lease).transpose()
    }

    /// Writes what became of the lease and its terms. Returns how many rows were written or deleted.
    pub(super) fn put_in_place(
        mut self,
        transaction: &Transaction<'_>,
        meta: &mut Meta,
        key: (&str, &str),
        most_terms: usize,
    ) -> rusqlite::Result<usize> {
        let (namespace, lease) = key;
        let mut rows = 0;
        if self.row.is_some() || self.was_deleted {
            let mut select = transaction.prepare_cached(SELECT_BEFORE)?;
            let before = select.query_row(params![namespace, lease], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            });
            let before: Option<(u32, u64, Vec<u8>)> = before.optional()?;
            let old = before.as_ref().map(|before| before.0);
            let (_, revision, retired) = before.unwrap_or_default();
            let new = match self.whole_row(revision, &retired) {
                Some(row) => Some(row.write(&mut transaction.prepare_cached(UPSERT)?)?),
                None => {
                    let mut delete = transaction.prepare_cached(DELETE)?;
                    delete.execute(params![namespace, lease])?;
                    None
                }
            };
            meta.account(old, new);
            rows += 1;
        }
        if self.was_deleted {
            rows += terms::delete(transaction, meta, key)?;
        }
        rows += terms::put(transaction, meta, key, self.terms, most_terms)?;
        Ok(rows)
    }
}
