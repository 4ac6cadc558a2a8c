//! All leases in memory, in shards, so that renewals of different leases don't share one lock.

mod counts;
mod deleted;
mod entry;
mod recent;
mod shard;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use counts::Counts;
use deleted::Deleted;
use tenure_core::Epoch;
use tenure_core::lease::Record;

use crate::config::Limits;

pub(crate) use crate::model::LeaseKey;
pub(crate) use counts::Full;
pub(crate) use entry::Entry;
pub(crate) use recent::Recent;
pub(crate) use shard::Shard;

/// The number of shards. It is much larger than the number of cores, so that two busy leases seldom
/// share a lock. It is small enough that all shards can be locked to undo changes.
const SHARDS: usize = 64;

/// All leases.
#[derive(Debug)]
pub(crate) struct Table<W> {
    shards: Vec<Mutex<Shard<W>>>,
    counts: Counts,
    pub(crate) deleted: Deleted,
}

/// A table that is filled before it is used. It sorts the names of each shard only once, which takes
/// less time, and leaves no node of the tree partly empty.
#[derive(Debug)]
pub(crate) struct TableBuilder<W> {
    shards: Vec<Shard<W>>,
    counts: Counts,
}

/// The position of a scan of a namespace. The default is the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    shard: usize,
    /// The last key of that shard that was scanned.
    after: Option<LeaseKey>,
}

/// All shards, locked.
pub(crate) struct Locked<'a, W> {
    shards: Vec<MutexGuard<'a, Shard<W>>>,
}

impl<W> Default for TableBuilder<W> {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            counts: Counts::default(),
        }
    }
}

impl<W> TableBuilder<W> {
    pub(crate) fn add(&mut self, key: LeaseKey, entry: Entry<W>) {
        self.counts.add(&key);
        let index = index(key.hash());
        self.shards[index].fill(key, entry);
    }

    pub(crate) fn build(self) -> Table<W> {
        let shards = self.shards.into_iter().map(|mut shard| {
            shard.order_names();
            Mutex::new(shard)
        });
        Table {
            shards: shards.collect(),
            counts: self.counts,
            deleted: Deleted::default(),
        }
    }
}

impl<W> Table<W> {
    /// Makes the next epoch of each lease greater than the floor of its namespace too.
    pub(crate) fn number_above(&self, floor: impl Fn(&str) -> Option<Epoch>) {
        for shard in &self.shards {
            for (key, entry) in lock(shard).entries_mut() {
                entry.lease.number_above(floor(key.namespace()));
            }
        }
    }

    /// Locks the shard of `key`. A thread never holds two of these locks; it uses
    /// [`Table::lock_all`] instead.
    pub(crate) fn lock(&self, key: &LeaseKey) -> MutexGuard<'_, Shard<W>> {
        self.lock_hash(key.hash())
    }

    /// Locks the shard of the keys with this hash.
    pub(crate) fn lock_hash(&self, hash: u64) -> MutexGuard<'_, Shard<W>> {
        lock(&self.shards[index(hash)])
    }

    /// Locks all shards, in order.
    pub(crate) fn lock_all(&self) -> Locked<'_, W> {
        Locked {
            shards: self.shards.iter().map(lock).collect(),
        }
    }

    /// Returns the first `count` keys that start with `prefix` and come after `after`, in order.
    pub(crate) fn keys(
        &self,
        prefix: &str,
        after: Option<&LeaseKey>,
        count: usize,
    ) -> BTreeSet<LeaseKey> {
        let start = match after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let mut first = BTreeSet::new();
        for shard in &self.shards {
            for name in lock(shard).names((start, Bound::Unbounded)) {
                let comes_too_late = first.len() == count
                    && first
                        .last()
                        .is_none_or(|last: &LeaseKey| name > last.text());
                if comes_too_late || !name.as_str().starts_with(prefix) {
                    break;
                }
                first.insert(name.clone().into());
                if first.len() > count {
                    first.pop_last();
                }
            }
        }
        first
    }

    /// Returns the next keys that start with `prefix` from `place` on, at most `count`, and the
    /// place after them; the place is `None` if there are no more keys. The keys are of one shard,
    /// which is locked only for this call.
    pub(crate) fn scan(
        &self,
        prefix: &str,
        place: Place,
        count: usize,
    ) -> (Vec<LeaseKey>, Option<Place>) {
        let page = self.page(prefix, place, count);
        page.map_or((Vec::new(), None), |(_, keys, next)| (keys, Some(next)))
    }

    /// Calls the function with the next leases of a namespace (`None`: of all namespaces) from
    /// `place` on, at most `count`, and returns the place after them. One shard is locked, and only
    /// for this call.
    pub(crate) fn visit(
        &self,
        namespace: Option<&str>,
        place: Place,
        count: usize,
        mut visit: impl FnMut(LeaseKey, &Entry<W>),
    ) -> Option<Place> {
        let (shard, keys, next) = self.page(&prefix_of(namespace), place, count)?;
        for key in keys {
            if let Some(entry) = shard.get(&key) {
                visit(key, entry);
            }
        }
        Some(next)
    }

    /// Returns the next keys, at most `count`, the shard that has them, and the place after them.
    fn page(
        &self,
        prefix: &str,
        place: Place,
        count: usize,
    ) -> Option<(MutexGuard<'_, Shard<W>>, Vec<LeaseKey>, Place)> {
        let mut after = place.after;
        for shard in self.shards.iter().skip(place.shard) {
            let start = match &after {
                Some(after) => Bound::Excluded(after.as_str()),
                None => Bound::Included(prefix),
            };
            let shard = lock(shard);
            let names = shard.names((start, Bound::Unbounded));
            let names = names.take_while(|name| name.as_str().starts_with(prefix));
            let keys = names.take(count).cloned().map(LeaseKey::from);
            let keys: Vec<LeaseKey> = keys.collect();
            if let Some(last) = keys.last() {
                let place = Place::behind(last);
                return Some((shard, keys, place));
            }
            after = None;
        }
        None
    }

    /// Returns the namespaces and the number of leases in each of them, in no order.
    pub(crate) fn namespaces(&self) -> Vec<(Box<str>, usize)> {
        self.counts.all()
    }

    /// Returns the number of leases.
    pub(crate) fn total(&self) -> usize {
        self.counts.total()
    }

    /// Calls the function with each lease. One shard is locked at a time.
    pub(crate) fn visit_all(&self, mut visit: impl FnMut(&LeaseKey, &Entry<W>)) {
        for shard in &self.shards {
            for (key, entry) in lock(shard).entries() {
                visit(key, entry);
            }
        }
    }

    /// Creates a lease that does not exist, unless a limit is reached. `entry` takes over the
    /// record of a deleted lease of this name.
    pub(crate) fn make(
        &self,
        shard: &mut Shard<W>,
        key: &LeaseKey,
        limits: &Limits,
        entry: impl FnOnce(Option<Record>) -> Entry<W>,
    ) -> Result<(), Full> {
        if shard.get(key).is_none() {
            self.counts.add_up_to(key, limits)?;
            shard.insert(key.clone(), entry(self.deleted.take(key)));
        }
        Ok(())
    }

    /// Removes the entry of `key` if it is vacant, and returns whether it was. The record of a
    /// deleted lease is remembered.
    pub(crate) fn tidy(&self, shard: &mut Shard<W>, key: &LeaseKey, durable: u64) -> bool {
        let is_vacant = shard.get(key).is_some_and(|entry| entry.is_vacant(durable));
        if is_vacant && let Some(entry) = shard.remove(key) {
            self.deleted.put(key, entry.lease.record().clone());
            self.counts.remove(key);
        }
        is_vacant
    }

    /// Stores the record of a lease that was deleted before this table was created. If the lease
    /// was created again, that lease already has the ids, and nothing is stored.
    pub(crate) fn remember(&self, key: &LeaseKey, left: Record) {
        if self.lock(key).get(key).is_none() {
            self.deleted.put(key, left);
        }
    }
}

impl Place {
    /// Returns the place after a key that was scanned.
    pub(crate) fn behind(key: &LeaseKey) -> Self {
        Self {
            shard: index(key.hash()),
            after: Some(key.clone()),
        }
    }
}

impl<W> Locked<'_, W> {
    pub(crate) fn shard_of(&mut self, key: &LeaseKey) -> &mut Shard<W> {
        &mut self.shards[index(key.hash())]
    }
}

/// Returns the beginning of the keys of a namespace (`None`: of all keys).
pub(crate) fn prefix_of(namespace: Option<&str>) -> String {
    namespace.map_or_else(String::new, |namespace| format!("{namespace}/"))
}

/// Returns the shard's number. The hash table in the shard uses the lowest and highest bits of the
/// hash, so the number is from its middle bits.
const fn index(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

/// Locks a shard, even if a thread panicked while it held the lock. That is safe: the lease changes
/// only in `lease::apply`, which does not panic halfway, and the request that panicked was answered
/// with 500.
fn lock<W>(shard: &Mutex<Shard<W>>) -> MutexGuard<'_, Shard<W>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tenure_core::{InlineStr, Instant};

    use super::shard::Slot;
    use super::*;

    impl<W> Shard<W> {
        pub(crate) fn is_empty(&self) -> bool {
            self.slots.is_empty() && self.order.is_empty()
        }
    }

    fn table_of(names: impl IntoIterator<Item = impl AsRef<str>>) -> Table<()> {
        let mut table = TableBuilder::default();
        for name in names {
            let entry = Entry::new(Record::default(), 1);
            table.add(LeaseKey::of_text(name.as_ref()), entry);
        }
        table.build()
    }

    fn keys(table: &Table<()>, prefix: &str, after: Option<&str>, count: usize) -> Vec<String> {
        let after = after.map(LeaseKey::of_text);
        let keys = table.keys(prefix, after.as_ref(), count);
        keys.iter().map(|key| key.as_str().to_owned()).collect()
    }

    #[test]
    fn keys_come_in_order_from_all_shards() {
        let names = ["a/x", "ns/b", "ns/a1", "ns/a2", "ns/c", "ns2/a", "ns-1/a"];
        let table = table_of(names);
        assert_eq!(
            keys(&table, "ns/", None, 9),
            ["ns/a1", "ns/a2", "ns/b", "ns/c"]
        );
        assert_eq!(keys(&table, "ns/", None, 2), ["ns/a1", "ns/a2"]);
        assert_eq!(keys(&table, "ns/", Some("ns/a2"), 1), ["ns/b"]);
        assert_eq!(keys(&table, "ns/a", Some("ns/a1"), 9), ["ns/a2"]);
        assert_eq!(keys(&table, "ns/b", Some("ns/a1"), 9), ["ns/b"]);
        assert!(keys(&table, "ns/a", Some("ns/c"), 9).is_empty());
    }

    #[test]
    fn a_scan_finds_each_lease_of_its_namespace_once_in_pages() {
        let names = (0..1_000).map(|number| format!("ns/{number}"));
        let names: Vec<String> = names.chain(["ns2/a".into(), "n/a".into()]).collect();
        let table = table_of(&names);
        for count in [1, 7, 1_000] {
            let (mut found, mut place) = (Vec::new(), Some(Place::default()));
            while let Some(at) = place.take() {
                let (keys, next) = table.scan("ns/", at, count);
                assert!(keys.len() <= count);
                found.extend(keys);
                place = next;
            }
            let distinct: BTreeSet<&LeaseKey> = found.iter().collect();
            assert_eq!((found.len(), distinct.len()), (1_000, 1_000));
            assert!(found.iter().all(|key| key.namespace() == "ns"));
        }
        let none = table.scan("none/", Place::default(), 9);
        assert_eq!(none, (Vec::new(), None));
        let (keys, _) = table.scan("ns/77", Place::behind(&LeaseKey::of_text("ns/770")), 99);
        assert!(keys.iter().all(|key| key.lease().starts_with("77")));
        let (mut visited, mut place) = (BTreeSet::new(), Some(Place::default()));
        while let Some(at) = place.take() {
            place = table.visit(None, at, 7, |key, entry| {
                assert_eq!(entry.revision, 1);
                assert!(visited.insert(key));
            });
        }
        assert_eq!(visited.len(), 1_002);
    }

    #[test]
    fn a_million_leases_fit_into_360_megabytes() {
        // Each slot is a separate allocation, which costs 16 bytes more. A hash table that has just
        // grown is 7/16 full, and a tree node is at least half full. Usual names and ids need no
        // allocation of their own. The timer has a time and a hash of each held lease.
        let found = (size_of::<Box<Slot<()>>>() + 1) * 16 / 7;
        let in_order = 2 * size_of::<InlineStr>();
        let block = size_of::<Slot<()>>() + 16;
        let timer = 2 * size_of::<(Instant, u64)>();
        let worst = found + in_order + block + timer;
        assert!(worst <= 360, "{worst}");
    }
}
