//! The lease protocol of Azure Blob storage on a tenure store, for clients of Azure.
//!
//! The purpose is leases and not storage: blobs are small, all of them are in memory, and functions
//! without relation to leases are missing. The lease of a blob or a container is a lease like any
//! other, under [`Rules::AZURE`](tenure_core::lease::Rules::AZURE); `names.rs` maps the names of
//! one to the names of the other.
//!
//! ```text
//! request --> auth --> call --> blobs (memory) --> store: documents
//!                        |
//!                        +----> store: leases --> lease::apply (core)
//! ```
//!
//! The protocol is that of "Lease Blob", "Lease Container", "Put Blob" and the like in the Azure
//! Storage REST API.

mod config;

mod call;

mod auth;
mod calls;

mod access;
mod blobs;
mod conditions;
mod error;
mod headers;
mod names;
mod target;
mod xml;

mod clock;
mod random;

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use tenure_core::wire::Problem;
use tenure_server::{OpenError, Protocol, Store};

use self::auth::Guard;
use self::blobs::Blobs;
use self::call::ResponseContext;

pub use self::config::{AzureBearer, AzureConfig, AzureConfigError, ServedAccount};

/// The Azure Blob lease protocol of a store, for
/// [`Server::with_protocol`](tenure_server::Server::with_protocol). Clones are handles to the same
/// protocol.
#[derive(Clone)]
pub struct Azure(Arc<Service>);

struct Service {
    store: Store,
    blobs: Blobs,
    guard: Guard,
    max_blob_bytes: usize,
}

/// The reason why the protocol cannot be served. No data on disk was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AzureError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] AzureConfigError),
    /// The store has documents that are not blobs.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl Azure {
    /// Opens the protocol for `store`, which stores the blobs. Open only one protocol for a store.
    ///
    /// # Errors
    ///
    /// [`AzureError`].
    #[allow(clippy::needless_pass_by_value)] // The protocol takes ownership of its configuration.
    pub fn open(store: &Store, config: AzureConfig) -> Result<Self, AzureError> {
        config.check()?;
        let blobs = Blobs::open(store, &config)?;
        Ok(Self(Arc::new(Service {
            store: store.clone(),
            blobs,
            guard: Guard::new(&config),
            max_blob_bytes: config.max_blob_bytes,
        })))
    }
}

impl Protocol for Azure {
    fn label(&self) -> &'static str {
        "azure"
    }

    fn is_renewal(&self, head: &Parts) -> bool {
        calls::is_renewal(head)
    }

    fn serve(
        &self,
        request: Request,
        client: Option<IpAddr>,
    ) -> Pin<Box<dyn Future<Output = Response> + Send>> {
        let service = Arc::clone(&self.0);
        Box::pin(async move {
            let context = ResponseContext::of(request.method(), request.headers());
            context.respond(call::serve(service, request, client).await)
        })
    }

    fn refuse(&self, head: Option<&Parts>, problem: Problem) -> Response {
        let context = match head {
            Some(head) => ResponseContext::of(&head.method, &head.headers),
            None => ResponseContext::unknown(),
        };
        context.respond(Err(problem.into()))
    }

    fn needs_tls(&self) -> bool {
        self.0.guard.over_tls
    }
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Azure")
    }
}
