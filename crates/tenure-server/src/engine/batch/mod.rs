//! Batches: what a log consists of, as bytes that are the same in every log.
//!
//! A batch has one or more changes of leases. It names the revision that it follows, so batches are a chain
//! and a missing one is noticed; and a checksum covers all of it.

mod codec;
mod lease;
mod outcome;
mod retired;
mod term;

use tenure_core::lease::LeaseId;
use tenure_core::{Epoch, Name};

use crate::model::{ChangeSet, Content, LeaseChange, LeaseKey, LeaseVersion, TermRecord};

pub(super) use codec::{Columns, DecodeError, put, put_number, put_text};
pub(super) use lease::LeaseFields;
pub(super) use outcome::{Outcome, last_epoch, outcomes, replay};
pub(super) use retired::{RetiredIds, bytes_of, ids_of};
pub(super) use term::end_of;

use retired::RetiredDelta;

/// Some changes, encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The revision of the last change before the batch.
    pub(crate) previous: u64,
    /// The revision of the last change in the batch.
    pub(crate) revision: u64,
    /// The changes, as [`Batch::items`] reads them.
    pub(crate) changes: Vec<u8>,
}

/// One item of a batch: a change of a lease is one or two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// The whole lease, but for its retired ids.
    Lease(LeaseFields<'a>, RetiredIds<'a>),
    /// The lease and all its terms were deleted.
    Deleted(DeletedLease<'a>),
    /// A term of a lease ended, or is to end for a reason.
    Term((&'a str, &'a str), TermRecord),
}

/// A lease that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeletedLease<'a> {
    pub(super) namespace: &'a str,
    pub(super) lease: &'a str,
    /// No lease may be granted an epoch up to this one again.
    pub(super) last: Option<Epoch>,
    /// Lease ids of its ended terms, one after the other.
    pub(super) retired: &'a [u8],
}

impl Batch {
    /// A batch without changes. A log takes a revision with it.
    pub(crate) const fn empty(previous: u64, revision: u64) -> Self {
        Self {
            previous,
            revision,
            changes: Vec::new(),
        }
    }

    /// A batch that a log contains.
    ///
    /// # Errors
    ///
    /// It does not match its checksum.
    pub(super) fn checked(self, crc: u32) -> Result<Self, String> {
        if self.crc() == crc {
            return Ok(self);
        }
        let revision = self.revision;
        Err(format!(
            "the batch up to revision {revision} does not match its checksum"
        ))
    }

    /// The checksum.
    pub(crate) fn crc(&self) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.revision.to_le_bytes());
        sum.update(&self.previous.to_le_bytes());
        sum.update(&self.changes);
        sum.finalize()
    }

    /// Makes it the batch of these changes, which follow the revision `previous`.
    pub(super) fn encode(&mut self, previous: u64, sets: &[ChangeSet]) {
        self.changes.clear();
        self.previous = previous;
        self.revision = sets.last().map_or(previous, ChangeSet::last_revision);
        for set in sets {
            for (index, change) in set.changes.iter().enumerate() {
                encode_change(change, delta(set, index), &mut self.changes);
            }
        }
    }

    /// The items, in order. The checksum is right, so another program wrote an item that is not valid.
    pub(super) fn items(&self) -> impl Iterator<Item = Result<Item<'_>, String>> {
        let mut columns = Columns(&self.changes);
        std::iter::from_fn(move || {
            if columns.is_empty() {
                return None;
            }
            let item = decode_item(&mut columns);
            Some(item.map_err(|DecodeError| {
                columns = Columns(&[]);
                format!("the batch up to revision {} is not valid", self.revision)
            }))
        })
    }
}

/// The last revision of these batches, which follow the revision `after` and one another.
pub(super) fn follow(batches: &[Batch], after: u64) -> Result<u64, String> {
    let mut last = after;
    for batch in batches {
        if batch.previous != last {
            return Err(format!(
                "the batch after revision {last} is missing: the next one follows revision {}",
                batch.previous
            ));
        }
        last = batch.revision;
    }
    Ok(last)
}

const LEASE: &[u8] = b"L";
const LEASE_WITH_DELTA: &[u8] = b"C";
const DELETED: &[u8] = b"D";
const TERM: &[u8] = b"T";

/// How this change of the set changed the retired ids of the lease, and the revision that it follows. `None`
/// if that is not known, or not shorter than all ids.
fn delta(set: &ChangeSet, index: usize) -> Option<(u64, RetiredDelta)> {
    let Content::Lease(stored) = &set.changes[index].content else {
        return None;
    };
    let after = &stored.retired;
    match index.checked_sub(1).map(|index| &set.changes[index]) {
        None => {
            let LeaseVersion { record, revision } = &set.before;
            // A lease that is made has no list yet, whatever an earlier one of its name left.
            record.last_grant()?;
            Some((*revision, RetiredDelta::between(record.retired(), after)?))
        }
        Some(earlier) => match &earlier.content {
            Content::Lease(stored) => {
                let before = stored.retired.iter().copied();
                Some((earlier.revision, RetiredDelta::between(before, after)?))
            }
            Content::Deleted(_) => None,
        },
    }
}

/// Appends a change.
fn encode_change(change: &LeaseChange, delta: Option<(u64, RetiredDelta)>, to: &mut Vec<u8>) {
    let (namespace, lease) = (change.key.namespace(), change.key.lease());
    match &change.content {
        Content::Lease(stored) => {
            let fields = |ids| LeaseFields::of(&change.key, stored, ids, change.revision);
            match delta {
                None => {
                    put(to, Some(LEASE));
                    codec::put_nested(to, |to| fields(&stored.retired).encode(to));
                }
                Some((follows, delta)) => {
                    put(to, Some(LEASE_WITH_DELTA));
                    codec::put_nested(to, |to| {
                        put_number(to, Some(follows));
                        put(to, Some(&bytes_of(&delta.forgotten)));
                        fields(&delta.added).encode(to);
                    });
                }
            }
        }
        Content::Deleted(deleted) => {
            put(to, Some(DELETED));
            codec::put_nested(to, |to| {
                put_text(to, namespace);
                put_text(to, lease);
                put_number(to, deleted.last.map(Epoch::get));
                put(to, Some(&bytes_of(&deleted.retired)));
            });
        }
    }
    if let Some(term) = &change.term {
        put(to, Some(TERM));
        codec::put_nested(to, |to| {
            put_text(to, namespace);
            put_text(to, lease);
            term::encode(term, to);
        });
    }
}

fn decode_item<'a>(from: &mut Columns<'a>) -> Result<Item<'a>, DecodeError> {
    let kind = from.bytes()?;
    let mut columns = Columns(from.bytes()?);
    match kind {
        LEASE => {
            let mut fields = LeaseFields::decode(columns)?;
            let all = std::mem::take(&mut fields.retired);
            Ok(Item::Lease(fields, RetiredIds::All(all)))
        }
        LEASE_WITH_DELTA => {
            let (follows, forgotten) = (columns.number()?, columns.bytes()?);
            let mut fields = LeaseFields::decode(columns)?;
            let delta = RetiredIds::Delta {
                follows,
                forgotten,
                added: std::mem::take(&mut fields.retired),
            };
            Ok(Item::Lease(fields, delta))
        }
        DELETED => {
            let deleted = DeletedLease {
                namespace: columns.text()?,
                lease: columns.text()?,
                last: columns.optional_number()?.and_then(Epoch::new),
                retired: columns.bytes()?,
            };
            columns.end()?;
            Ok(Item::Deleted(deleted))
        }
        TERM => {
            let names = (columns.text()?, columns.text()?);
            Ok(Item::Term(names, term::decode(columns)?))
        }
        _ => Err(DecodeError),
    }
}

impl DeletedLease<'_> {
    /// The lease, and the lease ids of its ended terms.
    pub(super) fn left(&self) -> Result<(LeaseKey, Vec<LeaseId>), String> {
        let key = key_of((self.namespace, self.lease));
        match (key, ids_of(self.retired)) {
            (Ok(key), Some(ids)) => Ok((key, ids)),
            _ => Err(format!(
                "the deleted lease {:?}/{:?} is not valid",
                self.namespace, self.lease
            )),
        }
    }
}

/// The key of these two names.
pub(super) fn key_of((namespace, lease): (&str, &str)) -> Result<LeaseKey, String> {
    let name = |name: &str| name.parse::<Name>();
    match (name(namespace), name(lease)) {
        (Ok(namespace), Ok(lease)) => Ok(LeaseKey::new(&namespace, &lease)),
        _ => Err(format!(
            "{namespace:?}/{lease:?} is not the name of a lease"
        )),
    }
}

#[cfg(test)]
mod tests;
