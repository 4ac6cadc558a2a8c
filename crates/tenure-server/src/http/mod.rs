//! The HTTP API. Every request goes through [`service`], which lists all checks.

mod protocol;
mod service;

mod drain;
mod head;
mod origin;

mod fast_path;
mod routes;

mod events;
mod health;
mod leases;
mod renewals;

mod body;
mod path;
mod problem;
mod query;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;

pub use self::protocol::Protocol;
pub(crate) use self::service::{HttpService, Source};
use crate::Store;

/// Returns the store's HTTP API as a router, for another server or for tests. A server with it must
/// set timeouts for slow clients; [`Server`](crate::Server) does.
pub fn router(store: Store) -> Router {
    let service = Arc::new(HttpService::new(store, None));
    Router::new().fallback(move |request: Request| {
        let service = Arc::clone(&service);
        async move { service.serve_request(&Source::default(), request).await }
    })
}
