//! The containers and blobs in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Item;
use crate::server::target::Target;

/// Containers and blobs by name. A container is sorted before its blobs.
#[derive(Debug, Default)]
pub(in crate::server) struct Catalog {
    items: BTreeMap<Target, Arc<Item>>,
    pub(super) bytes: u64,
}

impl Catalog {
    pub(in crate::server) fn get(&self, target: &Target) -> Option<&Arc<Item>> {
        self.items.get(target)
    }

    /// Returns the account's containers in order, starting at this name.
    pub(in crate::server) fn containers_from<'a>(
        &'a self,
        account: &'a str,
        name: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<Item>)> {
        let mut next = Target::new(account, name, "");
        std::iter::from_fn(move || {
            let (target, item) = self.items.range(&next..).next()?;
            // This is the first name after the container and all its blobs.
            next.container = format!("{}\0", target.container);
            (target.account == account).then_some((&*target.container, item))
        })
    }

    /// Returns the container's blobs in order, starting at this name.
    pub(in crate::server) fn blobs_from<'a>(
        &'a self,
        container: &'a Target,
        name: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<Item>)> {
        let first = Target::new(&container.account, &container.container, name);
        let of_container = |target: &Target| {
            (&target.account, &target.container) == (&container.account, &container.container)
        };
        self.items
            .range(first..)
            .take_while(move |(target, _)| of_container(target))
            .filter(|(target, _)| !target.blob.is_empty())
            .map(|(target, item)| (&*target.blob, item))
    }

    /// Returns the total number of bytes if this item replaced the existing one.
    pub(super) fn bytes_with(&self, target: &Target, item: &Item) -> u64 {
        let old = self.get(target).map_or(0, |old| old.bytes(target));
        self.bytes - old + item.bytes(target)
    }

    pub(super) fn put(&mut self, target: Target, item: Arc<Item>) {
        self.bytes = self.bytes_with(&target, &item);
        self.items.insert(target, item);
    }

    pub(super) fn remove(&mut self, target: &Target) {
        if let Some(old) = self.items.remove(target) {
            self.bytes -= old.bytes(target);
        }
    }
}
