//! The table of the routes of the native API. The search for the route of a request, the rights that
//! each request needs, and the description of the API come from this table.

pub(super) mod description;
mod table;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::LazyLock;

use axum::http::header::ALLOW;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use tenure_core::wire::{Code, Problem};

use self::description::{Answer, Body, Kind, Parameter, Tag};
pub(super) use self::table::{NAMESPACE_EVENTS, ROUTES};
use super::authorize::TargetOf;
use super::call::Call;
use super::problem;
use crate::access::Right;

/// A route of the native API.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with names in braces for its parts.
    pub path: &'static str,
    /// A short name that does not change.
    pub label: &'static str,
    /// A description of the route.
    pub description: &'static str,
    pub(super) right: Right,
    pub(super) target: TargetOf,
    pub(super) handler: Handler,
    pub(super) kind: Kind,
    /// All parameters that the query may have.
    pub(super) query: &'static [Parameter],
    pub(super) body: Option<Body>,
    pub(super) tag: Tag,
    /// The answers to requests that succeed.
    pub(super) answers: &'static [Answer],
    /// The codes of refusals, apart from those that follow from the other columns.
    pub(super) codes: &'static [Code],
}

/// The function that answers the requests of a route.
pub(super) type Handler = for<'a> fn(Call<'a>) -> Answering<'a>;

type Answering<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// Makes a [`Handler`] of an async function of the request, which may have one more argument.
macro_rules! answer {
    ($function:path $(, $argument:path)?) => {
        |call| Box::pin(async { super::respond($function(call $(, $argument)?).await) })
    };
}
use answer;

fn respond(answer: Result<impl IntoResponse, Problem>) -> Response {
    match answer {
        Ok(answer) => answer.into_response(),
        Err(problem) => problem::response(&problem),
    }
}

impl Route {
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

    /// Returns whether the listener for metrics serves this route.
    fn is_for_metrics_listener(&self) -> bool {
        matches!(self.path, "/livez" | "/readyz" | "/metrics")
    }

    fn is_renewal(&self) -> bool {
        matches!(self.kind, Kind::Renewal | Kind::Renewals)
    }

    /// Returns whether a request may change a lease other than by a renewal. The answer contains the
    /// id of the request, even if the request succeeds.
    pub(super) fn is_change(&self) -> bool {
        self.method != Method::GET && !self.is_renewal()
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
const NO_ROUTE: usize = ROUTES.len();
pub(super) const PROTOCOL: usize = NO_ROUTE + 1;

/// The positions in the table of the routes with the same path, by their paths.
static PATHS: LazyLock<matchit::Router<Vec<usize>>> = LazyLock::new(|| {
    let mut paths = matchit::Router::new();
    for first in &ROUTES {
        let is_same = |position: &usize| ROUTES[*position].path == first.path;
        let same: Vec<_> = (0..ROUTES.len()).filter(is_same).collect();
        // The second route of a path finds the entry of the first one.
        let _ = paths.insert(first.path, same);
    }
    paths
});

/// The result of the search for the route of a request.
#[derive(Default)]
pub(super) struct Found<'a> {
    position: Option<usize>,
    /// The routes with the path of the request.
    of_path: &'static [usize],
    parameters: Option<matchit::Params<'static, 'a>>,
}

/// Searches the route of a request. The path is matched as it was sent, and its names are decoded
/// afterwards, so an encoded `/` is a part of a name.
pub(super) fn find<'a>(method: &Method, path: &'a str) -> Found<'a> {
    let Ok(matched) = PATHS.at(path) else {
        return Found::default();
    };
    let method = match *method {
        Method::HEAD => &Method::GET,
        _ => method,
    };
    let mut of_path = matched.value.iter().copied();
    Found {
        position: of_path.find(|position| ROUTES[*position].method == *method),
        of_path: matched.value,
        parameters: Some(matched.params),
    }
}

impl<'a> Found<'a> {
    pub(super) fn route(&self) -> Option<&'static Route> {
        ROUTES.get(self.position?)
    }

    /// Returns the position of the request's label among the [`labels`].
    pub(super) fn label(&self) -> usize {
        self.position.unwrap_or(NO_ROUTE)
    }

    /// Returns a name in the path, as it was sent; empty if the path does not have it.
    pub(super) fn raw(&self, name: &str) -> &'a str {
        let parameters = self.parameters.as_ref();
        parameters.and_then(|all| all.get(name)).unwrap_or_default()
    }

    /// Returns a name in the path. Bytes that are not text become a character that no name has.
    pub(super) fn name(&self, name: &str) -> Cow<'a, str> {
        percent_decode_str(self.raw(name)).decode_utf8_lossy()
    }

    /// Returns whether the request may change a lease other than by a renewal, as far as its method
    /// tells if it has no route.
    pub(super) fn is_change(&self, method: &Method) -> bool {
        match self.route() {
            Some(route) => route.is_change(),
            None => !matches!(*method, Method::GET | Method::HEAD),
        }
    }

    /// Returns whether the request checks liveness or readiness.
    pub(super) fn is_probe(&self) -> bool {
        self.route().is_some_and(|route| route.kind == Kind::Probe)
    }

    /// Returns whether the request is answered on a connection over the limit: renewals and checks
    /// of liveness and readiness are.
    pub(super) fn is_essential(&self) -> bool {
        self.is_probe() || self.route().is_some_and(Route::is_renewal)
    }

    /// Returns whether the request needs no credential.
    pub(super) fn is_open(&self, head: &Parts) -> bool {
        match self.route() {
            Some(route) => route.right == Right::Open,
            // It is a file of the page without a name.
            None => matches!(head.method, Method::GET | Method::HEAD) && head.uri.path() == "/ui/",
        }
    }

    /// Returns whether the request may have its credential in its body: a one-time code.
    pub(super) fn may_have_code(&self) -> bool {
        let is_for_code = |route: &Route| route.right == Right::CodeOrOwnCredential;
        self.route().is_some_and(is_for_code)
    }

    /// Returns the route of a request that this listener serves, or the refusal.
    pub(super) fn served(&self, serves: Serves, head: &Parts) -> Result<&'static Route, Response> {
        let (path, method) = (head.uri.path(), &head.method);
        let is_served = |route: &&Route| serves == Serves::All || route.is_for_metrics_listener();
        if let Some(route) = self.route().filter(|route| is_served(route)) {
            return Ok(route);
        }
        let of_path = self.of_path.iter().map(|position| &ROUTES[*position]);
        let methods = of_path.filter(is_served).map(|route| match route.method {
            Method::GET => "GET,HEAD",
            ref method => method.as_str(),
        });
        let methods = methods.collect::<Vec<_>>().join(",");
        if methods.is_empty() {
            return Err(problem::response(&unknown_route(path)));
        }
        let detail = format!("{path} does not take {method}");
        let mut response = problem::response(&Problem::new(Code::MethodNotAllowed, detail));
        if let Ok(methods) = HeaderValue::try_from(methods) {
            response.headers_mut().insert(ALLOW, methods);
        }
        Err(response)
    }
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

pub(super) fn unknown_route(path: &str) -> Problem {
    Problem::new(Code::UnknownRoute, format!("there is no path {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_found_by_its_method_and_by_its_path() {
        for (index, route) in ROUTES.iter().enumerate() {
            let path = route.path.replace("{namespace}", "a");
            let path = path.replace("{lease}", "%62").replace("{file}", "c");
            let position_of = |method: &Method| find(method, &path).position;
            assert_eq!(position_of(&route.method), Some(index), "{path}");
            assert_eq!(position_of(&Method::PATCH), None, "{path}");
            if route.method == Method::GET {
                assert_eq!(position_of(&Method::HEAD), Some(index), "{path}");
            }
            let found = find(&route.method, &path);
            for (name, value) in [("namespace", "a"), ("lease", "b"), ("file", "c")] {
                let is_there = route.path.contains(&format!("{{{name}}}"));
                let value = if is_there { value } else { "" };
                assert_eq!(found.name(name), value, "{path}");
            }
        }
        let labels: Vec<_> = labels(Some("azure")).collect();
        assert_eq!((labels[NO_ROUTE], labels[PROTOCOL]), ("other", "azure"));
    }

    #[test]
    fn every_route_is_native_and_other_paths_are_not() {
        for route in routes() {
            assert!(is_native(route.path), "{}", route.path);
        }
        for native in ["", "/", "/v1", "/v1/x", "/metrics", "/livez/x", "/ui/"] {
            assert!(is_native(native), "{native}");
        }
        for other in ["/v12", "/account", "/account/v1", "/metrics2"] {
            assert!(!is_native(other), "{other}");
        }
    }
}
