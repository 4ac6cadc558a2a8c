//! The changes that are in batches and not in their places, and the order in which they go there.
//!
//! Leases are in the order of their first change that has no place. A lease that changed a hundred
//! times is written once. The edits of a lease may need several appends: the place of the lease
//! itself is written last, so a lease with a new revision has all its terms.
//!
//! All changes in memory stay visible to readers of terms until an append has written them: a
//! reader looks here first and then at the places.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use tenure_core::Epoch;

use super::log::{Edit, LogError, MOST_EDITS, SharedLog};
use super::pending::{PendingLease, SEGMENT, segments};
use super::places::{self, DeletedLease, Segment};
use super::shadow::AppliedBatch;
use crate::model::{Content, DELETED_LIMIT, LeaseKey, TermRecord};

/// The size of the backlog, in changes or bytes, from which commits wait for it. A server that was
/// just started and takes over reads all batches of the backlog.
pub(super) const LIMIT: Size = Size {
    changes: 8_000,
    bytes: 2 * 1024 * 1024,
};

/// The size of the batches that stay in the log although their changes are in their places, for
/// standbys that have not read them yet.
pub(super) const KEPT: Size = Size {
    changes: 4_096,
    bytes: 16 * 1024 * 1024,
};

/// The number of leases whose segments are remembered. The segments of any other lease are read
/// before terms of it are written.
const KNOWN_SEGMENTS: usize = 20_000;

/// The size of a number of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) changes: usize,
    pub(super) bytes: usize,
}

/// The changes that have no place.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    leases: HashMap<LeaseKey, PendingLease>,
    /// The leases in the order of their first changes.
    order: VecDeque<LeaseKey>,
    /// Leases whose edits are being written, in the same order.
    ready: VecDeque<Ready>,
    /// Batches with changes that have no place.
    batches: VecDeque<LoggedSize>,
    pub(super) size: Size,
    /// Batches before these that stay in the log.
    kept: VecDeque<LoggedSize>,
    kept_size: Size,
    /// The position up to which everything is in its place.
    pub(super) placed: Position,
}

/// The place of a batch in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) sequence: u64,
    pub(super) revision: u64,
}

#[derive(Clone, Copy, Debug)]
struct LoggedSize {
    at: Position,
    size: Size,
}

/// A lease whose edits are being written.
#[derive(Debug)]
struct Ready {
    key: LeaseKey,
    pending: PendingLease,
    /// The edits that are not written yet; `None` until they are made.
    edits: Option<VecDeque<Edit>>,
}

/// The edits of one append, and the state after it.
#[derive(Debug, Default)]
pub(super) struct Slice {
    pub(super) edits: Vec<Edit>,
    pub(super) placed: Position,
    /// The log keeps the batches from this sequence number on.
    pub(super) kept: u64,
    /// The number of batches whose changes then all have a place.
    batches: usize,
    /// The number of kept batches that are deleted.
    deleted: usize,
}

/// The segments of leases, and the deleted leases that have a place.
#[derive(Debug)]
pub(super) struct Tables {
    /// The number of terms of a lease that the store remembers.
    max_history: usize,
    segments: HashMap<LeaseKey, Segments>,
    /// The revisions of the deletions that have a place.
    deleted: BTreeSet<u64>,
}

/// The segments of a lease, as they are after all edits that were made.
#[derive(Clone, Debug, Default)]
struct Segments {
    /// The first epochs, in ascending order.
    firsts: VecDeque<u64>,
    /// The terms of the newest segment.
    newest: Vec<TermRecord>,
}

impl Backlog {
    /// Creates the backlog of a new owner: the changes that the former owner left without a place.
    pub(super) fn after(placed: Position, recent: impl IntoIterator<Item = AppliedBatch>) -> Self {
        let mut backlog = Self {
            placed,
            ..Self::default()
        };
        // The size of the earlier batches is not known. They are deleted before all others.
        backlog.kept.push_back(LoggedSize {
            at: placed,
            size: Size::default(),
        });
        for batch in recent {
            let at = Position {
                sequence: batch.sequence,
                revision: batch.revision,
            };
            let count = batch.changes.len();
            for change in batch.changes {
                let term = change.term.as_ref();
                backlog.add_change(at, &change.key, change.revision, &change.content, term);
            }
            backlog.add_batch(at, count, batch.bytes);
        }
        backlog
    }

    /// Adds a change of the batch at this position. The batch is added after its changes.
    pub(super) fn add_change(
        &mut self,
        at: Position,
        key: &LeaseKey,
        revision: u64,
        content: &Content,
        term: Option<&TermRecord>,
    ) {
        if let Some(pending) = self.leases.get_mut(key) {
            return pending.add(revision, content, term);
        }
        let mut pending = PendingLease {
            first: at.sequence,
            ..PendingLease::default()
        };
        pending.add(revision, content, term);
        self.order.push_back(key.clone());
        self.leases.insert(key.clone(), pending);
    }

    /// Adds a batch with this number of changes and bytes.
    pub(super) fn add_batch(&mut self, at: Position, changes: usize, bytes: usize) {
        let size = Size { changes, bytes };
        self.size.add(size);
        self.batches.push_back(LoggedSize { at, size });
    }

    /// Returns whether everything is in its place.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns whether the backlog has reached this part of its limit.
    pub(super) const fn is_over(&self, part: usize) -> bool {
        self.size.changes >= LIMIT.changes / part || self.size.bytes >= LIMIT.bytes / part
    }

    /// Takes the next lease, if fewer than `most` edits are ready. The caller makes its edits.
    pub(super) fn take_lease(&mut self, most: usize) -> Option<(LeaseKey, PendingLease)> {
        if let Some(last) = self.ready.back().filter(|last| last.edits.is_none()) {
            return Some((last.key.clone(), last.pending.clone()));
        }
        let edits = self.ready.iter().flat_map(|ready| &ready.edits);
        if edits.map(VecDeque::len).sum::<usize>() >= most {
            return None;
        }
        let key = self.order.pop_front()?;
        let pending = self.leases.remove(&key)?;
        self.ready.push_back(Ready {
            key: key.clone(),
            pending: pending.clone(),
            edits: None,
        });
        Some((key, pending))
    }

    /// Notes the edits of the lease that was taken last.
    pub(super) fn set_edits(&mut self, edits: Vec<Edit>) {
        if let Some(last) = self.ready.back_mut() {
            last.edits = Some(edits.into());
        }
    }

    /// Returns the first edits, at most `most` of them with at most `bytes` bytes, and the state of
    /// the log once they are written.
    pub(super) fn slice(&self, most: usize, bytes: usize) -> Slice {
        let most = most.min(MOST_EDITS);
        let (mut slice, mut left) = (Slice::default(), bytes);
        let mut keys = HashSet::new();
        let mut first_left = None;
        'leases: for ready in &self.ready {
            for edit in ready.edits.iter().flatten() {
                let (key, size) = match edit {
                    Edit::Put(place) => (&place.key, place.key.len() + place.value.len()),
                    Edit::Delete(key) => (key, key.len()),
                };
                // An append has each key once.
                if slice.edits.len() == most || size > left || !keys.insert(key) {
                    first_left = Some(ready.pending.first);
                    break 'leases;
                }
                left -= size;
                slice.edits.push(edit.clone());
            }
            if ready.edits.is_none() {
                first_left = Some(ready.pending.first);
                break;
            }
        }
        let next = || self.leases.get(self.order.front()?).map(|it| it.first);
        let first_left = first_left.or_else(next).unwrap_or(u64::MAX);
        slice.placed = self.placed;
        let batches = self.batches.iter();
        let mut kept_size = self.kept_size;
        for batch in batches.take_while(|batch| batch.at.sequence < first_left) {
            slice.placed = batch.at;
            slice.batches += 1;
            kept_size.add(batch.size);
        }
        let kept = self.kept.iter().chain(&self.batches);
        slice.kept = 0;
        for batch in kept.take(self.kept.len() + slice.batches) {
            if !kept_size.is_over(KEPT) {
                break;
            }
            kept_size.remove(batch.size);
            slice.deleted += 1;
            slice.kept = batch.at.sequence + 1;
        }
        slice
    }

    /// Removes the content of a slice that was appended.
    pub(super) fn remove(&mut self, slice: &Slice) {
        let mut written = slice.edits.len();
        while let Some(ready) = self.ready.front_mut() {
            let Some(edits) = &mut ready.edits else {
                break;
            };
            let of_lease = written.min(edits.len());
            edits.drain(..of_lease);
            written -= of_lease;
            if !edits.is_empty() {
                break;
            }
            self.ready.pop_front();
        }
        for batch in self.batches.drain(..slice.batches) {
            self.size.remove(batch.size);
            self.kept_size.add(batch.size);
            self.kept.push_back(batch);
        }
        for batch in self.kept.drain(..slice.deleted) {
            self.kept_size.remove(batch.size);
        }
        self.placed = slice.placed;
    }
}

impl Size {
    const fn is_over(self, limit: Self) -> bool {
        self.changes > limit.changes || self.bytes > limit.bytes
    }

    const fn add(&mut self, other: Self) {
        self.changes += other.changes;
        self.bytes += other.bytes;
    }

    const fn remove(&mut self, other: Self) {
        self.changes = self.changes.saturating_sub(other.changes);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

impl Tables {
    pub(super) fn new(max_history: usize, deleted: impl IntoIterator<Item = u64>) -> Self {
        Self {
            max_history,
            segments: HashMap::new(),
            deleted: deleted.into_iter().collect(),
        }
    }

    /// Makes the edits for the changes of a lease. The place of the lease is the last one.
    ///
    /// # Errors
    ///
    /// The segments of the lease can't be read; nothing has changed.
    pub(super) fn edits(
        &mut self,
        log: &mut dyn SharedLog,
        key: &LeaseKey,
        pending: &PendingLease,
    ) -> Result<Vec<Edit>, LogError> {
        // A key is edited once in an append, so the edits of this lease have each key once.
        let mut edits = BTreeMap::new();
        let is_of_terms = !pending.terms.is_empty() || pending.deletion.is_some();
        if is_of_terms && self.max_history > 0 {
            let mut segments = match self.segments.get(key) {
                Some(segments) => segments.clone(),
                None => read_segments(log, key)?,
            };
            segments.edit(key, pending, self.max_history, &mut edits);
            if self.segments.len() >= KNOWN_SEGMENTS {
                self.segments.clear();
            }
            self.segments.insert(key.clone(), segments);
        }
        let mut edits: Vec<Edit> = edits.into_values().collect();
        let of_lease = match (&pending.lease, &pending.deletion) {
            (Some((stored, revision)), _) => Edit::Put(places::lease(key, stored, *revision)),
            (None, deletion) => {
                if let Some((revision, retired)) = deletion {
                    self.note_deleted(key, *revision, retired, &mut edits);
                }
                Edit::Delete(places::lease_key(key))
            }
        };
        edits.push(of_lease);
        Ok(edits)
    }

    fn note_deleted(
        &mut self,
        key: &LeaseKey,
        revision: u64,
        retired: &[tenure_core::lease::LeaseId],
        edits: &mut Vec<Edit>,
    ) {
        if retired.is_empty() {
            return;
        }
        edits.push(Edit::Put(places::deleted(&DeletedLease {
            key: key.clone(),
            revision,
            retired: retired.to_vec(),
        })));
        self.deleted.insert(revision);
        while self.deleted.len() > DELETED_LIMIT
            && let Some(oldest) = self.deleted.pop_first()
        {
            edits.push(Edit::Delete(places::deleted_key(oldest)));
        }
    }
}

impl Segments {
    /// Applies the changes of a lease, and adds the edits that they need.
    fn edit(
        &mut self,
        key: &LeaseKey,
        pending: &PendingLease,
        most: usize,
        edits: &mut BTreeMap<String, Edit>,
    ) {
        let mut delete = |first: u64| {
            let place = places::segment_key(key, first);
            (place.clone(), Edit::Delete(place))
        };
        if pending.deletion.is_some() {
            edits.extend(self.firsts.drain(..).map(&mut delete));
            self.newest.clear();
        }
        // Older terms would be forgotten at once.
        let terms = &pending.terms[pending.terms.len().saturating_sub(most)..];
        if terms.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.newest);
        if !all.is_empty() {
            self.firsts.pop_back();
        }
        for term in terms {
            term.clone().add_to(&mut all);
        }
        for terms in all.chunks(SEGMENT) {
            let first_epoch = terms.first().map_or(0, |first| first.epoch.get());
            let terms = terms.to_vec();
            self.firsts.push_back(first_epoch);
            let segment = Segment { first_epoch, terms };
            let place = places::segment(key, &segment);
            edits.insert(place.key.clone(), Edit::Put(place));
            self.newest = segment.terms;
        }
        let kept = segments(self.newest.len(), most);
        let old = self.firsts.len().saturating_sub(kept);
        edits.extend(self.firsts.drain(..old).map(delete));
    }
}

/// Reads the segments of a lease.
fn read_segments(log: &mut dyn SharedLog, key: &LeaseKey) -> Result<Segments, LogError> {
    let mut segments = Segments::default();
    let mut range = places::terms_up_to(key, Epoch::MAX);
    loop {
        let page = log.places(&range)?;
        if segments.firsts.is_empty()
            && let Some(newest) = page.first()
        {
            // Damaged terms are of no use. They stay where they are, for the operator.
            match places::read_segment(key, newest) {
                Ok(segment) => segments.newest = segment.terms,
                Err(error) => tracing::error!(%error, "the terms of a lease can't be read"),
            }
        }
        for place in &page {
            let first = place.key.rsplit('/').next();
            let first: Option<u64> = first.and_then(|it| it.parse().ok());
            segments.firsts.extend(first);
        }
        match page.into_iter().next_back() {
            Some(last) => range.to = last.key,
            None => break,
        }
    }
    segments.firsts.make_contiguous().reverse();
    Ok(segments)
}
