//! The HTTP API. Every request goes through [`service`]; see there what it passes.

mod protocol;
mod service;

mod drain;
mod head;
mod origin;

mod auditor;
mod authorize;
mod fast_path;
mod routes;

mod events;
mod health;
mod identity;
mod leases;
mod renewals;

mod body;
mod path;
mod problem;
mod query;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;

pub(crate) use self::drain::Rest;
pub use self::protocol::Protocol;
pub use self::routes::{Route, routes};
pub(crate) use self::service::{HttpService, Load, Source};
use crate::Store;
use crate::access::Access;
use crate::audit::Audit;

/// The store's HTTP API as a router, for a server of one's own or for tests. A server with it must
/// set timeouts for slow clients; [`Server`](crate::Server) does. The router does not know the
/// addresses of clients, so it does not limit wrong credentials.
pub fn router(store: Store, access: Access) -> Router {
    let service = Arc::new(HttpService::new(store, access, Audit::none(), None));
    let source = Source {
        client: None,
        load: Load::Within,
    };
    Router::new().fallback(move |request: Request| {
        let service = Arc::clone(&service);
        async move { service.serve_request(source, request).await }
    })
}
