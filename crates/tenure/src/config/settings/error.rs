//! Errors in a configuration, with the place of the setting.

use std::fmt;
use std::path::PathBuf;

use tenure_core::lease::candidate::TimingsError;

/// The place of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A command-line flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// An error in a configuration. Nothing was started; the configuration must change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file can't be read.
    #[error("can't read {path}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and what was expected.
        message: String,
    },
    /// An unknown key.
    #[error("{origin}: unknown key {key}{hint}")]
    UnknownKey {
        /// Its place.
        origin: Origin,
        /// The key.
        key: String,
        /// The nearest known key, or all of them.
        hint: String,
    },
    /// A value that is not valid.
    #[error("{origin}: {key} = {}: {reason}", cut(.value))]
    Invalid {
        /// Its place.
        origin: Origin,
        /// The key.
        key: String,
        /// The value as written there; the message shows its beginning.
        value: String,
        /// The error, and a valid alternative.
        reason: String,
    },
    /// A required setting is missing.
    #[error("{key} is not set: {reason}")]
    Missing {
        /// The key.
        key: &'static str,
        /// How to give it.
        reason: String,
    },
    /// Timings that contradict each other.
    #[error("impossible timings, {}: {reason}", places(.origins))]
    Timings {
        /// The keys that were set, with their places.
        origins: Vec<(&'static str, Origin)>,
        /// The contradiction.
        reason: TimingsError,
    },
}

impl ConfigError {
    /// The error for a required setting that is missing.
    #[must_use]
    pub fn missing(key: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Missing { key, reason }
    }
}

/// The beginning of a value, for a message: one may be as long as a file.
fn cut(value: &str) -> String {
    const LONGEST: usize = 60;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}... ({} bytes)", &value[..end], value.len()),
        None => value.into(),
    }
}

/// Keys with their places.
fn places(origins: &[(&str, Origin)]) -> String {
    let place = |(key, origin): &(&str, Origin)| format!("{origin}: {key}");
    origins.iter().map(place).collect::<Vec<_>>().join(", ")
}
