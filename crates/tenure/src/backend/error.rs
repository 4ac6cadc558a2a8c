//! The error of a lease service.

use std::error::Error;
use std::fmt;

/// Why a lease service has not executed a request.
///
/// [`get_ref`](Self::get_ref) is the service's own error, such as
/// [`StoreError`](crate::store::StoreError) of a lease store.
#[derive(Debug)]
pub struct BackendError {
    is_transient: bool,
    error: Box<dyn Error + Send + Sync>,
}

impl BackendError {
    /// The same request may succeed later.
    pub(crate) fn transient(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            is_transient: true,
            error: error.into(),
        }
    }

    /// The same request fails until a person changes something.
    pub(crate) fn definite(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            is_transient: false,
            error: error.into(),
        }
    }

    /// Whether the same request may succeed later: the service can't be reached, or can't answer
    /// now. Otherwise it refused, and a person must change something.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        self.is_transient
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
