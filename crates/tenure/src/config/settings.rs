//! Settings as text with their origins, so that errors name the place.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use crate::store::Endpoint;

/// Keys whose values are never shown.
const SECRETS: &[&str] = &[
    "token",
    "azure_blob.key",
    "azure_blob.sas",
    "azure_blob.connection_string",
    "bully.key",
    // Of the store's table for Azure's clients: each with its key.
    "accounts",
];

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

impl Origin {
    /// Whether this is another place of the same file, or another variable of the environment.
    fn is_beside(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { path, .. }, Self::File { path: other, .. }) if path != other => false,
            (Self::Flag(_), _) | (_, Self::Flag(_)) => false,
            _ => self != other && std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
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
        reason: tenure_core::lease::candidate::TimingsError,
    },
}

/// Settings by key, each with its origin; later sources override earlier ones.
#[derive(Clone, Debug)]
pub struct Settings {
    known: &'static [&'static str],
    /// Keys of these tables are settings named `table.key`, with any key.
    tables: &'static [&'static str],
    /// Other names of known keys.
    aliases: &'static [(&'static str, &'static str)],
    values: BTreeMap<String, Setting>,
}

#[derive(Clone)]
struct Setting {
    value: Value,
    origin: Origin,
}

/// The value of a key.
#[derive(Clone)]
struct Value {
    texts: Vec<String>,
    /// Its TOML type in a file. In the environment and in flags everything is text.
    kind: Option<String>,
    /// The text for errors, without passwords in addresses.
    shown: String,
}

impl Value {
    fn of_text(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        Self {
            shown: Endpoint::shown(&format!("{:?}", texts.join(","))),
            texts,
            kind: None,
        }
    }

    fn of_file(file: &str, value: &Spanned<DeValue<'_>>) -> Self {
        let written = file.get(value.span()).unwrap_or_default();
        let shown = written.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = Endpoint::shown(&shown);
        let texts = match value.get_ref() {
            DeValue::String(text) => vec![text.to_string()],
            DeValue::Integer(number) => {
                let decimal = i128::from_str_radix(number.as_str(), number.radix());
                vec![decimal.map_or_else(|_| number.to_string(), |number| number.to_string())]
            }
            DeValue::Array(items) => {
                let texts = items.iter().map(|item| item.get_ref().as_str());
                texts
                    .map(|text| text.unwrap_or_default().to_owned())
                    .collect()
            }
            _ => vec![shown.clone()],
        };
        let kind = value.get_ref().type_str();
        let odd_one = |items: &DeArray<'_>| {
            let mut items = items.iter().map(Spanned::get_ref);
            items.find(|item| !item.is_str()).map(DeValue::type_str)
        };
        let kind = match value.get_ref().as_array().and_then(odd_one) {
            Some(item) => format!("{kind} of {item}"),
            None => kind.to_owned(),
        };
        Self {
            texts,
            kind: Some(kind),
            shown,
        }
    }

    /// Checks the TOML type, if there is one; `right` describes a valid value.
    fn check(&self, kinds: &[&str], right: &str) -> Result<(), String> {
        match &self.kind {
            Some(kind) if !kinds.contains(&kind.as_str()) => {
                Err(format!("{right}; this is of type {kind}"))
            }
            _ => Ok(()),
        }
    }

    /// The text, as it is.
    fn text(&self) -> &str {
        self.texts.first().map_or("", String::as_str)
    }
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

    /// Forgets the value of a key.
    pub fn unset(&mut self, key: &str) {
        self.values.remove(key);
    }

    /// Accepts these tables, with any keys.
    #[must_use]
    pub const fn with_tables(mut self, tables: &'static [&'static str]) -> Self {
        self.tables = tables;
        self
    }

    /// Accepts other names of known keys: `(name, key)`.
    #[must_use]
    pub const fn with_aliases(mut self, aliases: &'static [(&'static str, &'static str)]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Reads a TOML file. With `section` only the keys of that table. Without, the keys of the top
    /// level, and keys of its tables as `table.key`, except for the tables named in `others`.
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
        self.read_text(&text, path, section, others)
    }

    /// The same of a text. Errors name `path` as its place.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with file, line and key.
    pub fn read_text(
        &mut self,
        text: &str,
        path: &Path,
        section: Option<&str>,
        others: &[&str],
    ) -> Result<(), ConfigError> {
        let file = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            path: path.into(),
            message: syntax(text, &error),
        })?;
        let place = |key: &Spanned<DeString<'_>>| Origin::File {
            path: path.into(),
            line: text[..key.span().start].matches('\n').count() + 1,
        };
        let value_of = |value: &Spanned<DeValue<'_>>| Value::of_file(text, value);
        for (key, value) in file.get_ref() {
            let name = key.get_ref().as_ref();
            match (section, value.get_ref()) {
                (Some(section), DeValue::Table(table)) if section == name => {
                    for (key, value) in table {
                        self.take(key.get_ref().as_ref(), value_of(value), place(key))?;
                    }
                }
                (Some(_), _) => {}
                (None, DeValue::Table(_)) if others.contains(&name) => {}
                (None, DeValue::Table(table)) if self.tables.contains(&name) => {
                    for (key, value) in table {
                        let name = format!("{name}.{}", key.get_ref());
                        self.insert(&name, value_of(value), place(key))?;
                    }
                }
                (None, DeValue::Table(table)) if self.has_table(name) => {
                    for (key, value) in table {
                        let name = format!("{name}.{}", key.get_ref());
                        self.take(&name, value_of(value), place(key))?;
                    }
                }
                (None, _) => self.take(name, value_of(value), place(key))?,
            }
        }
        Ok(())
    }

    /// Whether known keys belong to a table of this name.
    fn has_table(&self, name: &str) -> bool {
        let table = |key: &&str| key.split_once('.').is_some_and(|(table, _)| table == name);
        self.known.iter().any(table)
    }

    /// Reads the environment: `PREFIX` and the key in upper case, with a dot as `_`. Other names with
    /// the prefix are not an error, because container platforms make such names by themselves; they
    /// are returned, for a warning.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`]: two variables set one key.
    pub fn read_environment(
        &mut self,
        prefix: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Vec<String>, ConfigError> {
        let mut unknown = Vec::new();
        for (name, value) in environment {
            let Some(rest) = name.strip_prefix(prefix) else {
                continue;
            };
            let spelling = rest.to_ascii_lowercase();
            let dotted = |key: &&str| key.replace('.', "_") == spelling;
            let key = self.known(&spelling);
            match key.or_else(|| self.known.iter().copied().find(dotted)) {
                Some(key) => {
                    self.insert(key, Value::of_text([value]), Origin::Environment(name))?;
                }
                None => unknown.push(name),
            }
        }
        Ok(unknown)
    }

    /// Sets one key, overriding an earlier value.
    ///
    /// # Panics
    ///
    /// There is no such key.
    #[track_caller]
    pub fn set(
        &mut self,
        key: &str,
        value: impl IntoIterator<Item = impl Into<String>>,
        origin: Origin,
    ) {
        let in_table = |(table, _)| self.tables.contains(&table);
        let is_known = self.known.contains(&key) || key.split_once('.').is_some_and(in_table);
        assert!(is_known, "there is no setting {key}");
        let value = Value::of_text(value);
        self.values.insert(key.into(), Setting { value, origin });
    }

    /// The keys that may be set, without those of tables.
    #[must_use]
    pub const fn keys(&self) -> &'static [&'static str] {
        self.known
    }

    /// The place of a key, if it was set.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.values.get(key).map(|setting| &setting.origin)
    }

    /// One value, parsed; `None` if it was not set.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the parser's message.
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
    /// [`ConfigError::Invalid`] if it is not a duration with a unit.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>, ConfigError> {
        let right = "write a number and a unit, such as \"15s\"";
        self.read(key, &["string"], right, |text| {
            humantime::parse_duration(text).map_err(|error| format!("{error}; {right}"))
        })
    }

    /// A whole number within this range.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with both ends if it is not a number in the range.
    pub fn number<T>(&self, key: &str, range: RangeInclusive<T>) -> Result<Option<T>, ConfigError>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let right = format!(
            "must be a whole number, {} to {}",
            range.start(),
            range.end()
        );
        self.read(key, &["integer"], &right, |text| {
            let number = text.parse().ok().filter(|number| range.contains(number));
            number.ok_or_else(|| right.clone())
        })
    }

    /// A boolean.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if it is neither `true` nor `false`.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        let right = "must be true or false";
        self.read(key, &["boolean"], right, |text| {
            text.parse().map_err(|_| right.into())
        })
    }

    /// One text, read by `read`, whose error describes a valid value.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the error of `read`.
    pub fn with<T>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        self.read(key, &["string"], "must be text in quotes", read)
    }

    /// One value of these kinds, read by `read`.
    fn read<T>(
        &self,
        key: &str,
        kinds: &[&str],
        right: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(Setting { value, .. }) = self.values.get(key) else {
            return Ok(None);
        };
        value
            .check(kinds, right)
            .and_then(|()| read(value.text()))
            .map(Some)
            .map_err(|reason| self.invalid(key, reason))
    }

    /// One text, without spaces around it; `None` if it was not set.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if it is not text.
    pub fn text(&self, key: &str) -> Result<Option<&str>, ConfigError> {
        self.with(key, |_| Ok(()))?;
        Ok(self
            .values
            .get(key)
            .map(|setting| setting.value.text().trim()))
    }

    /// Several texts: an array in a file, separated by commas in the environment.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if it has something else.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>, ConfigError> {
        let right = "must be texts in quotes, such as [\"one\", \"another\"]";
        self.read(key, &["string", "array"], right, |_| Ok(()))?;
        Ok(self.list(key))
    }

    /// The same for a value of any type, to show or compare it.
    #[must_use]
    pub fn list(&self, key: &str) -> Vec<&str> {
        let values = self.values.get(key);
        let values = values.map_or(&[][..], |setting| &setting.value.texts);
        values
            .iter()
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .collect()
    }

    /// The keys and texts of a table.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if one is not text.
    pub fn table(&self, name: &str) -> Result<BTreeMap<String, String>, ConfigError> {
        let prefix = format!("{name}.");
        let of_table = self.values.keys().filter_map(|key| {
            let name = key.strip_prefix(&prefix)?;
            let text = self.with(key, |text| Ok(text.to_owned())).transpose()?;
            Some(text.map(|text| (name.to_owned(), text)))
        });
        of_table.collect()
    }

    /// Whether the value of this key is a secret, which must not be shown.
    #[must_use]
    pub fn is_secret(key: &str) -> bool {
        SECRETS.contains(&key)
    }

    #[cfg(any(feature = "azure", feature = "peers"))]
    /// The first of these keys that was set, or the first of all.
    pub(super) fn first_set(&self, keys: &[&'static str]) -> &'static str {
        let set = keys.iter().find(|key| self.origin(key).is_some());
        set.copied().unwrap_or(keys[0])
    }

    /// The error for `key` if `other`, which means the same, is set, too.
    pub(super) fn one_too_many(&self, key: &str, other: &str) -> ConfigError {
        let origin = self.origin(other).map(Origin::to_string);
        let origin = origin.unwrap_or_default();
        let reason = format!("{other} is set, too ({origin}): leave one of the two out");
        self.invalid(key, reason)
    }

    /// The error for a value of `key` that is not valid.
    #[must_use]
    pub fn invalid(&self, key: &str, reason: String) -> ConfigError {
        match self.values.get(key) {
            Some(setting) => ConfigError::Invalid {
                origin: setting.origin.clone(),
                key: key.into(),
                value: if Self::is_secret(key) {
                    "(secret)".into()
                } else {
                    setting.value.shown.clone()
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

    /// The key of this name.
    fn known(&self, spelling: &str) -> Option<&'static str> {
        let alias = self.aliases.iter().find(|(alias, _)| *alias == spelling);
        let key = alias.map_or(spelling, |(_, key)| key);
        self.known.iter().copied().find(|known| *known == key)
    }

    fn take(&mut self, key: &str, value: Value, origin: Origin) -> Result<(), ConfigError> {
        if let Some(key) = self.known(key) {
            return self.insert(key, value, origin);
        }
        if self.tables.contains(&key) || self.has_table(key) {
            return Err(ConfigError::Invalid {
                origin,
                key: key.into(),
                value: value.shown,
                reason: format!("must be a table: write [{key}], and its keys below"),
            });
        }
        let known = self.known.iter().chain(self.tables).copied();
        Err(ConfigError::UnknownKey {
            origin,
            key: key.into(),
            hint: hint(key, known),
        })
    }

    /// Sets one key, unless the same source has set it by another name: that is ambiguous.
    fn insert(&mut self, key: &str, value: Value, origin: Origin) -> Result<(), ConfigError> {
        let before = self.origin(key).filter(|before| before.is_beside(&origin));
        if let Some(before) = before {
            let reason =
                format!("{before} sets the same by another name: leave one of the two out");
            self.values.insert(key.into(), Setting { value, origin });
            return Err(self.invalid(key, reason));
        }
        self.values.insert(key.into(), Setting { value, origin });
        Ok(())
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

/// The parser's message, without the line itself if that may be a secret.
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
    let number = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    if is_secret {
        return format!("line {number}, {key} = (secret): {}", error.message());
    }
    let shown = line.map(Endpoint::shown);
    if shown.as_deref() != line {
        let shown = shown.unwrap_or_default();
        return format!("line {number}, {shown}: {}", error.message());
    }
    error.to_string().trim_end().into()
}

/// The most similar of these names, if one is similar.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let with_distance = |known: &'a str| (strsim::damerau_levenshtein(name, known), known);
    let (distance, known) = known.into_iter().map(with_distance).min()?;
    (distance <= known.len() / 3 + 1).then_some(known)
}

/// `; did you mean X?`, or the list of known names if none is similar.
fn hint<'a>(key: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(key, known.clone()) {
        Some(candidate) => format!("; did you mean {candidate}?"),
        None => format!("; known are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(any(feature = "azure", feature = "peers"))]
pub(super) fn missing(key: &'static str, reason: &str) -> ConfigError {
    let reason = reason.into();
    ConfigError::Missing { key, reason }
}

#[cfg(any(feature = "azure", feature = "peers"))]
/// A secret in these settings, inline or in a file.
pub(super) fn secret<T>(
    settings: &Settings,
    key: &'static str,
    key_file: &'static str,
    of: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Option<T>, ConfigError> {
    let inline = settings.with(key, |text| of(text.as_bytes()))?;
    let in_file = settings.with(key_file, |path| {
        let read = std::fs::read(path).map_err(|error| format!("can't read it: {error}"))?;
        of(&read)
    })?;
    if inline.is_some() && in_file.is_some() {
        return Err(settings.one_too_many(key_file, key));
    }
    Ok(inline.or(in_file))
}
