//! How a lease changes.

use std::sync::Arc;

use axum::body::Bytes;
use tenure_core::Epoch;
use tenure_core::lease::{LeaseId, Record, Stored};

use super::{Cause, LeaseKey, TermRecord};

/// One change of a lease: the whole lease as of a revision, and what caused it.
#[derive(Clone, Debug)]
pub(crate) struct LeaseChange {
    pub(crate) key: LeaseKey,
    pub(crate) revision: u64,
    pub(crate) content: Content,
    /// A term that ended with this change, or that is to end for a reason. A deleted lease keeps none.
    pub(crate) term: Option<Box<TermRecord>>,
    pub(crate) cause: Cause,
    /// How many acquires waited. The engine does not keep it.
    pub(crate) waiters: u64,
    /// How long the lease had left. The engine does not keep it.
    pub(crate) remaining_ms: Option<u64>,
}

impl LeaseChange {
    /// The lease after the change; `None` if it was deleted.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        match &self.content {
            Content::Lease(stored) => Some(stored),
            Content::Deleted(_) => None,
        }
    }
}

/// A lease after a change.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The lease exists.
    Lease(Arc<Stored>),
    /// The lease was deleted.
    Deleted(Deleted),
}

/// The remains of a deleted lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deleted {
    /// No lease may be granted an epoch up to this one again.
    pub(crate) last: Option<Epoch>,
    /// Lease ids of its ended terms, oldest first.
    pub(crate) retired: Vec<LeaseId>,
}

/// A document was written or deleted.
#[derive(Clone, Debug)]
pub(crate) struct DocumentChange {
    pub(crate) name: String,
    pub(crate) revision: u64,
    /// `None` if it was deleted.
    pub(crate) content: Option<Bytes>,
}

/// The changes that one request made to one lease, or to documents. They are committed together, or undone
/// together.
#[derive(Debug, Default)]
pub(crate) struct ChangeSet {
    /// The lease as it was: what an undo restores.
    pub(crate) before: LeaseVersion,
    /// In the order in which they happened; at least one if there are no documents.
    pub(crate) changes: Vec<LeaseChange>,
    /// An undo does not restore documents: only the protocol that they belong to has them in memory.
    pub(crate) documents: Vec<DocumentChange>,
}

/// A lease as of a revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseVersion {
    pub(crate) record: Record,
    pub(crate) revision: u64,
}

impl ChangeSet {
    /// The revision of the last change.
    pub(crate) fn last_revision(&self) -> u64 {
        let of_lease = self.changes.last().map(|change| change.revision);
        let of_document = self.documents.last().map(|document| document.revision);
        of_lease.max(of_document).unwrap_or(0)
    }

    /// About how many bytes a batch has for them.
    pub(crate) fn size(&self) -> usize {
        let of_change = |change: &LeaseChange| match &change.content {
            Content::Lease(stored) => {
                let metadata = stored.metadata.iter();
                let metadata: usize = metadata.map(|(key, value)| key.len() + value.len()).sum();
                CHANGE_BYTES + metadata
            }
            Content::Deleted(_) => CHANGE_BYTES,
        };
        let of_document = |document: &DocumentChange| {
            CHANGE_BYTES + document.content.as_ref().map_or(0, Bytes::len)
        };
        let of_documents: usize = self.documents.iter().map(of_document).sum();
        self.changes.iter().map(of_change).sum::<usize>() + of_documents
    }

    /// Whether the changes are of this lease.
    pub(crate) fn is_of(&self, key: &LeaseKey) -> bool {
        self.changes
            .first()
            .is_some_and(|change| change.key == *key)
    }
}

/// A change without metadata has fewer bytes than this, whatever its names.
const CHANGE_BYTES: usize = 1024;
