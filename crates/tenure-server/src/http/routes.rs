//! The routes of the native API.

use axum::Router;
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use axum::routing::{MethodFilter, get, post};
use tenure_core::wire::{Code, Problem};

use super::leases::operation;
use super::problem::ProblemResponse;
use super::{events, health, leases, renewals};
use crate::Store;

const LIVE: &str = "/livez";
const READY: &str = "/readyz";

const POST: MethodFilter = MethodFilter::POST;
const PUT: MethodFilter = MethodFilter::PUT;

pub(super) fn routes(store: Store) -> Router {
    let leases = "/v1/namespaces/{namespace}/leases";
    let lease = "/v1/namespaces/{namespace}/leases/{lease}";
    let of = |name| format!("{lease}/{name}");
    Router::new()
        .route("/v1/namespaces/{namespace}/renew", post(renewals::renew))
        .route(leases, get(leases::list))
        .route(
            lease,
            get(events::of_namespace_or_view).delete(leases::delete),
        )
        .route(&of("events"), get(events::of_lease))
        .route(&of("acquire"), post(leases::acquire))
        .route(&of("verify"), post(leases::verify))
        .route(&of("renew"), operation(POST, leases::renew))
        .route(&of("change"), operation(POST, leases::change))
        .route(&of("release"), operation(POST, leases::release))
        .route(&of("break"), operation(POST, leases::break_lease))
        .route(&of("handover"), operation(POST, leases::hand_over))
        .route(&of("metadata"), operation(PUT, leases::set_metadata))
        .route(&of("history"), get(leases::history))
        .route("/v1/limits", get(health::limits))
        .route(LIVE, get(health::live))
        .route(READY, get(health::ready))
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(store)
}

/// Returns whether a path belongs to the native API, also if there is no route for it. An account
/// of another protocol never has such a name.
pub(super) fn is_native(path: &str) -> bool {
    let first = path.strip_prefix('/').unwrap_or(path).split('/').next();
    matches!(first, None | Some("" | "v1")) || path == LIVE || path == READY
}

/// Returns whether a native request is answered on a connection over the limit: renewals and checks
/// of liveness and readiness are.
pub(super) fn is_essential(head: &Parts) -> bool {
    match head.uri.path() {
        LIVE | READY => matches!(head.method, Method::GET | Method::HEAD),
        path => {
            head.method == Method::POST
                && path.starts_with("/v1/namespaces/")
                && path.ends_with("/renew")
        }
    }
}

async fn unknown_route(uri: Uri) -> ProblemResponse {
    ProblemResponse(Problem::new(
        Code::UnknownRoute,
        format!("there is no path {}", uri.path()),
    ))
}

async fn method_not_allowed(method: Method, uri: Uri) -> ProblemResponse {
    ProblemResponse(Problem::new(
        Code::MethodNotAllowed,
        format!("{} does not take {method}", uri.path()),
    ))
}
