//! The owner of a term.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The principal that acquired a lease, if the store identifies its callers. Clones share the text.
///
/// A lease id is valid only for its owner: another principal that has learned the lease id gets the
/// same answer as for a wrong lease id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<Name>);

/// The text is behind two pointers, so that an owner is one word: a store may hold a million of
/// them, and reads a text only to compare it with another one.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Name(Box<str>);

impl Owner {
    /// Creates the owner with this name.
    #[must_use]
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Name(name.into())))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.0
    }
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_str().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <Box<str>>::deserialize(deserializer).map(Self::new)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}
