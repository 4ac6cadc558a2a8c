//! The Azure Blob lease protocol: another face of the store, for clients that speak to Azure.
//!
//! It is a lease store's face, not a blob store: blobs are small, all of them are in memory, and what
//! has nothing to do with leases is not there. A lease of a blob or a container is a lease like any
//! other, by the rules of [`Rules::AZURE`](tenure_core::lease::Rules::AZURE); which one, [`names`] says.
//!
//! ```text
//! request --> auth --> call --> blobs (memory, blobs.db)
//!                        |
//!                        +----> store --> lease::apply (core)
//! ```
//!
//! The protocol is that of "Lease Blob", "Lease Container", "Put Blob" and the like in the Azure Storage
//! REST API.

mod auth;
mod blobs;
mod call;
mod calls;
mod conditions;
mod config;
mod copies;
mod error;
mod headers;
mod names;
mod target;
mod xml;

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tower_http::catch_panic::CatchPanicLayer;
use tower_service::Service;
use tracing::error;

use self::auth::{Guard, Peer};
use self::blobs::Blobs;
use self::call::Conversation;
use crate::Store;
use crate::config::EngineConfig;
use crate::engine::OpenError;
use crate::http;
use crate::panics;

pub use config::{AzureAccount, AzureBearer, AzureConfig, AzureConfigError};
pub use copies::{backup, restore};

/// The Azure Blob lease protocol in front of a store. Clones are handles to the same one.
#[derive(Clone)]
pub struct Azure(Arc<Face>);

struct Face {
    store: Store,
    blobs: Arc<Blobs>,
    guard: Guard,
    max_blob_bytes: usize,
}

/// Why the face could not be opened. Nothing on disk was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AzureError {
    /// It is set up in a way that can't be.
    #[error(transparent)]
    Config(#[from] AzureConfigError),
    /// Its blobs can't be read.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl Azure {
    /// Opens the face of `store`, which is on this engine. Where leases are kept, blobs are, in a file
    /// beside them.
    ///
    /// It blocks while it reads and checks what is on disk.
    ///
    /// # Errors
    ///
    /// [`AzureError`].
    #[allow(clippy::needless_pass_by_value)] // A face takes its configuration over.
    pub fn open(
        store: &Store,
        engine: &EngineConfig,
        config: AzureConfig,
    ) -> Result<Self, AzureError> {
        config.check()?;
        let folder = match engine {
            EngineConfig::Memory => None,
            EngineConfig::Embedded { data_dir } => Some(data_dir.as_path()),
        };
        Ok(Self(Arc::new(Face {
            store: store.clone(),
            blobs: Arc::new(Blobs::open(
                folder,
                config.max_total_bytes,
                config.staged(),
            )?),
            guard: Guard::new(&config),
            max_blob_bytes: config.max_blob_bytes,
        })))
    }

    /// Whether it counts on the server's own TLS.
    pub(crate) fn needs_tls(&self) -> bool {
        self.0.guard.counts_on_tls()
    }

    /// What serves all paths that are none of the store's own.
    pub(crate) fn service(&self) -> Served {
        Served(self.clone())
    }

    /// What serves connections over the limit: renewals alone.
    pub(crate) fn crowded_router(&self) -> Router {
        Router::new()
            .fallback(answer_renewal)
            .layer(CatchPanicLayer::custom(panicked))
            .with_state(self.clone())
    }
}

/// Serves requests without a router, which would have one route, and without its boxes around each call.
#[derive(Clone)]
pub(crate) struct Served(Azure);

impl Service<Request> for Served {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let answer = answer(State(self.0.clone()), request);
        let answer = AssertUnwindSafe(answer).catch_unwind();
        Box::pin(answer.map(|answer| Ok(answer.unwrap_or_else(panicked))))
    }
}

/// Whether a path is the store's own: then there is no such one. Accounts have other names.
pub(crate) fn is_native<B>(request: &Request<B>) -> bool {
    let account = target::account_of(request.uri().path());
    account.is_empty() || account == "v1"
}

/// Tells a request whose shared access signature may be for some addresses only where it comes from.
pub(crate) fn tell_peer<B>(request: &mut Request<B>, peer: IpAddr) {
    let query = request.uri().query();
    // Who writes it in another way is not told, and refused then.
    if query.is_some_and(|query| query.contains("sip=")) {
        request.extensions_mut().insert(Peer(peer));
    }
}

/// What a head is answered that is not taken. The store's own 431 is no status of the service.
pub(crate) fn refuse_head<B>(request: &Request<B>, refused: &http::Refused) -> Response {
    let code = match refused {
        http::Refused::TooLarge(_) => error::OUT_OF_RANGE_INPUT,
        http::Refused::Malformed(_) => error::INVALID_HEADER_VALUE,
    };
    let response = Conversation::of(request).answer(Err(code.because(refused.to_string())));
    refused.closing(response)
}

async fn answer(State(Azure(face)): State<Azure>, request: Request) -> Response {
    if is_native(&request) {
        return http::unknown_route(request.uri().clone())
            .await
            .into_response();
    }
    let conversation = Conversation::of(&request);
    let result = call::serve(face, request).await;
    conversation.answer(result)
}

async fn answer_renewal(State(azure): State<Azure>, request: Request) -> Response {
    if is_native(&request) {
        let store = azure.0.store.clone();
        return http::too_many_connections(State(store))
            .await
            .into_response();
    }
    if calls::is_renewal(&request) {
        return answer(State(azure), request).await;
    }
    let most = azure.0.store.limits().max_connections;
    let detail = format!("there are more than {most} connections, at most {most} are taken");
    Conversation::of(&request).answer(Err(error::SERVER_BUSY.because(detail)))
}

/// The last net: a fault of ours ends one request and nothing else.
#[allow(clippy::needless_pass_by_value)] // The layer wants it so.
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    error!(
        error = panics::text(&*panic),
        "a request failed by a fault in the store"
    );
    Conversation::nobodys().answer(Err(error::INTERNAL_ERROR.into()))
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Azure")
    }
}
