//! The name of a lease in the table.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use tenure_core::Name;

/// `namespace/lease`, and its hash.
///
/// Names have no `/`, so leases of one namespace stand together, in order of their names.
///
/// The hash is made once, where the name comes in: it finds the shard, and the lease in it. It has a
/// seed of this process, so that nobody can choose names that all fall on one another.
#[derive(Clone)]
pub(crate) struct Key {
    hash: u64,
    text: Text,
}

/// A name of a usual length stands where the key stands, so that looking at it is one visit to memory
/// and not two: of a million leases, hardly any is in the processor's cache.
#[derive(Clone)]
enum Text {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Arc<str>),
}

/// Longest name that stands in the key itself: as long as fits beside its length into five words.
const SHORT: usize = 38;

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Key {
    pub(crate) fn new(namespace: &Name, lease: &Name) -> Self {
        Self::of_names(namespace.as_str(), lease.as_str())
    }

    /// The key of what the path of a request has for names; `None` if one of them is no name.
    pub(crate) fn of_path(namespace: &str, lease: &str) -> Option<Self> {
        let are_names = Name::check(namespace).is_ok() && Name::check(lease).is_ok();
        are_names.then(|| Self::of_names(namespace, lease))
    }

    pub(crate) fn as_str(&self) -> &str {
        match &self.text {
            // It was put together from two texts.
            Text::Short { .. } => str::from_utf8(self.bytes()).unwrap_or_default(),
            Text::Long(text) => text,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.names().0
    }

    pub(crate) fn lease(&self) -> &str {
        self.names().1
    }

    /// The same for equal keys, for as long as this process lives.
    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    fn names(&self) -> (&str, &str) {
        self.as_str().split_once('/').unwrap_or_default()
    }

    fn bytes(&self) -> &[u8] {
        match &self.text {
            Text::Short { len, bytes } => &bytes[..usize::from(*len)],
            Text::Long(text) => text.as_bytes(),
        }
    }

    fn of_names(namespace: &str, lease: &str) -> Self {
        let end = namespace.len();
        let len = end + 1 + lease.len();
        let text = if len <= SHORT {
            let mut bytes = [0; SHORT];
            bytes[..end].copy_from_slice(namespace.as_bytes());
            bytes[end] = b'/';
            bytes[end + 1..len].copy_from_slice(lease.as_bytes());
            // At most `SHORT`.
            Text::Short {
                len: len as u8,
                bytes,
            }
        } else {
            Text::Long(format!("{namespace}/{lease}").into())
        };
        let mut key = Self { hash: 0, text };
        key.hash = HASHER.hash_one(key.bytes());
        key
    }

    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        let (namespace, lease) = text.split_once('/').expect("two names");
        Self::of_names(namespace, lease)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

// As `str` does it, in whose place it is looked up.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_two_names_however_long_they_are() {
        for len in [1, SHORT - 3, SHORT - 2, SHORT - 1, 128] {
            let lease = "x".repeat(len);
            let key = Key::of_path("n", &lease).unwrap();
            assert_eq!((key.namespace(), key.lease()), ("n", lease.as_str()));
            assert_eq!(key.as_str(), format!("n/{lease}"));
            let same = Key::new(&"n".parse().unwrap(), &lease.parse().unwrap());
            assert_eq!((key.hash(), &key), (same.hash(), &same));
            assert!(key > Key::of_text("n/a") && key < Key::of_text("n/y"));
        }
        for no_name in ["", ".", "a/b", "%41"] {
            assert!(Key::of_path("n", no_name).is_none() && Key::of_path(no_name, "a").is_none());
        }
        assert!(size_of::<Key>() <= 48);
    }
}
