//! What is in batches only, as this process remembers it, and how it comes into its place in slices.
//!
//! Leases stand in the order of their first change that is not in its place. A slice puts the first few
//! of them in their places as they are now, in one transaction, and deletes the batches all of whose
//! leases are in their places: those before the first change of the next lease. So each commit waits for
//! a slice at most, and a lease that changed a hundred times is written once.
//!
//! **It can't fall behind for ever.** Slices begin at [`BEGIN_AT`]. From then on a commit is followed by a
//! slice for each [`CHANGES_PER_SLICE`] of its changes. An acquire and a release of a lease change about
//! three rows, so a slice is more than so many changes need, and what was here when slices began is in its
//! place before as much again is committed. Where changes need more (the deletion of many leases with long
//! histories), the next commit waits for as many slices as it takes to come below twice `BEGIN_AT`. Each slice
//! puts a lease in its place or deletes a batch, so that ends; and no more is in batches than twice
//! `BEGIN_AT` and the last commit, but while there is no room on the disk for a slice.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rusqlite::Transaction;
use tenure_core::lease::{LeaseId, Stored};

use super::PAGE;
use super::recent::{self, Deleted, Outcome};
use super::row::{Row, bytes_of};
use super::schema::Meta;
use super::{deleted, terms};
use crate::engine::{Content, Term, Write};
use crate::table::Key;

/// With so many changes in batches, or bytes of them, slices begin. The more there are, the more of them
/// are about one lease, which is written once; but a start reads them all.
pub(super) const BEGIN_AT: Size = Size {
    changes: 4_000,
    bytes: 2 * 1024 * 1024,
};

/// How many rows of leases and terms a slice writes or deletes at most, where one lease alone has no more;
/// and how many batches it deletes. A row takes some 15 us with its share of the pages, so that is about a
/// millisecond, no longer than commits take that many share; and few enough slices that their `fsync`s
/// don't count.
pub(super) const SLICE: usize = 64;

/// After a commit there is one slice for each so many of its changes.
pub(super) const CHANGES_PER_SLICE: usize = SLICE / 2;

/// How much is in batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) changes: usize,
    pub(super) bytes: usize,
}

/// What is in batches only.
#[derive(Debug)]
pub(super) struct Backlog {
    leases: HashMap<Key, Unplaced>,
    /// These leases in the order of their first changes.
    order: VecDeque<Key>,
    batches: VecDeque<Batch>,
    size: Size,
    /// With how much of it slices begin.
    begin_at: Size,
}

/// A batch that was committed.
#[derive(Debug)]
struct Batch {
    /// Of its last change.
    revision: u64,
    size: Size,
}

/// What became of a lease that is not in its place.
#[derive(Debug)]
struct Unplaced {
    /// The first revision that is not in its place.
    first: u64,
    /// `None` if it is deleted, or nothing is said of it but of its terms.
    lease: Option<(Arc<Stored>, u64)>,
    /// What is in its place is of a lease that was deleted since, and these ids of ended terms were left of
    /// it.
    deletion: Option<Vec<LeaseId>>,
    terms: Vec<Term>,
}

/// What a slice has put in place.
#[derive(Debug, Default)]
pub(super) struct Slice {
    leases: usize,
    batches: usize,
    /// How many rows it wrote or deleted.
    pub(super) rows: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            leases: HashMap::new(),
            order: VecDeque::new(),
            batches: VecDeque::new(),
            size: Size::default(),
            begin_at: BEGIN_AT,
        }
    }
}

impl Backlog {
    /// These writes were committed, in a batch of so many bytes.
    pub(super) fn add(&mut self, writes: &[&Write], bytes: usize) {
        let Some(last) = writes.last() else {
            return;
        };
        for write in writes {
            let unplaced = self.leases.entry(write.key.clone()).or_insert_with(|| {
                self.order.push_back(write.key.clone());
                Unplaced::since(write.revision)
            });
            unplaced.add(write);
        }
        let size = Size {
            changes: writes.len(),
            bytes,
        };
        self.size.add(size);
        self.batches.push_back(Batch {
            revision: last.revision,
            size,
        });
    }

    /// Whether all is in its place.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// How many slices the last commit is to be followed by.
    pub(super) fn slices_due(&self) -> usize {
        let last = self.batches.back();
        last.map_or(0, |batch| batch.size.changes.div_ceil(CHANGES_PER_SLICE))
    }

    /// Whether it is large enough for a slice.
    pub(super) const fn is_large(&self) -> bool {
        self.size.reaches(self.begin_at, 1)
    }

    /// Whether it is so large that nothing is to be committed before it is smaller.
    pub(super) const fn is_too_large(&self) -> bool {
        self.size.reaches(self.begin_at, 2)
    }

    /// A slice failed: the next one waits for as much again.
    pub(super) fn put_off(&mut self) {
        self.begin_at = BEGIN_AT;
        self.begin_at.add(self.size);
    }

    /// Puts the first leases in their places.
    pub(super) fn put_slice(
        &self,
        transaction: &Transaction<'_>,
        meta: &mut Meta,
        most_terms: usize,
    ) -> rusqlite::Result<Slice> {
        let mut slice = Slice::default();
        // The first change that is not in its place after this slice.
        let mut first_left = u64::MAX;
        for key in &self.order {
            let Some(unplaced) = self.leases.get(key) else {
                continue;
            };
            if slice.leases > 0 && slice.rows + unplaced.most_rows(most_terms) > SLICE {
                first_left = unplaced.first;
                break;
            }
            let names = (key.namespace(), key.lease());
            let outcome = unplaced.outcome(key);
            slice.rows += outcome.put_in_place(transaction, meta, names, most_terms)?;
            slice.rows += unplaced.put_deletion_in_place(transaction, meta, names)?;
            slice.leases += 1;
        }
        let batches = self.batches.iter();
        let done = batches.take_while(|batch| batch.revision < first_left);
        for batch in done.take(SLICE) {
            slice.batches += 1;
            meta.revision = batch.revision;
        }
        recent::end(transaction, meta)?;
        Ok(slice)
    }

    /// The slice is durable.
    pub(super) fn forget(&mut self, slice: &Slice) {
        for key in self.order.drain(..slice.leases) {
            self.leases.remove(&key);
        }
        for batch in self.batches.drain(..slice.batches) {
            self.size.changes -= batch.size.changes;
            self.size.bytes -= batch.size.bytes;
        }
        self.begin_at = BEGIN_AT;
    }

    #[cfg(test)]
    pub(super) const fn size(&self) -> Size {
        self.size
    }
}

impl Size {
    const fn reaches(self, limit: Self, times: usize) -> bool {
        self.changes >= times * limit.changes || self.bytes >= times * limit.bytes
    }

    const fn add(&mut self, other: Self) {
        self.changes += other.changes;
        self.bytes += other.bytes;
    }
}

impl Unplaced {
    const fn since(first: u64) -> Self {
        Self {
            first,
            lease: None,
            deletion: None,
            terms: Vec::new(),
        }
    }

    fn add(&mut self, write: &Write) {
        match &write.content {
            Content::Lease(stored) => self.lease = Some((Arc::clone(stored), write.revision)),
            Content::Deleted(deleted) => {
                *self = Self {
                    deletion: Some(deleted.retired.clone()),
                    ..Self::since(self.first)
                }
            }
        }
        self.terms.extend(write.term.as_deref().cloned());
    }

    /// How many rows it takes at most to put it in its place: its own, the segments that its terms fill
    /// and those at the ends, and as many that are forgotten for them.
    fn most_rows(&self, most_terms: usize) -> usize {
        let segments = |terms: usize| match terms.min(most_terms) {
            0 => 0,
            terms => terms.div_ceil(terms::SEGMENT) + 1,
        };
        let deleted = if self.deletion.is_some() {
            most_terms
        } else {
            0
        };
        let metadata = self.lease.as_ref().map_or(0, |(stored, _)| {
            let texts = stored.metadata.iter();
            texts.map(|(key, value)| key.len() + value.len()).sum()
        });
        1 + metadata / PAGE + segments(deleted) + 2 * segments(self.terms.len())
    }

    /// Keeps the ids that are left of a lease that was deleted. A lease that was made again has them in its
    /// own row. If the same deletion is in a batch that a start finds, its row stands twice, which is harmless.
    fn put_deletion_in_place(
        &self,
        transaction: &Transaction<'_>,
        meta: &mut Meta,
        (namespace, lease): (&str, &str),
    ) -> rusqlite::Result<usize> {
        let (None, Some(ids)) = (&self.lease, &self.deletion) else {
            return Ok(0);
        };
        let deletion = Deleted {
            namespace,
            lease,
            last: None,
            retired: &bytes_of(ids),
        };
        deleted::put(transaction, meta, &[deletion])
    }

    fn outcome<'a>(&'a self, key: &'a Key) -> Outcome<'a> {
        let mut outcome = match self.deletion {
            Some(_) => Outcome::deleted(),
            None => Outcome::default(),
        };
        if let Some((stored, revision)) = &self.lease {
            outcome.put_whole(Row::of(key, stored, &stored.retired, *revision));
        }
        for term in &self.terms {
            outcome.note(terms::Row::of(key, term));
        }
        outcome
    }
}
