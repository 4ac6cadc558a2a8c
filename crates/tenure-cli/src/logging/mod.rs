//! Talk goes to stderr.

mod talk;

use std::fmt::Display;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::exit::{BAD_CONFIGURATION, Failure};
use talk::Lines;

pub(crate) use talk::finish;

/// How long the end of this process waits for who reads stderr: one that is there needs microseconds.
pub(crate) const LAST_LINES: Duration = Duration::from_secs(1);

/// The environment variable that sets levels.
const LEVELS: &str = "TENURE_LOG";

/// How log lines look: for people, or one JSON object a line.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Levels by `TENURE_LOG`, in the syntax of tracing's `EnvFilter`; INFO without it.
pub(crate) fn start(format: LogFormat) -> Result<(), Failure> {
    let filter = filter()?;
    // As for all else that is printed: NO_COLOR and a terminal that can't (TERM=dumb) are heard.
    let coloured = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lines)
        .with_target(false);
    match format {
        LogFormat::Text => builder.with_ansi(coloured).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Says a line that is no event, after all that was logged before it.
pub(crate) fn say(line: impl Display) {
    talk::say(format!("{line}\n").as_bytes());
}

fn filter() -> Result<EnvFilter, Failure> {
    let text = std::env::var_os(LEVELS).unwrap_or_default();
    let text = text.to_string_lossy();
    // To the filter a word that is no level is the name of a module, and turns all others off.
    let is_word = text.chars().all(char::is_alphanumeric) && !text.starts_with("tenure");
    match text.parse::<EnvFilter>() {
        _ if text.is_empty() => Ok(EnvFilter::new("info")),
        Ok(filter) if !is_word || text.parse::<LevelFilter>().is_ok() => Ok(filter),
        _ => {
            let error = anyhow::anyhow!(
                "environment variable {LEVELS}: {text:?} is no level; write error, warn, info, \
                 debug, or a filter such as tenure=debug"
            );
            Err(Failure::new(BAD_CONFIGURATION, error))
        }
    }
}
