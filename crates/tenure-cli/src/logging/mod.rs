//! Log lines and messages on stderr, and the export of traces.

#[cfg(feature = "otel")]
mod otel;
mod stderr;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use serde_json::json;
use tenure_core::text;
use tracing::{error, warn};
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, registry};

use crate::exit;
use stderr::LineWriter;

pub(crate) use stderr::{dropped_lines, flush};

/// How long the end of this process waits for a reader of stderr. A reader that reads needs
/// microseconds.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The environment variable that sets levels.
const LEVELS: &str = "TENURE_LOG";

/// The environment variable that sets the format of lines.
pub(crate) const FORMAT: &str = "TENURE_LOG_FORMAT";

/// Format of log lines: for people, or one JSON object per line.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

impl LogFormat {
    /// Returns whether these arguments, which may be wrong, or else the environment ask for JSON.
    pub(crate) fn is_json(arguments: &[OsString]) -> bool {
        let mut own = arguments.iter().take_while(|argument| *argument != "--");
        while let Some(argument) = own.next() {
            if argument == "--log-format" {
                return own.next().is_some_and(|value| value == "json");
            } else if argument == "--log-format=json" {
                return true;
            }
        }
        std::env::var_os(FORMAT).is_some_and(|value| value == "json")
    }
}

/// Starts logging, and the export of traces for the service of this name, if there is one. Levels
/// come from `TENURE_LOG`, in the syntax of tracing's `EnvFilter`; the default is INFO.
pub(crate) fn start(format: LogFormat, service: Option<&'static str>) -> anyhow::Result<()> {
    let filter = filter()?;
    // NO_COLOR and TERM=dumb apply to log lines as to all other output.
    let coloured = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    let lines = fmt::layer().with_writer(|| LineWriter).with_target(false);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(coloured).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let level = filter.max_level_hint().unwrap_or(LevelFilter::TRACE);
    // Lines have all their fields themselves, so they need no spans, and a span that is not
    // exported costs nothing.
    let lines = lines.with_filter(filter.and(filter_fn(|metadata| metadata.is_event())));
    let (spans, failure) = match service.map(|service| spans(service, level)) {
        Some(Ok(layer)) => (layer, None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    registry()
        .with(
            [Some(lines.boxed()), spans]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>(),
        )
        .init();
    if let LogFormat::Json = format {
        std::panic::set_hook(Box::new(
            |panic| error!(error = %panic, "a thread has panicked"),
        ));
    }
    if let Some(error) = failure {
        // Elections do not depend on traces.
        warn!(error = format!("{error:#}"), "no traces are exported");
    }
    Ok(())
}

/// A consumer of spans and events.
type Layer = Box<dyn tracing_subscriber::Layer<Registry> + Send + Sync>;

/// Returns the layer that exports spans, if a collector is configured. The level of spans is INFO,
/// or that of log lines if more is logged.
#[cfg(feature = "otel")]
fn spans(service: &'static str, level: LevelFilter) -> anyhow::Result<Option<Layer>> {
    let level = level.max(LevelFilter::INFO);
    let is_own = move |metadata: &tracing::Metadata<'_>| {
        *metadata.level() <= level && metadata.target().starts_with("tenure")
    };
    let layer = otel::start(service)?.map(|tracer| {
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_own).with_max_level_hint(level))
            .boxed()
    });
    Ok(layer)
}

#[cfg(not(feature = "otel"))]
#[allow(clippy::unnecessary_wraps)]
const fn spans(_: &'static str, _: LevelFilter) -> anyhow::Result<Option<Layer>> {
    Ok(None)
}

/// Exports the last spans and prints the last lines. Waits for the collector and for the reader of
/// stderr, for [`FLUSH_TIMEOUT`] each at most.
pub(crate) fn stop() {
    #[cfg(feature = "otel")]
    otel::stop(FLUSH_TIMEOUT);
    flush(FLUSH_TIMEOUT);
}

/// Prints the error that ends this process, after all earlier log lines: for people, or as one JSON
/// line with the exit code. Logging may not have started.
pub(crate) fn print_failure(format: LogFormat, error: &str, exit_code: u8) {
    if let LogFormat::Text = format {
        // It may have texts of files and of the store, such as a key with control characters.
        let lines: Vec<_> = error.split('\n').map(text::escape).collect();
        return print(format_args!("tenure: {}", lines.join("\n")));
    }
    let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    print(json!({
        "timestamp": now,
        "level": "ERROR",
        "message": "tenure ends with an error",
        "error": error,
        "exit_code": exit_code,
    }));
}

/// Prints a line that is not a log event, after all earlier log lines.
pub(crate) fn print(line: impl Display) {
    let _ = LineWriter.write_all(format!("{line}\n").as_bytes());
}

fn filter() -> anyhow::Result<EnvFilter> {
    let text = std::env::var_os(LEVELS).unwrap_or_default();
    let text = text.to_string_lossy();
    // The filter interprets a word that is not a level as the name of a module, and disables all
    // other modules.
    let is_word = text.chars().all(char::is_alphanumeric) && !text.starts_with("tenure");
    match text.parse::<EnvFilter>() {
        _ if text.is_empty() => Ok(EnvFilter::new("info")),
        Ok(filter) if !is_word || text.parse::<LevelFilter>().is_ok() => Ok(filter),
        _ => Err(exit::bad_configuration(format!(
            "environment variable {LEVELS}: {text:?} is not a level; use error, warn, info, debug, or a \
             filter such as tenure=debug"
        ))),
    }
}
