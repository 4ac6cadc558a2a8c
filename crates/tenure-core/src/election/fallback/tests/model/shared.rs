//! A part of a state that most events leave as it is.

use alloc::sync::Arc;
use core::hash::{BuildHasher, Hash, Hasher};
use core::ops::Deref;

use foldhash::quality::FixedState;

/// A part of a state. Copies of a state share it until it changes, and its hash is computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shared<T> {
    hash: u64,
    value: Arc<T>,
}

impl<T: Hash> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self {
            hash: FixedState::default().hash_one(&value),
            value: value.into(),
        }
    }
}

impl<T: Clone + Hash> Shared<T> {
    pub(super) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut value = T::clone(&self.value);
        let result = change(&mut value);
        *self = value.into();
        result
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}
