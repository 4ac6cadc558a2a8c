//! The content of a log in memory.

use std::collections::{BTreeMap, LinkedList};

use axum::body::Bytes;
use tenure_core::lease::{LeaseId, Stored};

use super::entry::{
    Batch, ChangedLease, ChangedLeases, DecodeError, EncodedLease, Item, lease_key,
};
use crate::clock;
use crate::model::{DELETED_LIMIT, DocumentChange, Floors, History, LeaseKey, StoreId};

/// A lease in a log, with the revision of its last change.
pub(crate) type LoadedLease = (LeaseKey, Stored, u64);

/// The leases of a log. They are in a list because a new table takes them one by one, and the
/// memory of each can then be reused for the next.
pub(crate) type LeaseList = LinkedList<LoadedLease>;

/// The contents of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    /// All leases, unless they are kept elsewhere.
    pub(crate) leases: LeaseList,
    /// The deleted leases, in the order of their deletions, with the lease ids of their ended
    /// terms. The ids of an earlier deletion are also in a later deletion of the same name, and in
    /// a lease that was created again.
    pub(crate) deleted: Vec<(LeaseKey, Vec<LeaseId>)>,
    /// The revision of the last change.
    pub(crate) revision: u64,
    /// The floors of deleted leases, and those that a restore set.
    pub(crate) floors: Floors,
    /// The documents of other protocols, by name.
    pub(crate) documents: BTreeMap<String, Document>,
    /// The past terms.
    pub(crate) history: History,
    /// Whether a store with access control had this content.
    pub(crate) is_guarded: bool,
    /// The id of the store; `None` for a store in memory, which has no data directory.
    pub(crate) store_id: Option<StoreId>,
}

/// Bytes that another protocol keeps in the store, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The name.
    pub name: String,
    /// The revision of its last change.
    pub revision: u64,
    /// The bytes.
    pub content: Bytes,
}

impl Loaded {
    /// Applies a batch that follows, and adds its changes of leases to `leases`.
    pub(super) fn apply(
        &mut self,
        batch: &Batch,
        leases: &mut ChangedLeases,
    ) -> Result<(), String> {
        let Batch {
            previous, revision, ..
        } = *batch;
        if previous != self.revision {
            return Err(format!(
                "the changes after revision {} are missing: the next ones follow revision {previous}",
                self.revision
            ));
        }
        let not_valid = |_| format!("the batch up to revision {revision} is not valid");
        for item in Item::all(&batch.changes) {
            let changed = item.and_then(|item| self.add(item)).map_err(not_valid)?;
            let Some((key, lease)) = changed else {
                continue;
            };
            let lease = match (lease, leases.get(&key)) {
                (Some(lease), Some(before)) => {
                    let after = lease.after(before.as_ref());
                    let after = after.map_err(|detail| format!("{}: {detail}", key.as_str()))?;
                    Some(after.into_owned())
                }
                (lease, _) => lease.map(EncodedLease::into_owned),
            };
            leases.insert(key, lease);
        }
        // The oldest are forgotten now and then, and not one by one.
        if self.deleted.len() > 2 * DELETED_LIMIT {
            self.forget_deleted();
        }
        self.revision = revision;
        Ok(())
    }

    /// Adds an item of a batch or of a snapshot. Returns the change of a lease, if it is one.
    pub(super) fn add<'a>(
        &mut self,
        item: Item<'a>,
    ) -> Result<Option<ChangedLease<'a>>, DecodeError> {
        match item {
            Item::Lease(key, lease) => {
                return Ok(Some((lease_key(key)?, Some(lease.into_owned()))));
            }
            Item::Deleted(key, deleted) => {
                let (key, deleted) = (lease_key(key)?, deleted.into_owned());
                self.floors.raise(key.namespace(), deleted.last);
                self.history.forget(&key);
                if !deleted.retired.is_empty() {
                    self.deleted.push((key.clone(), deleted.retired));
                }
                return Ok(Some((key, None)));
            }
            Item::Term(key, term) => self.history.record(&lease_key(key)?, term.into_owned()),
            Item::Floors(floors) => self.floors = floors.into_owned(),
            Item::Document(change) => match change.into_owned() {
                DocumentChange {
                    name,
                    revision,
                    content: Some(content),
                } => {
                    let document = Document {
                        name: name.clone(),
                        revision,
                        content,
                    };
                    self.documents.insert(name, document);
                }
                DocumentChange { name, .. } => drop(self.documents.remove(&name)),
            },
            Item::Snapshot(_) | Item::End => return Err(DecodeError::DeserializeBadEncoding),
        }
        Ok(None)
    }

    /// Forgets what a store no longer needs once all batches are applied.
    pub(super) fn tidy(&mut self) {
        self.forget_deleted();
        self.floors.merge_passed(clock::wall());
    }

    fn forget_deleted(&mut self) {
        let over = self.deleted.len().saturating_sub(DELETED_LIMIT);
        self.deleted.drain(..over);
    }
}
