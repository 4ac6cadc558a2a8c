//! Export of spans to a collector by OTLP, which the standard variables `OTEL_*` configure.
//!
//! A span that ends goes to a bounded queue, and a thread sends batches of the queue to the
//! collector. Nothing waits for that thread: if the queue is full, spans are dropped, and warnings of
//! the SDK report that at once and their number at the end.

mod export;

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{anyhow, bail};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanContext, TraceContextExt as _, TracerProvider as _};
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT,
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, Protocol, SpanExporter, WithExportConfig as _,
    WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{OTEL_BSP_MAX_QUEUE_SIZE, SdkTracerProvider, Tracer};
use reqwest::redirect::Policy;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use export::Exporter;

/// The export of this process.
static EXPORT: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Starts the export of spans, if a collector is configured.
pub(super) fn start(service: &'static str) -> anyhow::Result<Option<Tracer>> {
    if !is_wanted()? {
        return Ok(None);
    }
    // The SDK would use the default for a wrong value.
    number::<usize>(&[OTEL_BSP_MAX_QUEUE_SIZE], "spans")?;
    let timeout = number(
        &[
            OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,
            OTEL_EXPORTER_OTLP_TIMEOUT,
        ],
        "milliseconds",
    )?;
    let timeout = timeout.map_or(OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, Duration::from_millis);
    // The headers of `OTEL_EXPORTER_OTLP_HEADERS` may be secrets, so no redirect is followed.
    let http = reqwest::blocking::Client::builder()
        .timeout(timeout)
        .redirect(Policy::none());
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(http.build()?)
        .build()?;
    let resource = Resource::builder();
    let resource = match is_named() {
        true => resource,
        false => resource.with_service_name(service),
    };
    let provider = SdkTracerProvider::builder()
        .with_resource(resource.build())
        .with_batch_exporter(Exporter::new(exporter))
        .build();
    let tracer = provider.tracer("tenure");
    tenure::trace::set_hooks(tenure::trace::Hooks { traceparent, link });
    tenure_server::set_remote_parent(set_parent);
    let _ = EXPORT.set(provider);
    Ok(Some(tracer))
}

/// Exports the last spans. Waits for the collector for this time at most.
pub(super) fn stop(timeout: Duration) {
    if let Some(provider) = EXPORT.get() {
        // The exporter and the SDK log the number of spans that are lost.
        let _ = provider.shutdown_with_timeout(timeout);
    }
}

/// Returns the value of a variable, unless it is empty, which the specification treats as unset.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns whether spans are to be exported.
fn is_wanted() -> anyhow::Result<bool> {
    if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    let endpoints = [
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ];
    let exports = match variable("OTEL_TRACES_EXPORTER").as_deref() {
        Some("otlp") => true,
        Some("none") => false,
        Some(other) => bail!("OTEL_TRACES_EXPORTER is {other:?}; it must be otlp or none"),
        None => first_of(&endpoints).is_some(),
    };
    let protocols = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ];
    match first_of(&protocols) {
        Some((name, protocol)) if exports && protocol != "http/protobuf" => {
            bail!("{name} is {protocol:?}; it must be http/protobuf")
        }
        _ => Ok(exports),
    }
}

/// Returns the first of these variables that is set, with its name.
fn first_of(names: &[&'static str]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| Some((*name, variable(name)?)))
}

/// Returns the value of the first of these variables that is set.
fn number<T: FromStr>(names: &[&'static str], unit: &str) -> anyhow::Result<Option<T>> {
    let Some((name, value)) = first_of(names) else {
        return Ok(None);
    };
    let wrong = |_| anyhow!("{name} is {value:?}; it must be a number of {unit}");
    value.parse().map(Some).map_err(wrong)
}

/// Returns whether the environment has the name of the service.
fn is_named() -> bool {
    let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let has_name = attributes
        .split(',')
        .any(|attribute| attribute.trim_start().starts_with("service.name="));
    has_name || variable("OTEL_SERVICE_NAME").is_some()
}

/// Returns the ids of a span as a header `traceparent`.
fn traceparent(span: &Span) -> Option<String> {
    let context = span.context();
    let ids = context.span().span_context().clone();
    let flags = ids.trace_flags().to_u8();
    ids.is_valid()
        .then(|| format!("00-{}-{}-{flags:02x}", ids.trace_id(), ids.span_id()))
}

fn link(span: &Span, traceparent: &str) {
    span.add_link(remote(traceparent));
}

fn set_parent(span: &Span, traceparent: &str) {
    let context = opentelemetry::Context::new().with_remote_span_context(remote(traceparent));
    // This fails only for a span that is not exported.
    let _ = span.set_parent(context);
}

fn remote(traceparent: &str) -> SpanContext {
    let headers = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let context = TraceContextPropagator::new().extract(&headers);
    context.span().span_context().clone()
}
