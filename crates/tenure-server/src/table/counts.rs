//! The number of namespaces, and the number of leases in each of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::Limits;
use crate::model::LeaseKey;

/// The number of leases by namespace. Only the creation and the removal of a lease take this lock;
/// operations on existing leases do not.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<HashMap<Box<str>, usize>>);

/// The reason why a lease is not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Its namespace already has this many leases.
    Leases(usize),
    /// The lease would be the first of its namespace, and there are already this many namespaces.
    Namespaces(usize),
}

impl Counts {
    pub(super) fn add(&self, key: &LeaseKey) {
        let mut counts = self.lock();
        match counts.get_mut(key.namespace()) {
            Some(count) => *count += 1,
            None => drop(counts.insert(key.namespace().into(), 1)),
        }
    }

    pub(super) fn add_up_to(&self, key: &LeaseKey, limits: &Limits) -> Result<(), Full> {
        let mut counts = self.lock();
        let namespaces = counts.len();
        match counts.get_mut(key.namespace()) {
            Some(count) if *count >= limits.max_leases_per_namespace => {
                return Err(Full::Leases(*count));
            }
            Some(count) => *count += 1,
            None if namespaces >= limits.max_namespaces => {
                return Err(Full::Namespaces(namespaces));
            }
            None => drop(counts.insert(key.namespace().into(), 1)),
        }
        Ok(())
    }

    pub(super) fn remove(&self, key: &LeaseKey) {
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(key.namespace()) {
            *count -= 1;
            // An empty namespace is removed, so that it takes no memory.
            if *count == 0 {
                counts.remove(key.namespace());
            }
        }
    }

    /// Returns the namespaces and the number of leases in each of them, in no order.
    pub(super) fn all(&self) -> Vec<(Box<str>, usize)> {
        let counts = self.lock();
        let counts = counts.iter();
        counts.map(|(name, count)| (name.clone(), *count)).collect()
    }

    /// Returns the number of leases in all namespaces.
    pub(super) fn total(&self) -> usize {
        self.lock().values().sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_counted_by_itself_and_leaves_nothing_behind() {
        let counts = Counts::default();
        let limits = Limits {
            max_leases_per_namespace: 1,
            max_namespaces: 2,
            ..Limits::default()
        };
        let [a, b, c] = ["ns/a", "other/b", "third/c"].map(LeaseKey::of_text);
        assert_eq!(counts.add_up_to(&a, &limits), Ok(()));
        assert_eq!(counts.add_up_to(&a, &limits), Err(Full::Leases(1)));
        assert_eq!(counts.add_up_to(&b, &limits), Ok(()));
        assert_eq!(counts.add_up_to(&c, &limits), Err(Full::Namespaces(2)));
        counts.remove(&a);
        assert_eq!(counts.add_up_to(&a, &limits), Ok(()));
        counts.remove(&a);
        counts.remove(&b);
        assert!(counts.lock().is_empty());
    }
}
