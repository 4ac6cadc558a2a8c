//! Entries: the commits of a log, in a form that is the same in every log.
//!
//! An [`Entry`] has a batch: one or more changes of leases and documents. Each entry has the checksum
//! of the entry before, and each batch the revision that it follows. So the entries form a chain, and
//! a missing one is detected.

mod changed;
mod codec;
mod commit;
mod lease;
mod retired;
mod term;

use axum::body::Bytes;
use tenure_core::Epoch;

use crate::model::{
    ChangeSet, Content, Deleted, DocumentChange, Floors, LeaseChange, LeaseKey, TermRecord,
};

pub(super) use changed::{ChangedLease, ChangedLeases};
pub(super) use codec::{Column, Columns, DecodeError, put, put_nested};
pub(super) use commit::{Entry, EntryKind};
pub(super) use lease::{Outline, columns, decode, with_retired};
pub(super) use term::{columns as term_columns, decode as decode_term};

pub(super) use retired::RetiredDelta;

/// Changes in encoded form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The revision of the last change before the batch.
    pub(crate) previous: u64,
    /// The revision of the last change in the batch.
    pub(crate) revision: u64,
    /// The changes, as [`Batch::changes`] reads them.
    pub(crate) changes: Vec<u8>,
}

/// A change of a lease, as a batch contains it.
#[derive(Debug)]
pub(super) struct EncodedChange<'a> {
    pub(super) key: LeaseKey,
    pub(super) revision: u64,
    /// The lease in the form that [`decode`] reads; `None` if it was deleted. With a delta, its retired
    /// ids are only those that were added.
    pub(super) lease: Option<&'a [u8]>,
    pub(super) deleted: Option<Deleted>,
    pub(super) delta: Option<RetiredDelta>,
    /// A term of the lease that ended, or that is to end for a reason.
    pub(super) term: Option<TermRecord>,
}

/// The changes of a batch, each in order.
#[derive(Debug, Default)]
pub(super) struct EncodedChanges<'a> {
    pub(super) leases: Vec<EncodedChange<'a>>,
    pub(super) documents: Vec<DocumentChange>,
    /// The floors, if an operator has raised them.
    pub(super) floors: Option<Floors>,
}

impl Batch {
    /// Replaces the content by these changes, which follow the revision `previous`.
    pub(super) fn encode(&mut self, previous: u64, sets: &[ChangeSet]) {
        self.changes.clear();
        self.previous = previous;
        self.revision = sets.last().map_or(previous, ChangeSet::last_revision);
        for set in sets {
            for (index, change) in set.changes.iter().enumerate() {
                encode_change(change, delta(set, index), &mut self.changes);
            }
            for document in &set.documents {
                put_item(&mut self.changes, DOCUMENT, |to| {
                    let content = document.content.as_deref().map(Column::Bytes);
                    let content = content.unwrap_or(Column::Null);
                    put(
                        to,
                        &[
                            document.name.as_str().into(),
                            document.revision.into(),
                            content,
                        ],
                    );
                });
            }
        }
    }

    /// Creates a batch that raises the floors and the revision.
    pub(super) fn of_floors(previous: u64, revision: u64, floors: &Floors) -> Self {
        let mut changes = Vec::new();
        // Names and numbers always have a form in JSON.
        let floors = serde_json::to_string(floors).unwrap_or_default();
        put_item(&mut changes, FLOORS, |to| {
            put(to, &[floors.as_str().into()])
        });
        Self {
            previous,
            revision,
            changes,
        }
    }

    /// Decodes the batch. The checksum matched, so an invalid change was written by another program.
    pub(super) fn encoded_changes(&self) -> Result<EncodedChanges<'_>, String> {
        let mut columns = Columns(&self.changes);
        let mut changes = EncodedChanges::default();
        while !columns.is_empty() {
            let item = decode_item(&mut columns, &mut changes);
            item.map_err(|_| self.not_valid())?;
        }
        Ok(changes)
    }

    fn not_valid(&self) -> String {
        format!("the batch up to revision {} is not valid", self.revision)
    }
}

/// The greatest ratio of the lengths before and after a compression with LZ4.
const GREATEST_RATIO: usize = 255;

/// Returns the content of a block of LZ4 that follows the length of its content; `None` if it is
/// damaged.
pub(super) fn decompressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let (len, block) = lz4_flex::block::uncompressed_size(bytes).ok()?;
    // A damaged length must not use up the memory.
    if len > GREATEST_RATIO * block.len() {
        return None;
    }
    let content = lz4_flex::decompress(block, len).ok()?;
    (content.len() == len).then_some(content)
}

const LEASE: &str = "L";
const LEASE_WITH_DELTA: &str = "C";
const DELETED: &str = "D";
const TERM: &str = "T";
const DOCUMENT: &str = "B";
const FLOORS: &str = "F";

/// Returns the difference that this change of the set made to the retired ids of the lease. Returns
/// `None` if the difference is not known, or if it is not shorter than the whole list.
fn delta(set: &ChangeSet, index: usize) -> Option<RetiredDelta> {
    let Content::Lease(stored) = &set.changes[index].content else {
        return None;
    };
    let after = &stored.retired;
    match index.checked_sub(1).map(|index| &set.changes[index]) {
        None => {
            let record = &set.before.record;
            // A new lease has no list yet, even if an earlier lease of its name left one.
            record.last_grant()?;
            RetiredDelta::between(set.before.revision, record.retired(), after)
        }
        Some(earlier) => match &earlier.content {
            Content::Lease(stored) => {
                let before = stored.retired.iter().copied();
                RetiredDelta::between(earlier.revision, before, after)
            }
            Content::Deleted(_) => None,
        },
    }
}

/// Appends a change.
fn encode_change(change: &LeaseChange, delta: Option<RetiredDelta>, to: &mut Vec<u8>) {
    let names = || {
        let (namespace, lease) = change.key.names();
        [namespace.into(), lease.into()]
    };
    let lease = |stored, retired| columns(&change.key, stored, retired, change.revision);
    match (&change.content, delta) {
        (Content::Lease(stored), None) => {
            put_item(to, LEASE, |to| put(to, &lease(stored, &stored.retired)));
        }
        (Content::Lease(stored), Some(delta)) => put_item(to, LEASE_WITH_DELTA, |to| {
            let forgotten = Column::Ids(&delta.forgotten);
            put(to, &[delta.follows.into(), forgotten]);
            put(to, &lease(stored, &delta.added));
        }),
        (Content::Deleted(deleted), _) => put_item(to, DELETED, |to| {
            put(to, &names());
            let last = deleted.last.map(Epoch::get).into();
            put(
                to,
                &[change.revision.into(), last, Column::Ids(&deleted.retired)],
            );
        }),
    }
    if let Some(term) = &change.term {
        put_item(to, TERM, |to| {
            put(to, &names());
            put(to, &term::columns(term));
        });
    }
}

/// Appends the kind of an item, and then the item as one column.
fn put_item(to: &mut Vec<u8>, kind: &str, write: impl FnOnce(&mut Vec<u8>)) {
    put(to, &[kind.into()]);
    put_nested(to, write);
}

/// Reads an item: a change of a lease, the term of the last change, a change of a document, or floors.
fn decode_item<'a>(from: &mut Columns<'a>, to: &mut EncodedChanges<'a>) -> Result<(), DecodeError> {
    let EncodedChanges {
        leases: changes,
        documents,
        floors,
    } = to;
    let kind = from.text("kind")?;
    let mut item = Columns(from.bytes("item")?);
    match kind {
        DOCUMENT => documents.push(DocumentChange {
            name: item.text("name")?.to_owned(),
            revision: item.number("revision")?,
            content: item.optional_bytes("content")?.map(Bytes::copy_from_slice),
        }),
        FLOORS => {
            let raised = serde_json::from_str(item.text("floors")?);
            *floors = Some(raised.map_err(|_| DecodeError("floors"))?);
        }
        TERM => {
            let (key, last) = (item.key()?, changes.last_mut());
            let last = last.filter(|last| last.key == key);
            last.ok_or(DecodeError("term"))?.term = Some(term::decode(&mut item)?);
        }
        DELETED => {
            let (key, revision) = (item.key()?, item.number("revision")?);
            let last = item.optional_number("last")?.and_then(Epoch::new);
            let retired = item.ids("retired")?;
            changes.push(EncodedChange {
                key,
                revision,
                lease: None,
                deleted: Some(Deleted { last, retired }),
                delta: None,
                term: None,
            });
        }
        LEASE | LEASE_WITH_DELTA => {
            let part = match kind {
                LEASE => None,
                _ => Some((item.number("follows")?, item.ids("forgotten")?)),
            };
            let outline = Outline::of(item.0)?;
            let delta = part.map(|(follows, forgotten)| RetiredDelta {
                follows,
                forgotten,
                added: outline.retired,
            });
            changes.push(EncodedChange {
                key: outline.key,
                revision: outline.revision,
                lease: Some(item.0),
                deleted: None,
                delta,
                term: None,
            });
            return Ok(());
        }
        _ => return Err(DecodeError("kind")),
    }
    item.end()
}

#[cfg(test)]
mod tests;
