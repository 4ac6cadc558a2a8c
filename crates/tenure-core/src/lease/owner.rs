//! The owner of a term.

use alloc::sync::Arc;
use core::fmt;

/// The principal that acquired a lease, if the store knows its callers. Clones share the text.
///
/// A lease id counts only together with its owner: if another principal has learned the lease id,
/// it gets the answer to a wrong lease id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// The owner of this name.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
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
