//! A follower's copy of the leases, made from the places and then from the batches.
//!
//! The places are read while their owner writes them, several ranges of them at the same time, so
//! the copy first has leases of different moments. That is harmless: [`apply`] passes over each
//! change that a lease has already, and the batches since before the first read have all later ones.
//! The copy is right when all batches up to a head that was read after the last place are applied.
//! No read of a place is stale, whichever member of the service answers: it shows at least what had
//! a place as of the first head.

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use tenure_core::lease::LeaseId;

use super::head::ContentRecord;
use super::log::{LogError, LoggedBatch, Place, PlaceRange, SharedLog};
use super::places::{self, BadPlace, DeletedLease};
use super::replay::{Leases, apply};
use crate::engine::entry::LoggedChange;
use crate::engine::{Batch, Loaded};
use crate::model::{Content, History, LeaseKey};

/// A copy of the leases in a shared log.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    phase: Phase,
    leases: Leases,
    /// The deleted leases by the revisions of their deletions.
    deleted: BTreeMap<u64, DeletedLease>,
    /// The terms. The batches since the first read have all later ones.
    history: History,
    /// The revision of the last batch that was applied.
    revision: u64,
    /// Its sequence number.
    sequence: u64,
    /// The changes of batches that are not all in their places.
    recent: VecDeque<AppliedBatch>,
    /// Places of leases that were read and not decoded yet.
    encoded: Vec<Place>,
    /// Batches that were read and not applied yet.
    unapplied: Vec<Unapplied>,
}

/// The progress of a copy.
#[derive(Debug, Default)]
enum Phase {
    /// Nothing was read.
    #[default]
    Empty,
    /// The leases in these ranges are to be read, and those in [`Shadow::encoded`] to be decoded.
    Leases(Vec<PlaceRange>),
    /// The deleted leases after this key are to be read.
    Deleted(Option<String>),
    /// The terms after this key are to be read.
    Terms(Option<String>),
    /// All places were read; some batches may be missing.
    Places,
    /// The copy was right as of [`Shadow::revision`].
    Right,
}

/// A batch that was read and not applied yet.
#[derive(Debug)]
struct Unapplied {
    sequence: u64,
    /// The number of its bytes in the log.
    bytes: usize,
    batch: Batch,
}

/// The changes of a batch that the copy lacked.
#[derive(Debug)]
pub(super) struct AppliedBatch {
    pub(super) sequence: u64,
    pub(super) revision: u64,
    /// The number of its bytes in the log.
    pub(super) bytes: usize,
    pub(super) changes: Vec<LoggedChange>,
}

/// The content of a copy.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) loaded: Loaded,
    pub(super) recent: VecDeque<AppliedBatch>,
    /// The revisions of the deletions that have a place.
    pub(super) deleted: Vec<u64>,
}

/// The progress of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copying {
    /// The copy has everything up to the head.
    Right,
    /// The copy lacks something, and a further step reads more.
    More,
    /// The places were read: a further step needs a head that is read now.
    NeedsHead,
}

/// The reason why a step failed. The copy begins again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CopyError {
    /// The service did not answer, or refused. The copy stays as it is.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log no longer reaches back to the copy, or its content does not fit together.
    #[error("{0}")]
    NotWhole(String),
}

impl From<BadPlace> for CopyError {
    fn from(place: BadPlace) -> Self {
        Self::NotWhole(place.to_string())
    }
}

impl Shadow {
    /// Returns the number of revisions that the copy lacks; `None` if it was never right.
    pub(super) const fn behind(&self, content: &ContentRecord) -> Option<u64> {
        match self.phase {
            Phase::Right => Some(content.revision.saturating_sub(self.revision)),
            _ => None,
        }
    }

    /// Reads one page of what the copy lacks, or one page of each of some ranges of leases. `content` is that
    /// of a head with this sequence number.
    ///
    /// # Errors
    ///
    /// [`CopyError::NotWhole`] has emptied the copy.
    pub(super) fn step(
        &mut self,
        log: &mut dyn SharedLog,
        content: &ContentRecord,
        head: u64,
    ) -> Result<Copying, CopyError> {
        let stepped = self.try_step(log, content, head);
        if let Err(CopyError::NotWhole(_)) = stepped {
            *self = Self::default();
        }
        stepped
    }

    fn try_step(
        &mut self,
        log: &mut dyn SharedLog,
        content: &ContentRecord,
        head: u64,
    ) -> Result<Copying, CopyError> {
        match &self.phase {
            Phase::Empty => {
                // All changes after these are in batches, whatever the places contain by then.
                (self.sequence, self.revision) = (content.placed, content.placed_revision);
                let ranges = log.ranges(content.leases);
                self.phase = Phase::Leases(places::lease_ranges(ranges));
                Ok(Copying::More)
            }
            Phase::Leases(ranges) => {
                let ranges = ranges.clone();
                self.read_leases(log, &ranges)
            }
            Phase::Deleted(after) => {
                let page = log.places(&places::all("deleted/", after.as_deref()))?;
                for place in &page {
                    let deleted = places::read_deleted(place)?;
                    self.deleted.insert(deleted.revision, deleted);
                }
                match page.into_iter().next_back() {
                    Some(last) => {
                        self.phase = Phase::Deleted(Some(last.key));
                        Ok(Copying::More)
                    }
                    None => {
                        self.phase = Phase::Terms(None);
                        Ok(Copying::More)
                    }
                }
            }
            Phase::Terms(after) => {
                let page = log.places(&places::all("term/", after.as_deref()))?;
                for place in &page {
                    let (key, terms) = places::read_terms(place)?;
                    for term in terms {
                        self.history.record(&key, term);
                    }
                }
                match page.into_iter().next_back() {
                    Some(last) => {
                        self.phase = Phase::Terms(Some(last.key));
                        Ok(Copying::More)
                    }
                    None => {
                        self.phase = Phase::Places;
                        Ok(Copying::NeedsHead)
                    }
                }
            }
            Phase::Places | Phase::Right => self.read_batches(log, content, head),
        }
    }

    /// Reads pages of these ranges of leases. Meanwhile another thread decodes the places that the
    /// last step has read.
    fn read_leases(
        &mut self,
        log: &mut dyn SharedLog,
        ranges: &[PlaceRange],
    ) -> Result<Copying, CopyError> {
        let encoded = std::mem::take(&mut self.encoded);
        let decode = || encoded.iter().map(places::read_lease).collect();
        let (pages, leases) = thread::scope(|scope| {
            let decodes = thread::Builder::new().spawn_scoped(scope, decode);
            let pages = match ranges {
                [] => Vec::new(),
                ranges => log.pages(ranges),
            };
            // If no thread starts, this one decodes the leases.
            let leases = decodes.map_or_else(|_| Ok(decode()), ScopedJoinHandle::join);
            (pages, leases)
        });
        let leases: Result<Vec<_>, BadPlace> = leases.unwrap_or_else(|panic| resume_unwind(panic));
        for (key, stored, revision) in leases? {
            self.leases.insert(key, (stored.into(), revision));
        }
        let (read, further) = ranges.split_at(pages.len());
        let (mut rest, mut failure) = (Vec::new(), None);
        for (range, page) in read.iter().zip(pages) {
            match page {
                Ok(page) => {
                    rest.extend(places::rest(range, &page));
                    self.encoded.extend(page.places);
                }
                // Only this page is read again.
                Err(error) => {
                    rest.push(range.clone());
                    failure = Some(error);
                }
            }
        }
        rest.extend_from_slice(further);
        self.phase = match rest.is_empty() && self.encoded.is_empty() {
            true => Phase::Deleted(None),
            false => Phase::Leases(rest),
        };
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(Copying::More),
        }
    }

    /// Reads a page of batches, up to this head.
    fn read_batches(
        &mut self,
        log: &mut dyn SharedLog,
        content: &ContentRecord,
        head: u64,
    ) -> Result<Copying, CopyError> {
        let last = self.unapplied.last();
        let (mut sequence, mut revision) = (self.sequence, self.revision);
        if let Some(last) = last {
            (sequence, revision) = (last.sequence, last.batch.revision);
        }
        let mut is_at_end = revision == content.revision;
        if !is_at_end {
            let page = log.batches(sequence)?;
            is_at_end = page.is_empty();
            for LoggedBatch { sequence, bytes } in page {
                // The head that is known does not vouch for later batches.
                if sequence > head {
                    is_at_end = true;
                    break;
                }
                let batch = Batch::from_bytes(&bytes).map_err(CopyError::NotWhole)?;
                if batch.previous != revision {
                    return Err(CopyError::NotWhole(format!(
                        "the batch after revision {revision} is missing: the next one follows \
                         revision {}",
                        batch.previous
                    )));
                }
                revision = batch.revision;
                self.unapplied.push(Unapplied {
                    sequence,
                    bytes: bytes.len(),
                    batch,
                });
            }
        }
        // A lease that is deleted in a batch may have no place, so the changes before the deletion
        // are applied only together with it: all batches at once, if the places were just read.
        if matches!(self.phase, Phase::Right) || is_at_end || revision == content.revision {
            self.apply()?;
        }
        if self.revision == content.revision {
            self.check(content)?;
            self.phase = Phase::Right;
            self.trim(content);
            return Ok(Copying::Right);
        }
        match is_at_end {
            false => Ok(Copying::More),
            true => Err(CopyError::NotWhole(format!(
                "the log ends at revision {}, and its head is at revision {}",
                self.revision, content.revision
            ))),
        }
    }

    /// Applies the batches that were read.
    fn apply(&mut self) -> Result<(), CopyError> {
        let mut changes = Vec::with_capacity(self.unapplied.len());
        for unapplied in &self.unapplied {
            changes.push(unapplied.batch.changes().map_err(CopyError::NotWhole)?);
        }
        for change in changes.iter().flatten() {
            if let Content::Deleted(deleted) = &change.content {
                self.note_deleted(&change.key, change.revision, &deleted.retired);
                self.history.forget(&change.key);
            }
            if let Some(term) = &change.term {
                self.history.record(&change.key, term.clone());
            }
        }
        apply(&mut changes, &mut self.leases).map_err(CopyError::NotWhole)?;
        for (batch, changes) in self.unapplied.drain(..).zip(changes) {
            (self.sequence, self.revision) = (batch.sequence, batch.batch.revision);
            self.recent.push_back(AppliedBatch {
                sequence: self.sequence,
                revision: self.revision,
                bytes: batch.bytes,
                changes,
            });
        }
        Ok(())
    }

    fn note_deleted(&mut self, key: &LeaseKey, revision: u64, retired: &[LeaseId]) {
        if retired.is_empty() {
            return;
        }
        let deleted = DeletedLease {
            key: key.clone(),
            revision,
            retired: retired.to_vec(),
        };
        self.deleted.insert(revision, deleted);
        while self.deleted.len() > crate::model::DELETED_LIMIT {
            self.deleted.pop_first();
        }
    }

    /// Checks the content as of the head.
    fn check(&self, content: &ContentRecord) -> Result<(), CopyError> {
        if self.leases.len() as u64 != content.leases {
            return Err(CopyError::NotWhole(format!(
                "the log has {} leases and should have {}",
                self.leases.len(),
                content.leases
            )));
        }
        if matches!(self.phase, Phase::Right) {
            return Ok(());
        }
        let newest = self.leases.iter().find(|(_, it)| it.1 > self.revision);
        match newest {
            Some((key, (_, revision))) => Err(CopyError::NotWhole(format!(
                "the place of {} has revision {revision}, and the last revision is {}",
                key.as_str(),
                self.revision
            ))),
            None => Ok(()),
        }
    }

    /// Forgets the changes that are in their places.
    fn trim(&mut self, content: &ContentRecord) {
        while self
            .recent
            .front()
            .is_some_and(|it| it.sequence <= content.placed)
        {
            self.recent.pop_front();
        }
    }

    /// Returns the content, which is right as of this head.
    pub(super) fn into_copied(self, content: &ContentRecord) -> Copied {
        let leases = self.leases.into_iter();
        let leases =
            leases.map(|(key, (stored, revision))| (key, Arc::unwrap_or_clone(stored), revision));
        let loaded = Loaded {
            leases: leases.collect(),
            revision: content.revision,
            floors: content.floors.clone(),
            history: self.history,
            is_guarded: content.is_guarded,
            documents: BTreeMap::new(),
            store_id: Some(content.store.clone()),
            deleted: Vec::new(),
        };
        let revisions = self.deleted.keys().copied().collect();
        let deleted = self.deleted.into_values();
        Copied {
            loaded: Loaded {
                deleted: deleted.map(|it| (it.key, it.retired)).collect(),
                ..loaded
            },
            recent: self.recent,
            deleted: revisions,
        }
    }
}
