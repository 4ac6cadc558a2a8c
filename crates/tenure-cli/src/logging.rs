//! Talk goes to stderr.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Levels by `TENURE_LOG`, in the syntax of tracing's `EnvFilter`; INFO without it.
pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("TENURE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let coloured = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        // It would panic where stderr is a pipe that nobody reads any more.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => builder.with_ansi(coloured).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
