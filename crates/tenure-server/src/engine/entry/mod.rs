//! Entries: the commits of a log, in a form that is the same in every log.
//!
//! An [`Entry`] has a batch: one or more changes of leases and documents. Each entry has the checksum
//! of the entry before, and each batch the revision that it follows. So the entries form a chain, and
//! a missing one is detected.
//!
//! All values on disk have the form of [postcard](https://postcard.jamesmunns.com/wire-format): the
//! fields of a type in their order and without names, numbers with seven bits in each byte, and the
//! number of a variant before its fields. So **another field in one of these types is another format**.

mod codec;
mod item;

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::model::{ChangeSet, Content, Floors};

pub(super) use codec::{
    DecodeError, FRAME, check_format, decompressed, format_line, frame, frame_length, only_frame,
    put, put_frame, read, take,
};
pub(super) use item::{
    ChangedLease, ChangedLeases, EncodedLease, Item, Position, SnapshotHeader, lease_key,
};

/// Changes in encoded form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The revision of the last change before the batch.
    pub(crate) previous: u64,
    /// The revision of the last change in the batch.
    pub(crate) revision: u64,
    /// The changes: items, one after the other.
    pub(crate) changes: Vec<u8>,
}

impl Batch {
    /// Creates a batch without changes.
    pub(super) const fn empty(previous: u64, revision: u64) -> Self {
        Self {
            previous,
            revision,
            changes: Vec::new(),
        }
    }

    /// Replaces the content by these changes, which follow the revision `previous`.
    pub(super) fn encode(&mut self, previous: u64, sets: &[ChangeSet]) {
        self.changes.clear();
        self.previous = previous;
        self.revision = sets.last().map_or(previous, ChangeSet::last_revision);
        for set in sets {
            let record = &set.before.record;
            // A new lease has no list yet, even if an earlier lease of its name left one.
            let mut retired = match record.last_grant() {
                Some(_) => record.retired().collect(),
                None => Vec::new(),
            };
            for change in &set.changes {
                let key = change.key.as_str();
                match &change.content {
                    Content::Lease(stored) => {
                        let lease = EncodedLease::new(stored, &retired, change.revision);
                        self.add(&Item::Lease(key, Cow::Owned(lease)));
                        retired.clone_from(&stored.retired);
                    }
                    Content::Deleted(deleted) => {
                        self.add(&Item::Deleted(key, Cow::Borrowed(deleted)));
                        retired.clear();
                    }
                }
                if let Some(term) = &change.term {
                    self.add(&Item::Term(key, Cow::Borrowed(term)));
                }
            }
            for document in &set.documents {
                self.add(&Item::Document(Cow::Borrowed(document)));
            }
        }
    }

    /// Creates a batch that raises the floors and the revision.
    pub(super) fn of_floors(previous: u64, revision: u64, floors: &Floors) -> Self {
        let mut batch = Self::empty(previous, revision);
        batch.add(&Item::Floors(Cow::Borrowed(floors)));
        batch
    }

    fn add(&mut self, item: &Item<'_>) {
        put(&mut self.changes, item);
    }
}

/// One commit of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// Its number, one more than that of the entry before.
    pub(super) sequence: u64,
    /// The checksum of the entry before.
    pub(super) follows: u32,
    pub(super) kind: EntryKind,
    /// What an operator did to the log.
    pub(super) note: Option<String>,
    /// The changes.
    pub(super) batch: Cow<'a, Batch>,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum EntryKind {
    /// It has changes.
    Changes,
    /// A store began to append.
    Begun,
    /// The store ended. Nothing was appended after it.
    Vacant,
    /// The content was moved away for good.
    Retired,
}

impl Entry<'_> {
    /// Appends the bytes of the entry.
    ///
    /// The changes are compressed because each of their bytes is written, copied and kept several
    /// times. The changes of different leases have the same form, so half of their bytes remain.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let Batch {
            previous,
            revision,
            changes,
        } = self.batch.as_ref();
        let changes = match changes.is_empty() {
            true => Bytes::new(),
            false => lz4_flex::compress_prepend_size(changes).into(),
        };
        let (sequence, follows, kind, note) = (self.sequence, self.follows, self.kind, &self.note);
        let entry = (sequence, follows, kind, note, previous, revision, changes);
        put(to, &entry);
    }

    /// Reads the bytes of an entry. Their checksum is right, so invalid ones were written by another
    /// program.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        type Fields<'a> = (u64, u32, EntryKind, Option<String>, u64, u64, &'a [u8]);
        let (sequence, follows, kind, note, previous, revision, changes): Fields<'_> = read(bytes)?;
        let changes = match changes.is_empty() {
            true => Vec::new(),
            false => decompressed(changes).ok_or(DecodeError::DeserializeBadEncoding)?,
        };
        Ok(Self {
            sequence,
            follows,
            kind,
            note,
            batch: Cow::Owned(Batch {
                previous,
                revision,
                changes,
            }),
        })
    }
}

#[cfg(test)]
mod tests;
