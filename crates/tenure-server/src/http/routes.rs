//! The table of the routes of the native API. The router, the rights that each request needs, and
//! the descriptions of the routes come from this table.

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use axum::middleware::{Next, from_fn};
use axum::routing::{MethodFilter, MethodRouter, delete, get, post};
use axum::{Extension, Router};
use tenure_core::wire::{Code, Problem};

use super::authorize::{Gate, TargetOf};
use super::leases::operation;
use super::problem::ProblemResponse;
use super::{events, health, identity, leases, overview, renewals, session};
use crate::Store;
use crate::access::{Access, Right, Role};
use crate::audit::Audit;

/// A route of the native API.
#[derive(Debug)]
pub struct Route {
    method: Method,
    path: &'static str,
    right: Right,
    target: TargetOf,
    label: &'static str,
    description: &'static str,
    handler: fn() -> MethodRouter<Store>,
}

const READ: Right = Right::Role(Role::Read);
const CANDIDATE: Right = Right::Role(Role::Candidate);
const OPERATOR: Right = Right::Role(Role::Operator);

/// All routes. A route without a right does not compile.
pub(crate) static ROUTES: [Route; 25] = [
    Route {
        method: Method::GET,
        path: "/livez",
        right: Right::Open,
        target: TargetOf::Store,
        label: "livez",
        description: "whether the process lives",
        handler: || get(health::live),
    },
    Route {
        method: Method::GET,
        path: "/readyz",
        right: Right::Open,
        target: TargetOf::Store,
        label: "readyz",
        description: "whether the store accepts requests",
        handler: || get(health::ready),
    },
    Route {
        method: Method::GET,
        path: "/v1/limits",
        right: Right::Credential,
        target: TargetOf::Store,
        label: "limits",
        description: "the limits of the store",
        handler: || get(health::limits),
    },
    Route {
        method: Method::GET,
        path: "/v1/whoami",
        right: Right::Credential,
        target: TargetOf::Store,
        label: "whoami",
        description: "the caller's principal and its grants",
        handler: || get(identity::whoami),
    },
    SESSION,
    Route {
        method: Method::POST,
        path: "/v1/session/code",
        right: Right::OwnCredential,
        target: TargetOf::Store,
        label: "session_code",
        description: "a one-time code for a session",
        handler: || post(session::create_code),
    },
    Route {
        method: Method::GET,
        path: "/v1/access",
        right: Right::Role(Role::Admin),
        target: TargetOf::Store,
        label: "access",
        description: "all principals, and when their tokens were last used",
        handler: || get(identity::principals),
    },
    Route {
        method: Method::GET,
        path: "/v1/overview",
        right: READ,
        target: TargetOf::Anywhere,
        label: "overview",
        description: "the leases of all namespaces, those that need a look first",
        handler: || get(overview::overview),
    },
    Route {
        method: Method::GET,
        path: "/v1/events",
        right: READ,
        target: TargetOf::Anywhere,
        label: "all_events",
        description: "the events of all namespaces",
        handler: || get(events::of_all),
    },
    Route {
        method: Method::GET,
        path: "/v1/namespaces",
        right: READ,
        target: TargetOf::Anywhere,
        label: "namespaces",
        description: "the namespaces, and the number of leases in each of them",
        handler: || get(overview::namespaces),
    },
    Route {
        method: Method::GET,
        path: "/v1/namespaces/{namespace}/leases",
        right: READ,
        target: TargetOf::Namespace,
        label: "list",
        description: "the leases of a namespace",
        handler: || get(leases::list),
    },
    Route {
        method: Method::POST,
        path: "/v1/namespaces/{namespace}/renew",
        right: CANDIDATE,
        target: TargetOf::Namespace,
        label: "renew_many",
        description: "renews many leases; each succeeds or fails independently",
        handler: || post(renewals::renew),
    },
    Route {
        method: Method::GET,
        path: "/v1/namespaces/{namespace}/leases/{lease}",
        right: READ,
        target: TargetOf::LeaseOrEvents,
        label: "view",
        description: "one lease, or the events of the namespace",
        handler: || get(events::of_namespace_or_view),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/namespaces/{namespace}/leases/{lease}",
        right: OPERATOR,
        target: TargetOf::Lease,
        label: "delete",
        description: "deletes a lease",
        handler: || delete(leases::delete),
    },
    Route {
        method: Method::GET,
        path: "/v1/namespaces/{namespace}/leases/{lease}/events",
        right: READ,
        target: TargetOf::Lease,
        label: "events",
        description: "the events of a lease",
        handler: || get(events::of_lease),
    },
    Route {
        method: Method::GET,
        path: "/v1/namespaces/{namespace}/leases/{lease}/history",
        right: READ,
        target: TargetOf::Lease,
        label: "history",
        description: "the terms of a lease",
        handler: || get(leases::history),
    },
    Route {
        method: Method::GET,
        path: "/v1/namespaces/{namespace}/leases/{lease}/waiters",
        right: READ,
        target: TargetOf::Lease,
        label: "waiters",
        description: "the candidates that wait for a lease",
        handler: || get(overview::waiters),
    },
    Route {
        method: Method::POST,
        path: "/v1/namespaces/{namespace}/leases/{lease}/verify",
        right: READ,
        target: TargetOf::Lease,
        label: "verify",
        description: "whether an epoch is the current one",
        handler: || post(leases::verify),
    },
    Route {
        method: Method::POST,
        path: "/v1/namespaces/{namespace}/leases/{lease}/acquire",
        right: CANDIDATE,
        target: TargetOf::Lease,
        label: "acquire",
        description: "acquires a lease, or waits for it",
        handler: || post(leases::acquire),
    },
    RENEW,
    Route {
        method: Method::POST,
        path: "/v1/namespaces/{namespace}/leases/{lease}/change",
        right: CANDIDATE,
        target: TargetOf::Lease,
        label: "change",
        description: "changes the lease id of one's own lease",
        handler: || operation(MethodFilter::POST, leases::change),
    },
    Route {
        method: Method::POST,
        path: "/v1/namespaces/{namespace}/leases/{lease}/release",
        right: CANDIDATE,
        target: TargetOf::Lease,
        label: "release",
        description: "releases one's own lease",
        handler: || operation(MethodFilter::POST, leases::release),
    },
    Route {
        method: Method::PUT,
        path: "/v1/namespaces/{namespace}/leases/{lease}/metadata",
        right: CANDIDATE,
        target: TargetOf::Lease,
        label: "metadata",
        description: "sets the metadata of one's own lease",
        handler: || operation(MethodFilter::PUT, leases::set_metadata),
    },
    Route {
        method: Method::POST,
        path: "/v1/namespaces/{namespace}/leases/{lease}/handover",
        right: Right::Either(Role::Candidate, Role::Operator),
        target: TargetOf::Lease,
        label: "handover",
        description: "hands a lease over; without a lease id it needs operator",
        handler: || operation(MethodFilter::POST, leases::hand_over),
    },
    Route {
        method: Method::POST,
        path: "/v1/namespaces/{namespace}/leases/{lease}/break",
        right: OPERATOR,
        target: TargetOf::Lease,
        label: "break",
        description: "breaks a lease",
        handler: || operation(MethodFilter::POST, leases::break_lease),
    },
];

/// The route that makes a session. The guard passes a request without a credential to it.
const SESSION: Route = Route {
    method: Method::POST,
    path: "/v1/session",
    right: Right::CodeOrOwnCredential,
    target: TargetOf::Store,
    label: "session",
    description: "a session, from a one-time code or from another credential",
    handler: || post(session::create),
};

/// The route of a renewal. The fast path checks the same right.
pub(super) const RENEW: Route = Route {
    method: Method::POST,
    path: "/v1/namespaces/{namespace}/leases/{lease}/renew",
    right: CANDIDATE,
    target: TargetOf::Lease,
    label: "renew",
    description: "renews one's own lease",
    handler: || operation(MethodFilter::POST, leases::renew),
};

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

    /// Returns the right that a request of this route needs: `nothing`, `any credential`, or roles.
    #[must_use]
    pub fn needs(&self) -> String {
        match self.right {
            Right::Open => "nothing".into(),
            Right::Credential => "any credential".into(),
            Right::OwnCredential => "any credential but a session".into(),
            Right::CodeOrOwnCredential => {
                "a one-time code, or any credential but a session".into()
            }
            Right::Role(role) => role.to_string(),
            Right::Either(one, other) => format!("{one} or {other}"),
        }
    }

    pub(super) const fn right(&self) -> Right {
        self.right
    }
}

/// Returns the routes of the native API.
#[must_use]
pub fn routes() -> &'static [Route] {
    &ROUTES
}

/// Creates the router. No other function adds routes to a router, so each route has its right.
#[allow(clippy::disallowed_methods)]
pub(super) fn router(store: Store, access: &Access, audit: Audit) -> Router {
    let mut router = Router::new();
    for route in &ROUTES {
        let gate = Gate::new(access.clone(), route.right, route.target);
        let authorize =
            from_fn(move |request: Request, next: Next| gate.clone().pass(request, next));
        router = router.route(route.path, (route.handler)().route_layer(authorize));
    }
    router
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(Extension(access.clone()))
        .layer(Extension(audit))
        .with_state(store)
}

/// The first segments of the native API's paths, and of the paths that are reserved for it.
const FIRST_PARTS: [&str; 6] = ["livez", "metrics", "openapi.json", "readyz", "ui", "v1"];

/// Returns whether a path belongs to the native API, even if no route has the path. Requests for
/// such a path never reach a [`Protocol`](crate::Protocol), so a protocol must not have resources
/// there.
#[must_use]
pub fn is_native(path: &str) -> bool {
    let path = path.strip_prefix('/').unwrap_or(path);
    let first = path.split_once('/').map_or(path, |(first, _)| first);
    first.is_empty() || FIRST_PARTS.contains(&first)
}

/// Returns whether the request needs no credential. The paths of such requests contain no names.
pub(super) fn is_open(head: &Parts) -> bool {
    let path = head.uri.path();
    matches!(head.method, Method::GET | Method::HEAD)
        && ROUTES
            .iter()
            .any(|route| route.right == Right::Open && route.path == path)
}

/// Returns whether the request may have its credential in its body: a one-time code.
pub(super) fn may_have_code(head: &Parts) -> bool {
    head.method == SESSION.method && head.uri.path() == SESSION.path
}

/// Returns whether a native request is answered on a connection over the limit: renewals and checks
/// of liveness and readiness are.
pub(super) fn is_essential(head: &Parts) -> bool {
    is_renewal(head) || is_open(head)
}

/// Returns whether a native request may change a lease other than by a renewal. The answer to such
/// a request contains the id of the request, even if the request succeeds.
pub(super) fn is_change(head: &Parts) -> bool {
    !matches!(head.method, Method::GET | Method::HEAD) && !is_renewal(head)
}

fn is_renewal(head: &Parts) -> bool {
    let path = head.uri.path();
    head.method == Method::POST && path.starts_with("/v1/namespaces/") && path.ends_with("/renew")
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

#[cfg(test)]
mod tests {
    use super::*;

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
