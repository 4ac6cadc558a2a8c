//! The changes of leases.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_core::Epoch;
use tenure_core::lease::{Grant, LeaseId, Owner, Record, Stored};
use tenure_core::wire::EventKind;

use super::{Cause, GrantPath, LeaseKey, TermRecord, TraceId};

/// One change of a lease: the whole lease as of a revision, and the cause of the change.
#[derive(Clone, Debug)]
pub(crate) struct LeaseChange {
    pub(crate) key: LeaseKey,
    pub(crate) revision: u64,
    pub(crate) content: Content,
    /// The term that ended with this change, or that a request ended for a reason. A deleted lease
    /// has none.
    pub(crate) term: Option<Box<TermRecord>>,
    pub(crate) cause: Cause,
    /// The way to the grant, if the change is one. The engine does not store it.
    pub(crate) grant_path: Option<GrantPath>,
    /// The number of acquires that waited. The engine does not store it.
    pub(crate) waiters: u64,
    /// The remaining time of the lease. The engine does not store it.
    pub(crate) remaining_ms: Option<u64>,
    /// The trace of the request that made the change. The engine does not store it.
    pub(crate) trace: Option<TraceId>,
}

/// A receiver of committed changes. `store/sinks.rs` lists all of them.
pub(crate) trait Sink: Debug + Send + Sync {
    /// Handles a change that becomes durable, before any answer shows it. The call is short.
    fn durable(&self, _: &LeaseChange) {}

    /// Handles changes that are durable. Calls come in the order of revisions. No lock of the table
    /// is held during a call, unless the store is in memory. The commit thread waits for the call.
    fn committed(&self, changes: &[LeaseChange]);
}

impl LeaseChange {
    /// Returns the lease after the change; `None` if it was deleted.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        match &self.content {
            Content::Lease(stored) => Some(stored),
            Content::Deleted(_) => None,
        }
    }

    /// Returns the grant of the term that runs after the change, or of the last term.
    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.stored()?.grant.as_ref()
    }

    /// Returns the principal that began or continued the term, or ended its own term.
    pub(crate) fn principal(&self) -> Option<&Owner> {
        match self.cause.kind() {
            EventKind::Granted | EventKind::Resumed | EventKind::Released => {
                self.grant()?.owner.as_ref()
            }
            _ => None,
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Deleted {
    /// The greatest epoch of the lease. No later lease may be granted an epoch up to this one.
    pub(crate) last: Option<Epoch>,
    /// The lease ids of its ended terms, oldest first.
    pub(crate) retired: Vec<LeaseId>,
}

/// A write or a deletion of a document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DocumentChange {
    pub(crate) name: String,
    pub(crate) revision: u64,
    /// The new content; `None` if the document was deleted.
    pub(crate) content: Option<Bytes>,
}

/// The changes that one request made to one lease, or to documents. Either all of them are
/// committed, or all of them are undone.
#[derive(Debug, Default)]
pub(crate) struct ChangeSet {
    /// The lease before the changes, for an undo.
    pub(crate) before: LeaseVersion,
    /// The changes in their order. There is at least one if there are no documents.
    pub(crate) changes: Vec<LeaseChange>,
    /// The changed documents. An undo does not restore documents, because only the protocol that
    /// they belong to has them in memory.
    pub(crate) documents: Vec<DocumentChange>,
}

/// A lease as of a revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseVersion {
    pub(crate) record: Record,
    pub(crate) revision: u64,
    /// The number of terms since the start of the store.
    pub(crate) terms: u64,
}

impl ChangeSet {
    /// Returns the revision of the last change.
    pub(crate) fn last_revision(&self) -> u64 {
        let of_lease = self.changes.last().map(|change| change.revision);
        let of_document = self.documents.last().map(|document| document.revision);
        of_lease.max(of_document).unwrap_or(0)
    }

    /// Estimates the number of bytes of these changes in a batch.
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

    /// Returns whether the changes are of this lease.
    pub(crate) fn is_of(&self, key: &LeaseKey) -> bool {
        self.changes
            .first()
            .is_some_and(|change| change.key == *key)
    }
}

/// An upper bound for the size of a change without metadata, in bytes, for names of any length.
const CHANGE_BYTES: usize = 1024;
