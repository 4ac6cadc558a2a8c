//! The content of a log in memory.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, LinkedList};

use axum::body::Bytes;
use tenure_core::Epoch;
use tenure_core::lease::{LeaseId, Stored};

use super::entry::{Batch, ChangedLease, ChangedLeases};
use crate::clock;
use crate::model::{DELETED_LIMIT, Floors, History, LeaseKey, StoreId};

/// A lease in a log, with the revision of its last change.
pub(crate) type LoadedLease = (LeaseKey, Stored, u64);

/// The leases of a log. They are in a list because a new table takes them one by one, and the
/// memory of each can then be reused for the next.
pub(crate) type LeaseList = LinkedList<LoadedLease>;

/// The contents of a log. `L` is the collection of its leases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded<L = LeaseList> {
    /// All leases.
    pub(crate) leases: L,
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

impl<L> Loaded<L> {
    /// Converts the collection of the leases.
    pub(crate) fn map<M>(self, convert: impl FnOnce(L) -> M) -> Loaded<M> {
        Loaded {
            leases: convert(self.leases),
            deleted: self.deleted,
            revision: self.revision,
            floors: self.floors,
            documents: self.documents,
            history: self.history,
            is_guarded: self.is_guarded,
            store_id: self.store_id,
        }
    }

    /// Returns the contents of a log that has these leases and nothing else.
    pub(crate) fn with(leases: L) -> Self {
        Loaded::<()>::default().map(|()| leases)
    }
}

impl Loaded<()> {
    /// Applies a batch that follows, and adds its changes of leases to `leases`.
    pub(super) fn apply(
        &mut self,
        batch: &Batch,
        leases: &mut ChangedLeases,
    ) -> Result<(), String> {
        if batch.previous != self.revision {
            return Err(format!(
                "the changes after revision {} are missing: the next ones follow revision {}",
                self.revision, batch.previous
            ));
        }
        let changes = batch.encoded_changes()?;
        if let Some(floors) = changes.floors {
            self.floors = floors;
        }
        for change in changes.leases {
            let key = change.key.clone();
            if let Some(deleted) = &change.deleted {
                self.floors.raise(key.namespace(), deleted.last);
                self.history.forget(&key);
                if !deleted.retired.is_empty() {
                    self.deleted.push((key.clone(), deleted.retired.clone()));
                }
            }
            if let Some(term) = &change.term {
                self.history.record(&key, term.clone());
            }
            match leases.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert(ChangedLease::new(change))),
                Entry::Occupied(mut entry) => entry.get_mut().add(change)?,
            }
        }
        // The oldest are forgotten now and then, and not one by one.
        if self.deleted.len() > 2 * DELETED_LIMIT {
            self.forget_deleted();
        }
        for change in changes.documents {
            match change.content {
                Some(content) => {
                    let document = Document {
                        name: change.name.clone(),
                        revision: change.revision,
                        content,
                    };
                    self.documents.insert(change.name, document);
                }
                None => drop(self.documents.remove(&change.name)),
            }
        }
        self.revision = batch.revision;
        Ok(())
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

impl Loaded {
    /// Returns the greatest epoch that was ever granted.
    pub(crate) fn last_epoch(&self) -> Option<Epoch> {
        let granted = self.last_epochs().map(|(_, epoch)| epoch).max();
        granted.max(self.floors.greatest())
    }

    /// Returns the floors of a store that is restored from this content: see [`Floors::restored`].
    pub(crate) fn restored_floors(&self) -> Result<Floors, Epoch> {
        self.floors.restored(self.last_epochs(), clock::wall())
    }

    /// Returns the last epoch of each lease, with its namespace.
    fn last_epochs(&self) -> impl Iterator<Item = (&str, Epoch)> {
        let leases = self.leases.iter();
        leases.filter_map(|(key, stored, _)| Some((key.namespace(), stored.grant.as_ref()?.epoch)))
    }
}
