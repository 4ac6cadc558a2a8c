//! One shard of the table.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeBounds;

use super::{Entry, Key};

/// Some of the leases: found by hash, because renewals do nothing else all day and a search in order
/// would miss the processor's cache at every step; and in order of their keys, for lists.
///
/// Entries are boxed, so that the empty places of the map are small.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    entries: HashMap<Key, Box<Entry>>,
    order: BTreeSet<Key>,
}

impl Shard {
    pub(crate) fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key).map(|entry| &**entry)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut Entry> {
        self.entries.get_mut(key).map(|entry| &mut **entry)
    }

    /// The keys in this range, in order.
    pub(super) fn keys(&self, range: impl RangeBounds<str>) -> impl Iterator<Item = &Key> {
        self.order.range::<str, _>(range)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.order.is_empty()
    }

    pub(super) fn insert(&mut self, key: Key, entry: Entry) {
        self.order.insert(key.clone());
        self.entries.insert(key, Box::new(entry));
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.order.remove(key);
        self.entries.remove(key);
    }
}
