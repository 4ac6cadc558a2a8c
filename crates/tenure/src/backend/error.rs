//! The error of a lease service.

use std::error::Error;
use std::fmt;

/// Why a lease service has not executed a request.
///
/// [`get_ref`](Self::get_ref) is the service's own error, such as
/// [`StoreError`](crate::store::StoreError) of a lease store.
#[derive(Debug)]
pub struct BackendError {
    kind: Kind,
    error: Box<dyn Error + Send + Sync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// There was no answer.
    Unreachable,
    /// The service can't execute the request now.
    Transient,
    /// The service refuses the request, and would refuse it again.
    Definite,
}

impl BackendError {
    pub(super) fn new(kind: Kind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        Self { kind, error }
    }

    /// Whether there was no answer, so that the service may have executed the request.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.kind == Kind::Unreachable
    }

    /// Whether the same request may succeed later: there was no answer, or the service can't
    /// execute it now. Otherwise a person must change something.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.kind != Kind::Definite
    }

    /// The service's own error, to be downcast.
    #[must_use]
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.error.as_ref()
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for BackendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
