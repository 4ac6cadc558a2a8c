//! Settings as text with where they came from, so that a wrong one can be told with its place.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

/// Keys whose values are never shown.
const SECRETS: &[&str] = &[
    "azure_blob.key",
    "azure_blob.sas",
    "azure_blob.connection_string",
    "bully.key",
];

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// What is wrong with a configuration. Nothing was started; whoever wrote it must change it.
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
    /// The file is no TOML.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and what was expected.
        message: String,
    },
    /// A key that nobody knows.
    #[error("{origin}: unknown key {key}{hint}")]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: String,
        /// The nearest known one, or all of them.
        hint: String,
    },
    /// A value that can't be.
    #[error("{origin}: {key} = {value}: {reason}")]
    Invalid {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: String,
        /// What it was set to.
        value: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// A setting that must be given and is not.
    #[error("{key} is not set: {reason}")]
    Missing {
        /// The key.
        key: &'static str,
        /// How to give it.
        reason: String,
    },
    /// Timings that can't hold together.
    #[error("impossible timings{}: {reason}", .origins.iter().map(|origin| format!(", {origin}")).collect::<String>())]
    Timings {
        /// Where the timings that were set stand.
        origins: Vec<Origin>,
        /// Which two numbers.
        reason: tenure_core::lease::keeper::TimingsError,
    },
}

/// Settings by key, each with its origin; later sources override earlier ones.
#[derive(Clone, Debug)]
pub struct Settings {
    known: &'static [&'static str],
    /// Keys of these tables are settings named `table.key`, with any key.
    tables: &'static [&'static str],
    /// Other spellings of known keys.
    aliases: &'static [(&'static str, &'static str)],
    values: BTreeMap<String, Setting>,
}

#[derive(Clone)]
struct Setting {
    value: Vec<String>,
    origin: Origin,
}

/// Values may be secrets.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setting")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// No settings yet; these are the keys that may be set.
    #[must_use]
    pub const fn new(known: &'static [&'static str]) -> Self {
        Self {
            known,
            tables: &[],
            aliases: &[],
            values: BTreeMap::new(),
        }
    }

    /// Takes these tables too, with keys of the user's choice.
    #[must_use]
    pub const fn with_tables(mut self, tables: &'static [&'static str]) -> Self {
        self.tables = tables;
        self
    }

    /// Takes other spellings of known keys: `(spelling, key)`.
    #[must_use]
    pub const fn with_aliases(mut self, aliases: &'static [(&'static str, &'static str)]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Reads a TOML file. With `section` its keys are those of that table and the rest of the file
    /// is somebody else's; without, they are the top level's, those of a table with the table's name
    /// and a dot before them, and tables named in `others` are somebody else's.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with file, line and key.
    pub fn read_file(
        &mut self,
        path: &Path,
        section: Option<&str>,
        others: &[&str],
    ) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|reason| ConfigError::Unreadable {
            path: path.into(),
            reason,
        })?;
        let file = DeTable::parse(&text).map_err(|error| ConfigError::Syntax {
            path: path.into(),
            message: syntax(&text, &error),
        })?;
        let line = |start: usize| text[..start].matches('\n').count() + 1;
        for (key, value) in file.get_ref() {
            let origin = Origin::File {
                path: path.into(),
                line: line(key.span().start),
            };
            let name = key.get_ref().as_ref();
            match (section, value.get_ref()) {
                (Some(section), DeValue::Table(table)) if section == name => {
                    for (key, value) in table {
                        let line = line(key.span().start);
                        let origin = Origin::File {
                            path: path.into(),
                            line,
                        };
                        self.take(key.get_ref().as_ref(), value.get_ref(), origin)?;
                    }
                }
                (Some(_), _) => {}
                (None, DeValue::Table(_)) if others.contains(&name) => {}
                (None, DeValue::Table(table)) if self.tables.contains(&name) => {
                    for (key, value) in table {
                        let line = line(key.span().start);
                        let origin = Origin::File {
                            path: path.into(),
                            line,
                        };
                        let key = format!("{name}.{}", key.get_ref());
                        self.insert(&key, value.get_ref(), origin)?;
                    }
                }
                (None, DeValue::Table(table)) if self.has_table(name) => {
                    for (key, value) in table {
                        let line = line(key.span().start);
                        let origin = Origin::File {
                            path: path.into(),
                            line,
                        };
                        let key = format!("{name}.{}", key.get_ref());
                        self.take(&key, value.get_ref(), origin)?;
                    }
                }
                (None, value) => self.take(name, value, origin)?,
            }
        }
        Ok(())
    }

    /// Whether known keys stand in a table of this name.
    fn has_table(&self, name: &str) -> bool {
        let table = |key: &&str| key.split_once('.').is_some_and(|(table, _)| table == name);
        self.known.iter().any(table)
    }

    /// Reads the environment: `PREFIX` and the key in upper case, a dot in it as `_`. Names that begin so and are no
    /// key are left alone, because container platforms make such names by themselves; they are
    /// returned, to be warned about.
    pub fn read_environment(
        &mut self,
        prefix: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Vec<String> {
        let mut strangers = Vec::new();
        for (name, value) in environment {
            let Some(rest) = name.strip_prefix(prefix) else {
                continue;
            };
            let spelling = rest.to_ascii_lowercase();
            let dotted = |key: &&str| key.replace('.', "_") == spelling;
            let key = self.known(&spelling);
            match key.or_else(|| self.known.iter().copied().find(dotted)) {
                Some(key) => self.set(key, [value], Origin::Environment(name)),
                None => strangers.push(name),
            }
        }
        strangers
    }

    /// Sets one key, overriding what it was before.
    pub fn set(
        &mut self,
        key: &str,
        value: impl IntoIterator<Item = impl Into<String>>,
        origin: Origin,
    ) {
        let value = value.into_iter().map(Into::into).collect();
        self.values.insert(key.into(), Setting { value, origin });
    }

    /// The keys that may be set, without those of tables.
    #[must_use]
    pub const fn keys(&self) -> &'static [&'static str] {
        self.known
    }

    /// Where a key was set, if it was.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.values.get(key).map(|setting| &setting.origin)
    }

    /// One value, parsed; `None` if it was not set.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the parser's words.
    pub fn parse<T>(&self, key: &str) -> Result<Option<T>, ConfigError>
    where
        T: FromStr<Err: fmt::Display>,
    {
        self.with(key, |text| {
            text.parse::<T>().map_err(|error| error.to_string())
        })
    }

    /// A duration with a unit, such as `15s` or `1m 30s`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if it has none, or is none.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>, ConfigError> {
        self.with(key, |text| {
            humantime::parse_duration(text)
                .map_err(|error| format!("{error}; write a number and a unit, such as \"15s\""))
        })
    }

    /// Yes or no.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if it is neither `true` nor `false`.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.with(key, |text| {
            text.parse().map_err(|_| "must be true or false".into())
        })
    }

    /// One value, read by `read`, whose error says what would be right.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with what `read` says.
    pub fn with<T>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(setting) = self.values.get(key) else {
            return Ok(None);
        };
        let text = setting.value.join(",");
        read(&text)
            .map(Some)
            .map_err(|reason| self.invalid(key, reason))
    }

    /// One value as it is, without spaces around it; `None` if it was not set.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        let value = &self.values.get(key)?.value;
        value.first().map(|text| text.trim())
    }

    /// Several values: an array in a file, separated by commas in the environment.
    #[must_use]
    pub fn list(&self, key: &str) -> Vec<&str> {
        let values = self
            .values
            .get(key)
            .map_or(&[][..], |setting| &setting.value);
        values
            .iter()
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .collect()
    }

    /// The keys and values of a table.
    #[must_use]
    pub fn table(&self, name: &str) -> BTreeMap<String, String> {
        let prefix = format!("{name}.");
        let of_table = |(key, setting): (&String, &Setting)| {
            Some((
                key.strip_prefix(&prefix)?.to_owned(),
                setting.value.join(","),
            ))
        };
        self.values.iter().filter_map(of_table).collect()
    }

    /// Whether the value of this key is nobody's business, so that it must not be shown.
    #[must_use]
    pub fn is_secret(key: &str) -> bool {
        SECRETS.contains(&key)
    }

    /// Of several keys, the first that was set, or the first.
    pub(super) fn first_set(&self, keys: &[&'static str]) -> &'static str {
        let set = keys.iter().find(|key| self.origin(key).is_some());
        set.copied().unwrap_or(keys[0])
    }

    /// The error for `key` where `other`, which says the same, is set, too.
    pub(super) fn one_too_many(&self, key: &str, other: &str) -> ConfigError {
        let origin = self.origin(other).map(Origin::to_string);
        let origin = origin.unwrap_or_default();
        let reason = format!("{other} is set, too ({origin}): leave one of the two out");
        self.invalid(key, reason)
    }

    /// The error for a value of `key` that can't be.
    #[must_use]
    pub fn invalid(&self, key: &str, reason: String) -> ConfigError {
        match self.values.get(key) {
            Some(setting) => ConfigError::Invalid {
                origin: setting.origin.clone(),
                key: key.into(),
                value: if Self::is_secret(key) {
                    "(secret)".into()
                } else {
                    format!("{:?}", setting.value.join(","))
                },
                reason,
            },
            None => ConfigError::Invalid {
                origin: Origin::Flag("(default)".into()),
                key: key.into(),
                value: String::new(),
                reason,
            },
        }
    }

    /// The key that this spelling means.
    fn known(&self, spelling: &str) -> Option<&'static str> {
        let alias = self.aliases.iter().find(|(alias, _)| *alias == spelling);
        let key = alias.map_or(spelling, |(_, key)| key);
        self.known.iter().copied().find(|known| *known == key)
    }

    fn take(&mut self, key: &str, value: &DeValue<'_>, origin: Origin) -> Result<(), ConfigError> {
        if let Some(key) = self.known(key) {
            return self.insert(key, value, origin);
        }
        let known = self.known.iter().chain(self.tables).copied();
        Err(ConfigError::UnknownKey {
            origin,
            key: key.into(),
            hint: hint(key, known),
        })
    }

    fn insert(
        &mut self,
        key: &str,
        value: &DeValue<'_>,
        origin: Origin,
    ) -> Result<(), ConfigError> {
        let scalar = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(integer) => Some(integer.as_str().to_owned()),
            DeValue::Boolean(boolean) => Some(boolean.to_string()),
            _ => None,
        };
        let values = match value {
            DeValue::Array(items) => items.iter().map(|item| scalar(item.get_ref())).collect(),
            value => scalar(value).map(|value| vec![value]),
        };
        match values {
            Some(values) => {
                self.set(key, values, origin);
                Ok(())
            }
            None => Err(ConfigError::Invalid {
                origin,
                key: key.into(),
                value: format!("({})", value.type_str()),
                reason: "must be text, a whole number, true, false, or an array of these".into(),
            }),
        }
    }
}

/// What the parser says, without the line itself if that may be a secret.
fn syntax(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..at];
    let start = before.iter().rposition(|&byte| byte == b'\n');
    let line = text[start.map_or(0, |start| start + 1)..].lines().next();
    let key = line.and_then(|line| line.split('=').next());
    let key = key.unwrap_or_default().trim();
    let is_secret = SECRETS.iter().any(|secret| {
        let (_, name) = secret.split_once('.').unwrap_or(("", secret));
        key == *secret || key.trim_matches('"') == name
    });
    if is_secret {
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        return format!("line {line}, {key} = (secret): {}", error.message());
    }
    error.to_string().trim_end().into()
}

/// `; did you mean X?`, or the list of what is known if nothing is near.
fn hint<'a>(key: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let nearest = known
        .clone()
        .map(|candidate| (strsim::damerau_levenshtein(key, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= candidate.len() / 3 + 1);
    match nearest {
        Some((_, candidate)) => format!("; did you mean {candidate}?"),
        None => format!("; known are {}", known.collect::<Vec<_>>().join(", ")),
    }
}
