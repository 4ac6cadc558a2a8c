//! The owner of a term.

use alloc::sync::Arc;
use core::fmt;

/// The principal that acquired a lease, if the store identifies its callers. Clones share the text.
///
/// A lease id is valid only for its owner: another principal that has learned the lease id gets the
/// same answer as for a wrong lease id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Creates the owner with this name.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
