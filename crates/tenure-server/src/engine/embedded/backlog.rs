//! The changes that are in batches only, as this process remembers them, and the slices in which checkpoints
//! bring them into the tables.
//!
//! Leases are in the order of their first change that the tables lack. A slice writes the first few of them
//! as they are now, in one transaction, and deletes the batches before the first change of the next lease. So
//! a commit waits for a slice at most, and a lease that changed a hundred times is written once.
//!
//! **The backlog is bounded.** Slices begin at [`BEGIN_AT`]. From then on a commit is followed by a slice for
//! each [`CHANGES_PER_SLICE`] of its changes. An acquire and a release of a lease change about three rows, so
//! a slice is more than so many changes need. If changes need more (the deletion of many leases with long
//! histories), the next commit waits for as many slices as it takes to come below twice `BEGIN_AT`. Each slice
//! writes a lease or deletes a batch, so that ends. So batches have at most twice `BEGIN_AT` and the last
//! commit, unless the disk has no room for a slice.
//!
//! **The tables are current.** A change is in the backlog for about [`MAX_AGE`]: then slices begin, and go on
//! until the tables contain everything that was committed by then.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{OptionalExtension, Transaction};
use tenure_core::lease::{LeaseId, Stored};

use super::schema::{DELETE_LEASE, Meta, SELECT_LEASE_CRC, WRITE_LEASE};
use super::{batch_log, deleted, rows, term_rows};
use crate::engine::Batch;
use crate::engine::batch::columns;
use crate::model::{Content, LeaseKey, TermRecord};

/// Slices begin at so many changes, or bytes of them. The more there are, the more of them are of one lease,
/// which is written once; but a start reads them all.
pub(super) const BEGIN_AT: Size = Size {
    changes: 4_000,
    bytes: 2 * 1024 * 1024,
};

/// Slices begin when a change is this old: half of the second by which the tables may be behind the log.
const MAX_AGE: Duration = Duration::from_millis(500);

/// A slice ends with the lease with which it has written or deleted so many rows of leases and terms. It deletes
/// at most so many batches. A row takes some 15 us with its share of the pages, so a slice takes about a
/// millisecond, and there are few enough of them that their `fsync`s don't count.
pub(super) const SLICE: usize = 64;

/// A commit is followed by one slice for each so many of its changes.
pub(super) const CHANGES_PER_SLICE: usize = SLICE / 2;

/// The size of some changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) changes: usize,
    pub(super) bytes: usize,
}

/// The changes that are in batches only.
#[derive(Debug)]
pub(super) struct Backlog {
    leases: HashMap<LeaseKey, PendingLease>,
    /// The leases in the order of their first changes.
    order: VecDeque<LeaseKey>,
    batches: VecDeque<PendingBatch>,
    pub(super) size: Size,
    /// The size at which slices begin.
    begin_at: Size,
    /// The age at which slices begin.
    pub(super) max_age: Duration,
    /// Slices go on until the tables contain this revision.
    drain_to: u64,
    /// The first slice after a start forgets old terms: the store may remember fewer than it did.
    pub(super) is_first: bool,
}

/// A batch that was committed.
#[derive(Debug)]
struct PendingBatch {
    /// Of its last change.
    revision: u64,
    size: Size,
    committed_at: Instant,
}

/// The changes of a lease since its version in the tables.
#[derive(Debug, Default)]
pub(super) struct PendingLease {
    /// The revision of the first batch with a change that the tables lack.
    first: u64,
    /// `None` if it was deleted.
    lease: Option<(Arc<Stored>, u64)>,
    /// The tables have a lease that was deleted since, and these were the ids of its ended terms.
    deletion: Option<Vec<LeaseId>>,
    terms: Vec<TermRecord>,
}

/// The result of writing a slice.
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
            max_age: MAX_AGE,
            drain_to: 0,
            is_first: false,
        }
    }
}

impl Backlog {
    /// A batch has this change, and is added after it.
    pub(super) fn add_change(
        &mut self,
        batch: &Batch,
        key: &LeaseKey,
        revision: u64,
        content: &Content,
        term: Option<&TermRecord>,
    ) {
        if let Some(pending) = self.leases.get_mut(key) {
            return pending.add(revision, content, term);
        }
        let mut pending = PendingLease {
            first: batch.revision,
            ..PendingLease::default()
        };
        pending.add(revision, content, term);
        self.order.push_back(key.clone());
        self.leases.insert(key.clone(), pending);
    }

    /// A batch with so many changes was committed at this time.
    pub(super) fn add_batch(&mut self, batch: &Batch, changes: usize, committed_at: Instant) {
        let size = Size {
            changes,
            bytes: batch.changes.len(),
        };
        self.size.add(size);
        self.batches.push_back(PendingBatch {
            revision: batch.revision,
            size,
            committed_at,
        });
    }

    /// Whether the tables contain everything.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// How many slices follow the last commit.
    pub(super) fn slices_due(&self) -> usize {
        let last = self.batches.back();
        last.map_or(0, |batch| batch.size.changes.div_ceil(CHANGES_PER_SLICE))
    }

    /// Whether it is large or old enough for a slice.
    pub(super) fn needs_slice(&mut self, now: Instant) -> bool {
        let (Some(first), Some(last)) = (self.batches.front(), self.batches.back()) else {
            return false;
        };
        if now.saturating_duration_since(first.committed_at) >= self.max_age {
            self.drain_to = last.revision;
        }
        self.size.reaches(self.begin_at, 1) || first.revision <= self.drain_to
    }

    /// Whether it is so large that nothing may be committed before it is smaller.
    pub(super) const fn is_over_limit(&self) -> bool {
        self.size.reaches(self.begin_at, 2)
    }

    /// A slice failed: the next one waits for as many changes again, or until all of these are old.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.begin_at = BEGIN_AT;
        self.begin_at.add(self.size);
        self.drain_to = 0;
        for batch in &mut self.batches {
            batch.committed_at = now;
        }
    }

    /// Writes the first leases, until it has written so many rows.
    pub(super) fn write_slice(
        &self,
        transaction: &Transaction<'_>,
        meta: &mut Meta,
        most_terms: usize,
        most_rows: usize,
    ) -> rusqlite::Result<Slice> {
        let mut slice = Slice::default();
        if self.is_first {
            term_rows::forget_old(transaction, meta, most_terms)?;
        }
        // The first batch with a change that the tables lack after this slice.
        let mut first_left = u64::MAX;
        for key in &self.order {
            let Some(pending) = self.leases.get(key) else {
                continue;
            };
            if slice.rows >= most_rows {
                first_left = pending.first;
                break;
            }
            slice.rows += pending.write(transaction, meta, key, most_terms)?;
            slice.leases += 1;
        }
        let batches = self.batches.iter();
        let done = batches.take_while(|batch| batch.revision < first_left);
        for batch in done.take(most_rows) {
            slice.batches += 1;
            meta.revision = batch.revision;
        }
        batch_log::delete_up_to(transaction, meta.revision)?;
        meta.write(transaction)?;
        Ok(slice)
    }

    /// The slice is durable.
    pub(super) fn remove(&mut self, slice: &Slice) {
        for key in self.order.drain(..slice.leases) {
            self.leases.remove(&key);
        }
        for batch in self.batches.drain(..slice.batches) {
            self.size.changes -= batch.size.changes;
            self.size.bytes -= batch.size.bytes;
        }
        self.begin_at = BEGIN_AT;
        self.is_first = false;
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

impl PendingLease {
    pub(super) fn add(&mut self, revision: u64, content: &Content, term: Option<&TermRecord>) {
        match content {
            Content::Lease(stored) => self.lease = Some((Arc::clone(stored), revision)),
            Content::Deleted(deleted) => {
                *self = Self {
                    first: self.first,
                    deletion: Some(deleted.retired.clone()),
                    ..Self::default()
                }
            }
        }
        if let Some(term) = term {
            term.clone().add_to(&mut self.terms);
        }
    }

    /// The terms that have changed, oldest first; and whether all earlier ones were deleted.
    pub(super) fn into_terms(self) -> (Vec<TermRecord>, bool) {
        (self.terms, self.deletion.is_some())
    }

    /// Writes the lease and its terms. Returns how many rows were written or deleted.
    fn write(
        &self,
        transaction: &Transaction<'_>,
        meta: &mut Meta,
        key: &LeaseKey,
        most_terms: usize,
    ) -> rusqlite::Result<usize> {
        let names = [key.namespace(), key.lease()];
        let mut select = transaction.prepare_cached(SELECT_LEASE_CRC)?;
        if let Some(crc) = select.query_row(names, |row| row.get(0)).optional()? {
            meta.remove(crc);
        }
        let mut written = 0;
        if self.deletion.is_some() {
            written += term_rows::delete(transaction, meta, key)?;
        }
        match (&self.lease, &self.deletion) {
            (Some((stored, revision)), _) => {
                let columns = columns(key, stored, &stored.retired, *revision);
                written += rows::write(transaction, meta, WRITE_LEASE, &columns)?;
            }
            (None, deletion) => {
                written += transaction.prepare_cached(DELETE_LEASE)?.execute(names)?;
                // A lease that was made again has the ids in its own row. If a start finds the same deletion in
                // a batch, it has two rows, which is harmless.
                let ids = deletion.as_deref().unwrap_or_default();
                deleted::insert(transaction, meta, key, ids)?;
            }
        }
        written += term_rows::write(transaction, meta, key, &self.terms, most_terms)?;
        Ok(written)
    }
}
