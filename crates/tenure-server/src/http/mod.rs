//! The HTTP API: routes, and the nets around them.

mod body;
mod drain;
mod events;
mod head;
mod health;
mod leases;
mod origin;
mod path;
mod problem;
mod query;
mod renewals;
mod shortcut;

use std::any::Any;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use tenure_core::wire::{Code, Problem};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::error;

pub(crate) use self::drain::{DrainOnDrop, Rest};
pub(crate) use self::head::{Refused, check_head, refuse_head};
use self::origin::check_request_origin;
pub(crate) use self::problem::Failure;
pub(crate) use self::shortcut::{Shortcut, renew, renewal};
use crate::Store;
use crate::panics;

/// The store's HTTP API as a router, for a server of one's own or for tests. Whoever serves it sets
/// timeouts for slow clients; [`Server`](crate::Server) does.
pub fn router(store: Store) -> Router {
    let leases = "/v1/namespaces/{namespace}/leases";
    let lease = "/v1/namespaces/{namespace}/leases/{lease}";
    Router::new()
        .route("/v1/namespaces/{namespace}/renew", post(renewals::renew))
        .route(leases, get(leases::list))
        .route(
            lease,
            get(events::of_namespace_or_view).delete(leases::delete),
        )
        .route(&format!("{lease}/events"), get(events::of_lease))
        .route(&format!("{lease}/acquire"), post(leases::acquire))
        .route(&format!("{lease}/renew"), post(leases::renew))
        .route(&format!("{lease}/change"), post(leases::change))
        .route(&format!("{lease}/release"), post(leases::release))
        .route(&format!("{lease}/break"), post(leases::break_lease))
        .route(&format!("{lease}/handover"), post(leases::hand_over))
        .route(&format!("{lease}/verify"), post(leases::verify))
        .route(&format!("{lease}/metadata"), put(leases::set_metadata))
        .route(&format!("{lease}/history"), get(leases::history))
        .route("/v1/limits", get(health::limits))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(map_request(check_request_origin))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(store)
}

/// What connections over the limit are served: renewals, because who holds a lease keeps it however
/// many others come, and signs of life, because a store that has much to do need not be killed. All
/// else is refused.
pub(crate) fn crowded(store: Store) -> Router {
    let lease = "/v1/namespaces/{namespace}/leases/{lease}";
    Router::new()
        .route("/v1/namespaces/{namespace}/renew", post(renewals::renew))
        .route(&format!("{lease}/renew"), post(leases::renew))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .fallback(too_many_connections)
        .method_not_allowed_fallback(too_many_connections)
        .layer(map_request(check_request_origin))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(store)
}

pub(crate) async fn too_many_connections(State(store): State<Store>) -> Failure {
    let most = store.limits().max_connections;
    Failure(Problem::new(
        Code::OverLimit,
        format!("the store has more than {most} connections, at most {most} are taken"),
    ))
}

pub(crate) async fn unknown_route(uri: Uri) -> Failure {
    Failure(Problem::new(
        Code::UnknownRoute,
        format!("there is no path {}", uri.path()),
    ))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Failure {
    Failure(Problem::new(
        Code::MethodNotAllowed,
        format!("{} does not take {method}", uri.path()),
    ))
}

/// The last net: a fault of ours ends one request and nothing else.
#[allow(clippy::needless_pass_by_value)] // The layer wants it so.
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    error!(
        error = panics::text(&*panic),
        "a request failed by a fault in the store"
    );
    Failure(Problem::new(Code::Internal, "see the store's log")).into_response()
}
