//! One shard of the table.

use std::collections::BTreeSet;
use std::ops::RangeBounds;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use tenure_core::InlineStr;

use super::{Entry, LeaseKey};

/// Some of the leases. They are in a hash table, because a renewal only finds a lease, and a search
/// in an ordered structure would miss the processor's cache at every step. Their names are also in
/// order, for lists. They have no hashes there, so that a node of the tree is a quarter smaller.
#[derive(Debug)]
pub(crate) struct Shard<W> {
    pub(super) slots: HashTable<Box<Slot<W>>>,
    pub(super) order: BTreeSet<InlineStr>,
}

/// A lease and its name in one allocation, so that finding one loads the other, and the empty slots
/// of the hash table are small.
#[derive(Debug)]
pub(super) struct Slot<W> {
    key: LeaseKey,
    entry: Entry<W>,
}

impl<W> Default for Shard<W> {
    fn default() -> Self {
        Self {
            slots: HashTable::new(),
            order: BTreeSet::new(),
        }
    }
}

impl<W> Shard<W> {
    pub(crate) fn get(&self, key: &LeaseKey) -> Option<&Entry<W>> {
        let slot = self.slots.find(key.hash(), |slot| slot.key == *key);
        slot.map(|slot| &slot.entry)
    }

    pub(crate) fn get_mut(&mut self, key: &LeaseKey) -> Option<&mut Entry<W>> {
        let slot = self.slots.find_mut(key.hash(), |slot| slot.key == *key);
        slot.map(|slot| &mut slot.entry)
    }

    /// Returns a lease by the hash of its key.
    pub(crate) fn get_by_hash(&mut self, hash: u64) -> Option<(LeaseKey, &mut Entry<W>)> {
        let slot = self.slots.find_mut(hash, |slot| slot.key.hash() == hash)?;
        Some((slot.key.clone(), &mut slot.entry))
    }

    /// Returns the names in this range, in order.
    pub(super) fn names(&self, range: impl RangeBounds<str>) -> impl Iterator<Item = &InlineStr> {
        self.order.range::<str, _>(range)
    }

    pub(super) fn insert(&mut self, key: LeaseKey, entry: Entry<W>) {
        self.order.insert(key.text().clone());
        self.fill(key, entry);
    }

    /// Inserts a lease whose name [`Shard::order_names`] inserts later.
    pub(super) fn fill(&mut self, key: LeaseKey, entry: Entry<W>) {
        match self.place(&key) {
            Place::Occupied(mut slot) => slot.get_mut().entry = entry,
            Place::Vacant(place) => drop(place.insert(Box::new(Slot { key, entry }))),
        }
    }

    /// Inserts the names of all leases.
    pub(super) fn order_names(&mut self) {
        let names = self.slots.iter().map(|slot| slot.key.text().clone());
        self.order = names.collect();
    }

    pub(super) fn remove(&mut self, key: &LeaseKey) -> Option<Entry<W>> {
        self.order.remove(key.text());
        match self.place(key) {
            Place::Occupied(slot) => Some(slot.remove().0.entry),
            Place::Vacant(_) => None,
        }
    }

    /// Returns all leases, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&LeaseKey, &Entry<W>)> {
        self.slots.iter().map(|slot| (&slot.key, &slot.entry))
    }

    /// Returns all leases, in no order.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = (&LeaseKey, &mut Entry<W>)> {
        let slots = self.slots.iter_mut();
        slots.map(|slot| (&slot.key, &mut slot.entry))
    }

    fn place(&mut self, key: &LeaseKey) -> Place<'_, Box<Slot<W>>> {
        self.slots
            .entry(key.hash(), |slot| slot.key == *key, |slot| slot.key.hash())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    /// A slot of over 224 bytes takes 256 bytes, because the allocator rounds up. That is a tenth of the
    /// memory of a lease.
    #[test]
    fn a_lease_and_its_name_take_at_most_224_bytes() {
        let bytes = size_of::<Slot<oneshot::Sender<()>>>();
        assert!(bytes <= 224, "a slot takes {bytes} bytes");
    }
}
