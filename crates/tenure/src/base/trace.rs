//! Traces: the spans of a candidate, and how they join traces of other processes.
//!
//! The library creates its spans by [`tracing`]. No span lasts a term: a tracing system receives a
//! span when the span ends, so the span of a long term would arrive too late to be of use.
//!
//! | span | from | until |
//! |---|---|---|
//! | `tenure.campaign` | a request for the lease is sent | it is granted or refused |
//! | `tenure.term.begin` | the grant | the task runs |
//! | `tenure.at_risk` | the first failed renewal | a renewal succeeds, or the term ends |
//! | `tenure.term.end` | the first reason for the end | the lease is released |
//!
//! `tenure.term.begin` is a child of its campaign. `tenure.at_risk` and `tenure.term.end` are new
//! traces with a link to the beginning of the term. A candidate that waits sends a request after
//! the other, so it has one `tenure.campaign` for each. Elections among peers have no campaign.
//!
//! A tracing system has its own ids of spans. [`set_hooks`] tells the library how to read them.
//! Then the requests to the lease store have a header `traceparent`, so that the spans of the store
//! belong to the same traces. With the crate `tracing-opentelemetry`:
//!
//! ```ignore
//! use opentelemetry::trace::TraceContextExt as _;
//! use tracing_opentelemetry::OpenTelemetrySpanExt as _;
//!
//! tenure::trace::set_hooks(tenure::trace::Hooks {
//!     traceparent: |span| {
//!         let context = span.context();
//!         let span = context.span().span_context().clone();
//!         let flags = span.trace_flags().to_u8();
//!         let header = || format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id());
//!         span.is_valid().then(header)
//!     },
//!     link: |span, traceparent| {
//!         let headers = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
//!         let context = TraceContextPropagator::new().extract(&headers);
//!         span.add_link(context.span().span_context().clone());
//!     },
//! });
//! ```

use std::sync::OnceLock;

use tracing::Span;

/// The access to the ids of spans in a tracing system.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Returns the W3C `traceparent` of a span; `None` if the span has no ids.
    pub traceparent: fn(&Span) -> Option<String>,
    /// Links a span to the span with this `traceparent`.
    pub link: fn(&Span, &str),
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Sets the hooks for all candidates and store clients of this process. Only the first call has an
/// effect; returns whether this is the first one.
pub fn set_hooks(hooks: Hooks) -> bool {
    HOOKS.set(hooks).is_ok()
}

/// Returns the `traceparent` of this span.
pub(crate) fn traceparent(span: &Span) -> Option<String> {
    let hooks = HOOKS.get().filter(|_| !span.is_disabled())?;
    (hooks.traceparent)(span)
}

/// Returns the `traceparent` of the current span.
pub(crate) fn current_traceparent() -> Option<String> {
    HOOKS.get()?;
    traceparent(&Span::current())
}

/// Links this span to the span with this `traceparent`.
pub(crate) fn link(span: &Span, traceparent: Option<&str>) {
    if let (Some(hooks), Some(traceparent), false) = (HOOKS.get(), traceparent, span.is_disabled())
    {
        (hooks.link)(span, traceparent);
    }
}

/// Returns the trace id in a `traceparent`.
pub(crate) fn trace_id(traceparent: &str) -> Option<&str> {
    traceparent.split('-').nth(1)
}
