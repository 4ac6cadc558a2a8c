//! The table of the routes of the native API. The router, the rights that each request needs, and
//! the description of the API come from this table.

pub(super) mod description;
mod table;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use axum::middleware::{Next, from_fn};
use axum::routing::MethodRouter;
use axum::{Extension, Router};
use tenure_core::wire::{Code, Problem};

use self::description::{Answer, Body, Kind, Parameter, Tag};
use self::table::SESSION;
pub(super) use self::table::{ACQUIRE, NAMESPACE_EVENTS, RELEASE, RENEW, ROUTES};
use super::authorize::{Gate, TargetOf};
use super::metrics::Scrape;
use super::problem::ProblemResponse;
use crate::access::{Access, Right};
use crate::audit::Audit;
use crate::store::ServedStore;

/// A route of the native API. The router and the checks of rights read the first columns, and the
/// description of the API reads all of them.
#[derive(Debug)]
pub struct Route {
    method: Method,
    path: &'static str,
    right: Right,
    target: TargetOf,
    /// A short name that does not change.
    label: &'static str,
    tag: Tag,
    description: &'static str,
    kind: Kind,
    /// All parameters that the query may have.
    query: &'static [Parameter],
    body: Option<Body>,
    /// The answers to requests that succeed.
    answers: &'static [Answer],
    /// The codes of refusals, apart from those that follow from the other columns.
    codes: &'static [Code],
    handler: fn() -> MethodRouter<ServedStore>,
}

impl Route {
    /// Returns the method.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the path, with names in braces for its parts.
    #[must_use]
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// Returns a short name that does not change.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        self.label
    }

    /// Returns a description of the route.
    #[must_use]
    pub const fn description(&self) -> &'static str {
        self.description
    }

    /// Returns whether a request of this route may have a body.
    #[must_use]
    pub const fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// Returns the right that a request of this route needs: `nothing`, `any credential`, or roles.
    #[must_use]
    pub fn needs(&self) -> String {
        match self.right {
            Right::Open => "nothing".into(),
            Right::Credential => "any credential".into(),
            Right::OwnCredential => "any credential but a session".into(),
            Right::Session => "a session".into(),
            Right::CodeOrOwnCredential => "a one-time code, or any credential but a session".into(),
            Right::Role(role) => role.to_string(),
            Right::Either(one, other) => format!("{one} or {other}"),
        }
    }

    pub(super) const fn right(&self) -> Right {
        self.right
    }

    pub(super) const fn target(&self) -> TargetOf {
        self.target
    }

    pub(super) const fn tag(&self) -> Tag {
        self.tag
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) const fn query(&self) -> &'static [Parameter] {
        self.query
    }

    pub(super) const fn body(&self) -> Option<Body> {
        self.body
    }

    pub(super) const fn answers(&self) -> &'static [Answer] {
        self.answers
    }

    pub(super) const fn codes(&self) -> &'static [Code] {
        self.codes
    }

    /// Returns whether the listener for metrics serves this route.
    fn is_for_metrics_listener(&self) -> bool {
        matches!(self.path, "/livez" | "/readyz" | "/metrics")
    }

    /// Returns whether the route has this path. It allocates nothing, because it is called for each
    /// request.
    fn has_path(&self, path: &str) -> bool {
        let (mut own, mut parts) = (self.path.split('/'), path.split('/'));
        loop {
            match (own.next(), parts.next()) {
                (None, None) => return true,
                (Some(own), Some(part)) if own == part => {}
                (Some(own), Some(part)) if own.starts_with('{') && !part.is_empty() => {}
                _ => return false,
            }
        }
    }

    /// Returns whether the answer contains the id of the request even if the request succeeds.
    pub(super) fn is_change(&self) -> bool {
        is_change(&self.method, self.path)
    }
}

/// The labels of requests: those of all routes, then that of requests without a route, and then
/// that of requests of another protocol.
pub(super) fn labels(protocol: Option<&'static str>) -> impl Iterator<Item = &'static str> {
    let labels = ROUTES.iter().map(|route| route.label);
    labels.chain(["other"]).chain(protocol)
}

/// The positions of requests without a route, and of requests of another protocol, among the
/// [`labels`].
pub(super) const NO_ROUTE: usize = ROUTES.len();
pub(super) const PROTOCOL: usize = NO_ROUTE + 1;

/// Returns the position of the request's route in the table.
pub(super) fn position(head: &Parts) -> Option<usize> {
    let path = head.uri.path();
    let method = match head.method {
        Method::HEAD => &Method::GET,
        ref method => method,
    };
    let has = |route: &Route| route.method == *method && route.has_path(path);
    ROUTES.iter().position(has)
}

/// The routes that a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serves {
    All,
    /// Metrics and the probes.
    Metrics,
}

/// Returns the routes of the native API.
#[must_use]
pub fn routes() -> &'static [Route] {
    &ROUTES
}

/// Creates the router. No other function adds routes to a router, so each route has its right.
#[allow(clippy::disallowed_methods)]
pub(super) fn router(
    stores: ServedStore,
    access: &Access,
    audit: Audit,
    scrape: Arc<Scrape>,
    serves: Serves,
) -> Router {
    let mut router = Router::new();
    let routes = ROUTES.iter();
    for route in routes.filter(|route| serves == Serves::All || route.is_for_metrics_listener()) {
        let gate = Gate::new(stores.clone(), access.clone(), route);
        let authorize =
            from_fn(move |request: Request, next: Next| gate.clone().pass(request, next));
        router = router.route(route.path, (route.handler)().route_layer(authorize));
    }
    router
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(Extension(access.clone()))
        .layer(Extension(audit))
        .layer(Extension(scrape))
        .with_state(stores)
}

/// The first segments of the native API's paths, and of the paths that are reserved for it.
const FIRST_PARTS: [&str; 7] = [
    "active",
    "livez",
    "metrics",
    "openapi.json",
    "readyz",
    "ui",
    "v1",
];

/// Returns whether a path belongs to the native API, even if no route has the path. Requests for
/// such a path never reach a [`Protocol`](crate::Protocol), so a protocol must not have resources
/// there.
#[must_use]
pub fn is_native(path: &str) -> bool {
    let path = path.strip_prefix('/').unwrap_or(path);
    let first = path.split_once('/').map_or(path, |(first, _)| first);
    first.is_empty() || FIRST_PARTS.contains(&first)
}

/// Returns whether the request needs no credential. Only a file of the page has a name in the path
/// of such a request.
pub(super) fn is_open(head: &Parts) -> bool {
    let path = head.uri.path();
    let is_at = |route: &Route| match route.path.strip_suffix("{file}") {
        Some(folder) => path
            .strip_prefix(folder)
            .is_some_and(|file| !file.contains('/')),
        None => route.path == path,
    };
    let mut open = ROUTES.iter().filter(|route| route.right == Right::Open);
    matches!(head.method, Method::GET | Method::HEAD) && open.any(is_at)
}

/// Returns whether the request checks liveness or readiness.
pub(super) fn is_probe(head: &Parts) -> bool {
    is_open(head) && matches!(head.uri.path(), "/active" | "/livez" | "/readyz")
}

/// Returns whether the request may have its credential in its body: a one-time code.
pub(super) fn may_have_code(head: &Parts) -> bool {
    head.method == SESSION.method && head.uri.path() == SESSION.path
}

/// Returns whether a native request is answered on a connection over the limit: renewals and checks
/// of liveness and readiness are.
pub(super) fn is_essential(head: &Parts) -> bool {
    is_renewal(&head.method, head.uri.path()) || is_probe(head)
}

/// Returns whether a native request may change a lease other than by a renewal. The answer to such
/// a request contains the id of the request, even if the request succeeds.
pub(super) fn is_change(method: &Method, path: &str) -> bool {
    !matches!(*method, Method::GET | Method::HEAD) && !is_renewal(method, path)
}

fn is_renewal(method: &Method, path: &str) -> bool {
    method == Method::POST && path.starts_with("/v1/namespaces/") && path.ends_with("/renew")
}

pub(super) async fn unknown_route(uri: Uri) -> ProblemResponse {
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

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    #[test]
    fn a_request_has_the_label_of_the_route_that_the_router_finds() {
        let position_of = |method: &Method, path: &str| {
            let request = Request::builder().method(method).uri(path);
            position(&request.body(()).unwrap().into_parts().0)
        };
        for (index, route) in ROUTES.iter().enumerate() {
            let path = route
                .path
                .replace("{namespace}", "a")
                .replace("{lease}", "b");
            assert_eq!(position_of(&route.method, &path), Some(index), "{path}");
            assert_eq!(position_of(&Method::PATCH, &path), None, "{path}");
            if route.method == Method::GET {
                assert_eq!(position_of(&Method::HEAD, &path), Some(index), "{path}");
            }
        }
        for other in [
            "/x",
            "/livez/",
            "/v1/namespaces//leases",
            "/v1/namespaces/a/leases/",
            "/v1/namespaces/a/leases/b/renew/",
        ] {
            assert_eq!(position_of(&Method::GET, other), None, "{other}");
        }
        let labels: Vec<_> = labels(Some("azure")).collect();
        assert_eq!((labels[NO_ROUTE], labels[PROTOCOL]), ("other", "azure"));
    }

    #[test]
    fn every_route_is_native_and_other_paths_are_not() {
        for route in routes() {
            assert!(is_native(route.path()), "{}", route.path());
        }
        for native in ["", "/", "/v1", "/v1/x", "/metrics", "/livez/x", "/ui/"] {
            assert!(is_native(native), "{native}");
        }
        for other in ["/v12", "/account", "/account/v1", "/metrics2"] {
            assert!(!is_native(other), "{other}");
        }
    }
}
