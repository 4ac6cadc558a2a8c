//! The span of a request, and the trace to which the request belongs.

use std::sync::OnceLock;

use axum::http::HeaderName;
use axum::http::request::Parts;
use axum::response::Response;
use tenure_core::wire::Code;
use tracing::field::{Empty, display};
use tracing::{Span, debug_span, info_span};

use crate::access::Caller;
use crate::http::request_id::LazyRequestId;
use crate::http::routes::Found;
use crate::model::{LeaseKey, TraceContext, TraceId};

/// The header of a request that names the span of its sender.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The function that [`set_remote_parent`] has set.
static REMOTE_PARENT: OnceLock<fn(&Span, &str)> = OnceLock::new();

/// Sets the function that makes the span of a request a child of the span that the sender of the
/// request has named. The second argument is a `traceparent` of version 00. The library of a
/// tracing system, which this crate does not depend on, provides such a function. Only the first
/// call has an effect; returns whether this is the first one.
pub fn set_remote_parent(function: fn(&Span, &str)) -> bool {
    REMOTE_PARENT.set(function).is_ok()
}

/// The span of a request. It ends when the head of the response is ready, so an event stream has a
/// short span.
#[derive(Debug)]
pub(super) struct RequestSpan {
    span: Span,
    trace: Option<TraceId>,
}

impl RequestSpan {
    /// Begins the span: at INFO for a change, and at DEBUG for a read or a renewal. Renewals are
    /// most of the load, so this does nothing more for them if the level DEBUG is disabled.
    pub(super) fn begin(head: &Parts, found: &Found<'_>, is_change: bool) -> Self {
        // Paths that are not those of a lease are not recorded, because a client may have put a
        // secret into the path or the query of a wrong request.
        macro_rules! span {
            ($span:ident) => {
                $span!(
                    parent: None,
                    "tenure.request",
                    otel.kind = "server",
                    otel.name = %Name(head, found),
                    otel.status_code = Empty,
                    http.request.method = %head.method,
                    http.response.status_code = Empty,
                    election = election(found).as_ref().map(|key| display(key.as_str())),
                    principal = Empty,
                    request = Empty,
                    code = Empty,
                )
            };
        }
        let span = if is_change {
            span!(info_span)
        } else {
            span!(debug_span)
        };
        if !is_change && span.is_disabled() {
            return Self { span, trace: None };
        }
        let context = context(head);
        if !span.is_disabled()
            && let (Some(context), Some(set_parent)) = (context, REMOTE_PARENT.get())
        {
            set_parent(&span, &context.to_string());
        }
        let trace = context.map(|context| context.trace_id);
        Self { span, trace }
    }

    /// Returns the trace that the sender of a change has named.
    pub(super) const fn trace(&self) -> Option<TraceId> {
        self.trace
    }

    pub(super) fn record_caller(&self, caller: &Caller) {
        if !self.span.is_disabled()
            && let Some(name) = caller.name()
        {
            self.span.record("principal", &**name);
        }
    }

    pub(super) fn record_answer(&self, response: &Response, id: &LazyRequestId) {
        if self.span.is_disabled() {
            return;
        }
        let status = response.status();
        // OpenTelemetry has no unsigned numbers, and the export would convert one to text.
        let number = i64::from(status.as_u16());
        self.span.record("http.response.status_code", number);
        if status.is_server_error() {
            self.span.record("otel.status_code", "ERROR");
        }
        if let Some(code) = response.extensions().get::<Code>() {
            self.span.record("code", code.as_str());
        }
        if let Some(id) = id.used() {
            self.span.record("request", display(id));
        }
    }
}

/// Returns the span of the sender, if the request has exactly one valid header for it.
fn context(head: &Parts) -> Option<TraceContext> {
    let mut headers = head.headers.get_all(TRACEPARENT).iter();
    match (headers.next(), headers.next()) {
        (Some(header), None) => TraceContext::parse(header.as_bytes()),
        _ => None,
    }
}

/// Returns the lease that the path of the route names.
fn election(found: &Found<'_>) -> Option<LeaseKey> {
    found.route()?;
    LeaseKey::of_path(found.raw("namespace"), found.raw("lease"))
}

/// The name of a span: the method and the path of the route.
struct Name<'a>(&'a Parts, &'a Found<'a>);

impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(head, found) = self;
        head.method.fmt(f)?;
        match found.route() {
            Some(route) => write!(f, " {}", route.path),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::routes::find;
    use axum::extract::Request;
    use tracing::Level;
    use tracing::subscriber::with_default;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn head(method: &str, path: &str, parents: &[&str]) -> Parts {
        let mut request = Request::builder().method(method).uri(path);
        for parent in parents {
            request = request.header(TRACEPARENT, *parent);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn span_of(level: Level, is_change: bool) -> RequestSpan {
        let subscriber = tracing_subscriber::fmt().with_max_level(level).finish();
        let head = head("POST", "/v1/namespaces/ns/leases/job/renew", &[PARENT]);
        let found = find(&head.method, head.uri.path());
        with_default(subscriber, || RequestSpan::begin(&head, &found, is_change))
    }

    #[test]
    fn a_change_has_a_span_at_info_and_a_renewal_has_none() {
        let (change, renewal) = (span_of(Level::INFO, true), span_of(Level::INFO, false));
        assert!(!change.span.is_disabled() && renewal.span.is_disabled());
        // The headers of a renewal are not even searched.
        assert!(change.trace.is_some() && renewal.trace.is_none());
        assert!(!span_of(Level::DEBUG, false).span.is_disabled());
        // The lines about a change name its trace although nothing is traced.
        let silent = span_of(Level::ERROR, true);
        assert!(silent.span.is_disabled() && silent.trace.is_some());
    }

    #[test]
    fn a_request_that_names_two_parents_has_none() {
        for (parents, is_named) in [
            (&[PARENT][..], true),
            (&[], false),
            (&[PARENT, PARENT], false),
            (&[PARENT, "nonsense"], false),
        ] {
            let head = head("GET", "/livez", parents);
            assert_eq!(context(&head).is_some(), is_named, "{parents:?}");
        }
    }

    #[test]
    fn a_span_has_the_name_of_its_route_and_its_lease() {
        let lease = "/v1/namespaces/ns/leases/job";
        let route = "/v1/namespaces/{namespace}/leases/{lease}";
        let all = "/v1/namespaces/ns/leases";
        for (method, path, name, key) in [
            ("GET", "/livez", "GET /livez".into(), None),
            (
                "GET",
                all,
                "GET /v1/namespaces/{namespace}/leases".into(),
                None,
            ),
            ("GET", lease, format!("GET {route}"), Some("ns/job")),
            ("DELETE", lease, format!("DELETE {route}"), Some("ns/job")),
            (
                "POST",
                &format!("{lease}/renew"),
                format!("POST {route}/renew"),
                Some("ns/job"),
            ),
            ("GET", &format!("{lease}/renew"), "GET".into(), None),
            ("POST", &format!("{lease}/nothing"), "POST".into(), None),
            ("GET", "/secret", "GET".into(), None),
            (
                "GET",
                "/v1/namespaces/ns/leases/..",
                format!("GET {route}"),
                None,
            ),
        ] {
            let head = head(method, path, &[]);
            let found = find(&head.method, path);
            assert_eq!(Name(&head, &found).to_string(), name, "{method} {path}");
            let election = election(&found);
            let election = election.as_ref().map(LeaseKey::as_str);
            assert_eq!(election, key, "{method} {path}");
        }
    }
}
