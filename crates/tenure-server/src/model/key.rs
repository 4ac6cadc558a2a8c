//! The name of a lease.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use tenure_core::{InlineStr, Name};

/// The name `namespace/lease`, and its hash.
///
/// Names have no `/`, so keys in order have the leases of one namespace next to each other, sorted
/// by name.
///
/// The hash is computed once, when the name enters the store. It selects the shard, and finds the
/// lease in the shard. Its seed is random for each process, so that no client can choose names that
/// collide.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseKey {
    // The first field, so that the derived order of keys is the order of their texts.
    text: InlineStr,
    hash: u64,
}

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl LeaseKey {
    pub(crate) fn new(namespace: &Name, lease: &Name) -> Self {
        Self::of_names(namespace.as_str(), lease.as_str())
    }

    /// Creates the key from the two names in a request's path; `None` if one of them is not a valid
    /// name.
    #[must_use]
    pub fn of_path(namespace: &str, lease: &str) -> Option<Self> {
        let are_names = Name::check(namespace).is_ok() && Name::check(lease).is_ok();
        are_names.then(|| Self::of_names(namespace, lease))
    }

    /// Returns `namespace/lease`, without the hash.
    pub(crate) const fn text(&self) -> &InlineStr {
        &self.text
    }

    /// Returns `namespace/lease`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.names().0
    }

    pub(crate) fn lease(&self) -> &str {
        self.names().1
    }

    /// Returns the hash. Equal keys have the same hash while this process lives.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the namespace and the name of the lease. It is called several times for each
    /// request, so it does not search for a character, which costs much more than for a byte.
    pub(crate) fn names(&self) -> (&str, &str) {
        let text = self.as_str();
        let slash = text.bytes().position(|byte| byte == b'/');
        let names = slash.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?)));
        names.unwrap_or_default()
    }

    fn of_names(namespace: &str, lease: &str) -> Self {
        InlineStr::of([namespace, "/", lease]).into()
    }
}

impl From<InlineStr> for LeaseKey {
    fn from(text: InlineStr) -> Self {
        let hash = HASHER.hash_one(text.as_bytes());
        Self { hash, text }
    }
}

// The hash is that of the text alone, because a key may be looked up by its text.
impl Hash for LeaseKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for LeaseKey {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LeaseKey {
        pub(crate) fn of_text(text: &str) -> Self {
            let (namespace, lease) = text.split_once('/').expect("two names");
            Self::of_names(namespace, lease)
        }
    }

    #[test]
    fn a_key_is_its_two_names_however_long_they_are() {
        for len in [1, 28, 29, 128] {
            let lease = "x".repeat(len);
            let key = LeaseKey::of_path("n", &lease).unwrap();
            assert_eq!((key.namespace(), key.lease()), ("n", lease.as_str()));
            assert_eq!(key.as_str(), format!("n/{lease}"));
            let same = LeaseKey::new(&"n".parse().unwrap(), &lease.parse().unwrap());
            assert_eq!((key.hash(), &key), (same.hash(), &same));
            assert!(key > LeaseKey::of_text("n/a") && key < LeaseKey::of_text("n/y"));
        }
        for no_name in ["", ".", "a/b", "%41"] {
            assert!(
                LeaseKey::of_path("n", no_name).is_none()
                    && LeaseKey::of_path(no_name, "a").is_none()
            );
        }
        assert!(size_of::<LeaseKey>() <= 40);
    }
}
