//! The HTTP API. Every request goes through [`service`], which lists all checks.

mod protocol;
mod service;

mod drain;
mod head;
mod origin;

mod auditor;
mod authorize;
mod request_id;
mod routes;

mod cluster;
mod events;
mod health;
mod identity;
mod leases;
mod metrics;
mod openapi;
mod overview;
mod page;
mod renewals;
mod session;

mod body;
mod call;
mod page_of_json;
mod problem;
mod query;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;

pub use self::protocol::Protocol;
pub use self::routes::{Route, is_native, routes};
pub use self::service::set_remote_parent;
pub(crate) use self::service::{HttpService, ServiceConfig, Source};
use crate::Store;
use crate::access::Access;

/// Returns the store's HTTP API as a router, for another server or for tests. Such a server must
/// set timeouts for slow clients; [`Server`](crate::Server) does. The router does not know the
/// addresses of clients, so it does not limit wrong credentials.
pub fn router(store: Store, access: Access) -> Router {
    let service = Arc::new(HttpService::new(ServiceConfig::new(store.into(), access)));
    Router::new().fallback(move |request: Request| {
        let service = Arc::clone(&service);
        async move { service.serve_request(&Source::default(), request).await }
    })
}
