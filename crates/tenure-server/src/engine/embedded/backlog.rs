//! The changes that are only in batches, kept in memory, and the slices in which checkpoints write
//! them to the tables.
//!
//! Leases are in the order of their first change that the tables lack. A slice is one transaction.
//! It writes the first few leases in their current state, and deletes the batches before the first
//! change of the next lease. So a commit waits for one slice at most, and a lease that changed a
//! hundred times is written once.
//!
//! **The backlog is bounded.** Slices begin when the backlog reaches [`BEGIN_AT`]. From then on,
//! each commit is followed by one slice for each [`CHANGES_PER_SLICE`] of its changes. An acquire
//! and a release of a lease change about three rows, so a slice has more room than this many
//! changes need. Some changes need more rows, for example the deletion of many leases with long
//! histories. Then the backlog may reach twice `BEGIN_AT`, and the next commit waits until slices
//! have brought it below that size. Each slice writes a lease or deletes a batch, so that wait
//! ends. The batches therefore have at most twice `BEGIN_AT` plus the last commit, unless the disk
//! has no room for a slice.
//!
//! **The tables are current.** When a change has been in the backlog for [`MAX_AGE`], slices begin,
//! and continue until the tables contain everything that was committed by then.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rusqlite::{OptionalExtension, Transaction};

use super::schema::{DELETE_LEASE, Meta, SELECT_LEASE_CRC, WRITE_LEASE};
use super::{batch_log, deleted, rows, term_rows};
use crate::engine::Batch;
use crate::engine::batch::columns;
use crate::engine::pending::PendingLease;
use crate::model::{Content, LeaseKey, TermRecord};

/// The size of the backlog, in changes or bytes, at which slices begin. In a larger backlog more
/// changes are of the same lease, which is written only once; but a start must read all of them.
pub(super) const BEGIN_AT: Size = Size {
    changes: 4_000,
    bytes: 2 * 1024 * 1024,
};

/// The age of a change at which slices begin: half of the second by which the tables may be behind
/// the log.
const MAX_AGE: Duration = Duration::from_millis(500);

/// The number of rows of leases and terms after which a slice ends. The slice finishes the lease
/// that reaches this number. It deletes at most this many batches. A row takes some 15 us with its
/// share of the pages, so a slice takes about a millisecond. A backlog needs few enough slices that
/// the time of their `fsync`s does not matter.
pub(super) const SLICE: usize = 64;

/// The number of changes in a commit for which one slice follows it.
pub(super) const CHANGES_PER_SLICE: usize = SLICE / 2;

/// The size of a number of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) changes: usize,
    pub(super) bytes: usize,
}

/// The changes that are only in batches.
#[derive(Debug)]
pub(super) struct Backlog {
    leases: HashMap<LeaseKey, PendingLease>,
    /// The leases in the order of their first changes that the tables lack.
    order: VecDeque<LeaseKey>,
    batches: VecDeque<PendingBatch>,
    pub(super) size: Size,
    /// The size at which slices begin.
    begin_at: Size,
    /// The age at which slices begin.
    pub(super) max_age: Duration,
    /// Slices continue until the tables contain this revision.
    drain_to: u64,
    /// Whether the next slice is the first one after a start. It also forgets old terms, because
    /// the store may now be configured to remember fewer.
    pub(super) is_first: bool,
}

/// A committed batch.
#[derive(Debug)]
struct PendingBatch {
    /// The revision of its last change.
    revision: u64,
    size: Size,
    committed_at: Instant,
}

/// The result of writing a slice.
#[derive(Debug, Default)]
pub(super) struct Slice {
    leases: usize,
    batches: usize,
    /// The number of rows that it wrote or deleted.
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
    /// Adds a change of `batch`. The batch itself is added after its changes.
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

    /// Adds a batch with this number of changes, which was committed at this time.
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

    /// Returns whether the tables contain everything.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the number of slices that follow the last commit.
    pub(super) fn slices_due(&self) -> usize {
        let last = self.batches.back();
        last.map_or(0, |batch| batch.size.changes.div_ceil(CHANGES_PER_SLICE))
    }

    /// Returns whether the backlog is large or old enough for a slice.
    pub(super) fn needs_slice(&mut self, now: Instant) -> bool {
        let (Some(first), Some(last)) = (self.batches.front(), self.batches.back()) else {
            return false;
        };
        if now.saturating_duration_since(first.committed_at) >= self.max_age {
            self.drain_to = last.revision;
        }
        self.size.reaches(self.begin_at, 1) || first.revision <= self.drain_to
    }

    /// Returns whether the backlog is so large that nothing may be committed before it is smaller.
    pub(super) const fn is_over_limit(&self) -> bool {
        self.size.reaches(self.begin_at, 2)
    }

    /// Delays the next slice after one that failed, until as many changes again have been added, or
    /// until all current changes reach the maximum age again.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.begin_at = BEGIN_AT;
        self.begin_at.add(self.size);
        self.drain_to = 0;
        for batch in &mut self.batches {
            batch.committed_at = now;
        }
    }

    /// Writes the first leases, until `most_rows` rows are written.
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
        // The revision of the first batch with a change that the tables still lack after this
        // slice.
        let mut first_left = u64::MAX;
        for key in &self.order {
            let Some(pending) = self.leases.get(key) else {
                continue;
            };
            if slice.rows >= most_rows {
                first_left = pending.first;
                break;
            }
            slice.rows += write(pending, transaction, meta, key, most_terms)?;
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

    /// Removes the content of a slice that is durable.
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

/// Writes the lease and its terms. Returns the number of rows that were written or deleted.
fn write(
    pending: &PendingLease,
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
    if pending.deletion.is_some() {
        written += term_rows::delete(transaction, meta, key)?;
    }
    match (&pending.lease, &pending.deletion) {
        (Some((stored, revision)), _) => {
            let columns = columns(key, stored, &stored.retired, *revision);
            written += rows::write(transaction, meta, WRITE_LEASE, &columns)?;
        }
        (None, deletion) => {
            written += transaction.prepare_cached(DELETE_LEASE)?.execute(names)?;
            // A lease that was created again has these ids in its own row. If a start replays
            // the same deletion from a batch, the ids are in two rows, which is harmless.
            let ids = deletion.as_ref().map_or(&[][..], |(_, ids)| ids);
            deleted::insert(transaction, meta, key, ids)?;
        }
    }
    written += term_rows::write(transaction, meta, key, &pending.terms, most_terms)?;
    Ok(written)
}
