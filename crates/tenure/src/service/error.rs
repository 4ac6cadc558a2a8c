//! The errors of a lease service and of its set-up.

use std::error::Error;
use std::io;

use crate::base::http_error::HttpClientError;
#[cfg(feature = "peers")]
use crate::base::member_error::{ListenError, StateError};
#[cfg(feature = "azure")]
use crate::config::AzureBlobError;
#[cfg(feature = "peers")]
use crate::config::BullyError;
#[cfg(feature = "kubernetes")]
use crate::config::KubernetesLeaseError;

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

/// The reason why a candidate can't start. It has sent nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The machine has no clock that continues while the machine is suspended.
    #[error("can't read the clock that measures leases")]
    Clock(#[source] io::Error),
    /// The operating system provides no random bits for lease ids.
    #[error("can't get random bits")]
    Random(#[source] io::Error),
    /// The HTTP client can't be set up.
    #[error(transparent)]
    Http(#[from] HttpClientError),
    /// The settings allow no election among peers.
    #[cfg(feature = "peers")]
    #[error("impossible election among peers")]
    Bully(#[from] BullyError),
    /// The settings allow no election by the lease of a blob.
    #[cfg(feature = "azure")]
    #[error("impossible election by the lease of a blob")]
    AzureBlob(#[from] AzureBlobError),
    /// The settings allow no election by a `Lease` object of a Kubernetes cluster.
    #[cfg(feature = "kubernetes")]
    #[error("impossible election by a Kubernetes Lease")]
    Kubernetes(#[from] KubernetesLeaseError),
    /// The metadata are too large.
    #[error("{0}")]
    Metadata(String),
    /// This member's state on disk can't be used. The member must not take part without its state.
    #[cfg(feature = "peers")]
    #[error("can't use the state of this member")]
    State(#[from] StateError),
    /// This member can't listen for the other members.
    #[cfg(feature = "peers")]
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The thread can't be started.
    #[error("can't start the thread of the candidates")]
    Thread(#[source] io::Error),
}
