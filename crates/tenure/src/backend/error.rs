//! The error of a lease service.

use std::error::Error;

/// The reason why a request to a lease service failed.
///
/// Each variant contains the service's own error, such as [`StoreError`](crate::store::StoreError)
/// of a lease store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The service did not answer. The service may have executed the request.
    #[error(transparent)]
    Unreachable(Box<dyn Error + Send + Sync>),
    /// The service can't execute the request now.
    #[error(transparent)]
    Transient(Box<dyn Error + Send + Sync>),
    /// The service refuses the request, and would refuse it again: a person must change something.
    #[error(transparent)]
    Definite(Box<dyn Error + Send + Sync>),
}

impl BackendError {
    /// Returns the service's own error, which the caller can downcast.
    #[must_use]
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        match self {
            Self::Unreachable(error) | Self::Transient(error) | Self::Definite(error) => &**error,
        }
    }
}
