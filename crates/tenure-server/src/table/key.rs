//! The name of a lease in the table.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use tenure_core::Name;

/// `namespace/lease`: one piece of text, shared by all who name the lease, because a table of a
/// million has one for each.
///
/// Names have no `/`, so leases of one namespace stand together, in order of their names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(Arc<str>);

impl Key {
    pub(crate) fn new(namespace: &Name, lease: &Name) -> Self {
        Self(format!("{namespace}/{lease}").into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn lease(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, lease)| lease)
    }

    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        assert!(text.contains('/'));
        Self(text.into())
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
