//! How many leases each namespace has.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Key;

/// The number of leases by namespace. Only making and forgetting a lease count, so what is done to
/// leases that are there never meets this lock.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<HashMap<Box<str>, usize>>);

/// A namespace has so many leases that it gets no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) count: usize,
}

impl Counts {
    pub(super) fn add(&self, key: &Key) {
        *self.lock().entry(key.namespace().into()).or_default() += 1;
    }

    pub(super) fn add_up_to(&self, key: &Key, most: usize) -> Result<(), Full> {
        let mut counts = self.lock();
        let count = counts.get(key.namespace()).copied().unwrap_or(0);
        if count >= most {
            return Err(Full { count });
        }
        counts.insert(key.namespace().into(), count + 1);
        Ok(())
    }

    pub(super) fn remove(&self, key: &Key) {
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(key.namespace()) {
            *count -= 1;
            // Namespaces come and go; none leaves anything behind.
            if *count == 0 {
                counts.remove(key.namespace());
            }
        }
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
        let [a, b] = ["ns/a", "other/b"].map(Key::of_text);
        assert_eq!(counts.add_up_to(&a, 1), Ok(()));
        assert_eq!(counts.add_up_to(&a, 1), Err(Full { count: 1 }));
        assert_eq!(counts.add_up_to(&b, 1), Ok(()));
        counts.remove(&a);
        assert_eq!(counts.add_up_to(&a, 1), Ok(()));
        counts.remove(&a);
        counts.remove(&b);
        assert!(counts.lock().is_empty());
    }
}
