//! Configuration errors, with the origin of the setting.

use std::fmt;
use std::path::PathBuf;

/// The origin of a setting.
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
    /// The definition of the key, because nobody has set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Default => f.write_str("default"),
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
        /// The reason.
        reason: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, the column, and the expected syntax.
        message: String,
    },
    /// An unknown key or table.
    #[error("{origin}: unknown {} {key}{hint}", if .key.starts_with('[') { "table" } else { "key" })]
    UnknownKey {
        /// The origin of the key.
        origin: Origin,
        /// The key, or the table in brackets.
        key: String,
        /// The nearest known key, or all of them.
        hint: String,
    },
    /// A value that is not valid.
    #[error("{origin}: {key} = {}: {reason}", cut(.value))]
    Invalid {
        /// The origin of the value.
        origin: Origin,
        /// The key.
        key: String,
        /// The value as it is written; the error message shows its beginning.
        value: String,
        /// The reason, and a valid alternative.
        reason: String,
    },
    /// A required setting is missing.
    #[error("{key} is not set: {reason}")]
    Missing {
        /// The key.
        key: String,
        /// How to set the key.
        reason: String,
    },
    /// Values that contradict each other.
    #[error("impossible {what}, {}: {reason}", places(.origins))]
    Contradiction {
        /// What the values are, in the plural.
        what: &'static str,
        /// The keys that were set, with their origins.
        origins: Vec<(&'static str, Origin)>,
        /// The contradiction.
        reason: String,
    },
}

impl ConfigError {
    /// Returns the error for a required setting that is missing.
    #[must_use]
    pub fn missing(key: impl Into<String>, reason: impl Into<String>) -> Self {
        let (key, reason) = (key.into(), reason.into());
        Self::Missing { key, reason }
    }
}

/// Returns the beginning of a value, for an error message. A value can be as long as a file.
fn cut(value: &str) -> String {
    const LONGEST: usize = 60;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}... ({} bytes)", &value[..end], value.len()),
        None => value.into(),
    }
}

/// Formats keys with their origins.
fn places(origins: &[(&str, Origin)]) -> String {
    let place = |(key, origin): &(&str, Origin)| format!("{origin}: {key}");
    origins.iter().map(place).collect::<Vec<_>>().join(", ")
}
