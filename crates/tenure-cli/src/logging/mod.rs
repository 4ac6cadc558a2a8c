//! Log lines and messages on stderr.

mod nonblocking_stderr;

use std::fmt::Display;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::exit;
use nonblocking_stderr::LineWriter;

pub(crate) use nonblocking_stderr::{dropped_lines, flush};

/// How long the end of this process waits for a reader of stderr. A reader that reads needs
/// microseconds.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The environment variable that sets levels.
const LEVELS: &str = "TENURE_LOG";

/// Format of log lines: for people, or one JSON object per line.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Starts logging. Levels come from `TENURE_LOG`, in the syntax of tracing's `EnvFilter`; the
/// default is INFO.
pub(crate) fn start(format: LogFormat) -> anyhow::Result<()> {
    let filter = filter()?;
    // NO_COLOR and TERM=dumb apply to log lines as to all other output.
    let coloured = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| LineWriter)
        .with_target(false);
    match format {
        LogFormat::Text => builder.with_ansi(coloured).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Prints a line that is not a log event, after all earlier log lines.
pub(crate) fn print(line: impl Display) {
    nonblocking_stderr::write_line(format!("{line}\n").as_bytes());
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
