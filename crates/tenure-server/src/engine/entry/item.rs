//! The parts of a store's content, as batches and snapshots have them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use tenure_core::CandidateId;
use tenure_core::lease::{Grant, LeaseId, Metadata, Stored, StoredState};

use super::codec::{DecodeError, put, read, take};
use crate::engine::LoadedLease;
use crate::model::{Deleted, DocumentChange, Floors, LeaseKey, StoreId, TermRecord};

/// A part of a store's content. A lease has its `namespace/name` before it.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::engine) enum Item<'a> {
    /// A lease exists, or was changed.
    Lease(&'a str, #[serde(borrow)] Cow<'a, EncodedLease<'a>>),
    /// A lease was deleted.
    Deleted(&'a str, Cow<'a, Deleted>),
    /// A term of a lease that ended, or that is to end for a reason.
    Term(&'a str, Cow<'a, TermRecord>),
    /// A document was written or deleted.
    Document(Cow<'a, DocumentChange>),
    /// The floors of epochs, which replace those before.
    Floors(Cow<'a, Floors>),
    /// A snapshot begins.
    Snapshot(SnapshotHeader),
    /// A snapshot is complete.
    End,
}

/// The place of an entry in its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct Position {
    /// Its number.
    pub(in crate::engine) sequence: u64,
    /// Its checksum.
    pub(in crate::engine) checksum: u32,
}

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct SnapshotHeader {
    pub(in crate::engine) store: StoreId,
    /// The last entry that it covers.
    pub(in crate::engine) covers: Position,
    /// The revision of the last change.
    pub(in crate::engine) revision: u64,
    /// It is the last backup of a store that was stopped for good.
    pub(in crate::engine) is_final: bool,
    /// Whether a store with access control had this content.
    pub(in crate::engine) is_guarded: bool,
}

impl<'a> Item<'a> {
    /// Reads items one after the other.
    pub(in crate::engine) fn all(
        mut bytes: &'a [u8],
    ) -> impl Iterator<Item = Result<Self, DecodeError>> {
        std::iter::from_fn(move || (!bytes.is_empty()).then(|| take(&mut bytes)))
    }
}

/// A lease that is not decoded: most leases are only copied.
///
/// The lease ids of ended terms are the largest part of a lease that changes hands often. One change
/// forgets the oldest ones and adds one, so it has only those that it adds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::engine) struct EncodedLease<'a> {
    /// The number of the newest retired ids that the lease keeps from its last change. A snapshot keeps
    /// none.
    kept: u32,
    /// The bytes of the retired ids behind those, oldest first.
    #[serde(borrow, serialize_with = "as_bytes")]
    retired: Cow<'a, [u8]>,
    /// The other fields, as [`Fields`].
    #[serde(borrow, serialize_with = "as_bytes")]
    fields: Cow<'a, [u8]>,
}

/// The revision of the last change, the state, the grant, the metadata and the reservation of a lease.
type Fields = (
    u64,
    StoredState,
    Option<Grant>,
    Metadata,
    Option<(CandidateId, Duration)>,
);

/// The number of bytes of a lease id.
const ID: usize = 16;

/// A change of a lease; without a lease if it was deleted.
pub(in crate::engine) type ChangedLease<'a> = (LeaseKey, Option<EncodedLease<'a>>);

/// The leases that consecutive entries changed. Only the last change of each counts, because a change
/// has the whole lease.
pub(in crate::engine) type ChangedLeases = BTreeMap<LeaseKey, Option<EncodedLease<'static>>>;

impl<'a> EncodedLease<'a> {
    /// Encodes a lease, which had these retired ids before the change.
    pub(in crate::engine) fn new(stored: &Stored, before: &[LeaseId], revision: u64) -> Self {
        let retired = &stored.retired;
        let most = before.len().min(retired.len());
        let is_kept = |kept: &usize| before[before.len() - kept..] == retired[..*kept];
        let kept = (1..=most).rev().find(is_kept).unwrap_or(0);
        let mut fields = Vec::new();
        let Stored {
            state,
            grant,
            metadata,
            reserved,
            ..
        } = stored;
        put(&mut fields, &(revision, state, grant, metadata, reserved));
        let retired = retired[kept..].iter().flat_map(|id| id.to_bytes());
        Self {
            kept: kept as u32,
            retired: retired.collect(),
            fields: fields.into(),
        }
    }

    /// Returns this change with the retired ids that it keeps from the lease before.
    pub(in crate::engine) fn after(
        &self,
        before: Option<&EncodedLease<'_>>,
    ) -> Result<EncodedLease<'_>, &'static str> {
        let mut after = EncodedLease {
            kept: self.kept,
            retired: Cow::Borrowed(&self.retired),
            fields: Cow::Borrowed(&self.fields),
        };
        if self.kept > 0 {
            let before = before.ok_or("the lease before a change is missing")?;
            let known = before.retired.len() / ID;
            let kept = known.min(self.kept as usize);
            after.kept -= kept as u32;
            if after.kept > before.kept {
                return Err("a change keeps more retired ids than the lease had");
            }
            let kept = &before.retired[ID * (known - kept)..];
            after.retired = [kept, &self.retired].concat().into();
        }
        Ok(after)
    }

    pub(in crate::engine) fn into_owned(self) -> EncodedLease<'static> {
        EncodedLease {
            kept: self.kept,
            retired: self.retired.into_owned().into(),
            fields: self.fields.into_owned().into(),
        }
    }

    /// Decodes a lease of a snapshot.
    pub(in crate::engine) fn decode(&self, key: &LeaseKey) -> Result<LoadedLease, String> {
        let (ids, rest) = self.retired.as_chunks();
        let fields = read(&self.fields).ok().filter(|_| rest.is_empty());
        let (revision, state, grant, metadata, reserved): Fields =
            fields.ok_or_else(|| format!("lease {} is not valid", key.as_str()))?;
        let stored = Stored {
            state,
            grant,
            metadata,
            reserved,
            retired: ids.iter().copied().map(LeaseId::from_bytes).collect(),
        };
        Ok((key.clone(), stored, revision))
    }
}

/// Reads the name of a lease.
pub(in crate::engine) fn lease_key(text: &str) -> Result<LeaseKey, DecodeError> {
    let names = text.split_once('/');
    let key = names.and_then(|(namespace, lease)| LeaseKey::of_path(namespace, lease));
    key.ok_or(DecodeError::DeserializeBadEncoding)
}

fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}
