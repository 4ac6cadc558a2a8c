//! Settings as text with their origins, so that errors can name the origin.

mod error;
mod file_key;
mod keys;
mod setting;
mod unknown_variables;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tenure_core::file_path;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::permissions;
use crate::http::store::Endpoint;
use setting::Setting;

pub use error::{ConfigError, Origin};
pub(crate) use file_key::FileKey;
pub use keys::{EXAMPLE, Scope, is_secret, secret_variables};
pub use unknown_variables::warn_of_unknown_variables;

/// Settings by key, each with its origin. Read the sources in rising order of precedence, because
/// later sources override earlier ones.
#[derive(Clone, Debug)]
pub struct Settings {
    scope: Scope,
    /// The context that has the keys of a file, if that is a file of contexts.
    context: Option<String>,
    values: BTreeMap<String, Setting>,
}

impl Settings {
    /// Creates an empty set of settings with this scope.
    #[must_use]
    pub const fn new(scope: Scope) -> Self {
        let values = BTreeMap::new();
        Self {
            scope,
            context: None,
            values,
        }
    }

    /// Reads the settings of a file, if there is one, and then the environment of this process,
    /// which overrides the file. Warns of variables that may be misspelt.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the origin and the key.
    pub fn load(scope: Scope, file: Option<&Path>) -> Result<Self, ConfigError> {
        warn_of_unknown_variables();
        let mut settings = match file {
            Some(path) => Self::of_file(scope, path)?,
            None => Self::new(scope),
        };
        // Text that is not UTF-8 becomes text that no setting accepts.
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let environment = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
        settings.read_environment(environment)?;
        Ok(settings)
    }

    /// Reads the settings of a TOML file. Keys of other scopes are ignored.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the file, the line and the key.
    pub fn of_file(scope: Scope, path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|reason| ConfigError::Unreadable {
            path: path.into(),
            reason,
        })?;
        Self::of_toml(scope, &text, path)
    }

    /// Reads the settings of a TOML text. Errors name `path` as the file.
    pub(super) fn of_toml(scope: Scope, text: &str, path: &Path) -> Result<Self, ConfigError> {
        let file = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            path: path.into(),
            message: syntax(text, &error),
        })?;
        let setting = |key: &Spanned<DeString<'_>>, value| {
            let path = path.into();
            let line = text[..key.span().start].matches('\n').count() + 1;
            Setting::of_file(text, value, Origin::File { path, line })
        };
        let mut settings = Self::new(scope);
        for (key, value) in file.get_ref() {
            match value.get_ref() {
                DeValue::Table(table) if keys::is_table(key.get_ref()) => {
                    for (name, value) in table {
                        let setting = setting(name, value);
                        settings.insert_of_file(key.get_ref(), name.get_ref(), setting)?;
                    }
                }
                _ => settings.insert_of_file("", key.get_ref(), setting(key, value))?,
            }
        }
        Ok(settings)
    }

    /// Reads the environment variables. Their names are `TENURE_` and the key in upper case, with
    /// `_` for a dot. A variable without a value is not set. Other names with the prefix are not an
    /// error, because container platforms set such variables themselves.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if two variables set one key.
    pub(super) fn read_environment(
        &mut self,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        let keys = self.scope.variables();
        let mut read = Self::new(self.scope);
        for (name, value) in environment {
            // Only the prefix must be in upper case.
            if !name.starts_with(keys::PREFIX) {
                continue;
            }
            // Templates of units and containers write an empty value for what is not set.
            if value.is_empty() {
                continue;
            }
            if let Some(key) = keys.get(&name.to_ascii_uppercase()) {
                read.insert(key, Setting::of_text([value], Origin::Environment(name)))?;
            }
        }
        self.values.append(&mut read.values);
        Ok(())
    }

    /// Sets a key to the values of its command-line flag, if there are any.
    ///
    /// # Panics
    ///
    /// If there is no such key.
    #[track_caller]
    pub fn set_flag<'a>(&mut self, key: &str, values: impl IntoIterator<Item = &'a String>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.set(key, values, Origin::Flag(keys::flag(key)));
        }
    }

    /// Lets the keys of a file belong to this context.
    pub fn set_context(&mut self, name: &str) {
        self.context = Some(name.into());
    }

    /// Removes the value of a key.
    pub fn unset(&mut self, key: &str) {
        self.values.remove(key);
    }

    /// Sets one key, overriding an earlier value.
    ///
    /// # Panics
    ///
    /// If there is no such key.
    #[track_caller]
    pub fn set(
        &mut self,
        key: &str,
        value: impl IntoIterator<Item = impl Into<String>>,
        origin: Origin,
    ) {
        assert!(self.scope.contains(key), "there is no setting {key}");
        self.values
            .insert(key.into(), Setting::of_text(value, origin));
    }

    /// Returns the keys that may be set, without those of the metadata.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.scope.keys()
    }

    /// Returns whether any key of this table is set.
    #[must_use]
    pub fn has_table(&self, table: &str) -> bool {
        let mut keys = self.values.keys().filter_map(|key| key.split_once('.'));
        keys.any(|(known, _)| known == table)
    }

    /// Returns the origin of a key, if it was set.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        Some(&self.get(key)?.origin)
    }

    /// Returns the place of a key in a file that can be read again. A pipe can't.
    pub(super) fn file_key(&self, key: &str) -> Option<FileKey> {
        match self.origin(key)? {
            Origin::File { path, .. } if path.is_file() => Some(FileKey {
                path: path.clone(),
                context: self.context.clone(),
                key: key.into(),
            }),
            _ => None,
        }
    }

    fn get(&self, key: &str) -> Option<&Setting> {
        debug_assert!(self.scope.contains(key), "there is no setting {key}");
        self.values.get(key)
    }

    /// Parses a value. Returns `None` if the key was not set.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the parser's error.
    pub fn parse<T>(&self, key: &str) -> Result<Option<T>, ConfigError>
    where
        T: FromStr<Err: fmt::Display>,
    {
        self.with(key, |text| {
            text.parse::<T>().map_err(|error| error.to_string())
        })
    }

    /// Reads a duration with a unit, such as `15s` or `1m 30s`.
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

    /// Reads a whole number within this range.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`], which names both ends of the range, if the value is not a number
    /// in the range.
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

    /// Reads a boolean.
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

    /// Reads a text with the function `read`. The error of `read` must describe a valid value.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the error of `read`.
    pub fn with<'a, T>(
        &'a self,
        key: &str,
        read: impl FnOnce(&'a str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        self.read(key, &["string"], "must be text in quotes", read)
    }

    /// Reads a number or a text with the function `read`. The text `right` describes a valid value.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the error of `read`.
    pub fn word<'a, T>(
        &'a self,
        key: &str,
        right: &str,
        read: impl FnOnce(&'a str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        self.read(key, &["string", "integer"], right, read)
    }

    /// Reads a value of one of these TOML types with the function `read`.
    fn read<'a, T>(
        &'a self,
        key: &str,
        kinds: &[&str],
        right: &str,
        read: impl FnOnce(&'a str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let text = self.get(key).map(|setting| setting.text(kinds, right));
        let value = text.map(|text| text.and_then(read));
        value
            .transpose()
            .map_err(|reason| self.invalid(key, reason))
    }

    /// Reads a text, and trims it. Returns `None` if the key was not set.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if the value is not text.
    pub fn text(&self, key: &str) -> Result<Option<&str>, ConfigError> {
        self.with(key, |text| Ok(text.trim()))
    }

    /// Reads the path of a file or a directory. Returns `None` if the key was not set, or is empty.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if the value is not a path in UTF-8, or begins with `~`.
    pub fn path(&self, key: &str) -> Result<Option<PathBuf>, ConfigError> {
        let path = self.with(key, |text| match text.trim() {
            "" => Ok(None),
            // Text of the environment that is not UTF-8.
            text if text.contains(char::REPLACEMENT_CHARACTER) => Err("must be UTF-8".into()),
            text => match file_path::check(text) {
                Ok(()) => Ok(Some(text.into())),
                Err(error) => Err(error.to_string()),
            },
        })?;
        Ok(path.flatten())
    }

    /// Like [`path`](Self::path), and refuses an empty value: without the file, the program would do
    /// without a protection, or use another place.
    ///
    /// # Errors
    ///
    /// Also [`ConfigError::Invalid`] if the value is empty.
    pub fn required_path(&self, key: &str) -> Result<Option<PathBuf>, ConfigError> {
        let path = self.path(key)?;
        if path.is_none() && self.origin(key).is_some() {
            let reason = "must not be empty: write a path, or leave the key out";
            return Err(self.invalid(key, reason.into()));
        }
        Ok(path)
    }

    /// Like [`path`](Self::path), for a file with a secret. Warns if every user can read it.
    ///
    /// # Errors
    ///
    /// The errors of [`path`](Self::path).
    pub fn secret_path(&self, key: &str) -> Result<Option<PathBuf>, ConfigError> {
        let path = self.path(key)?;
        if let Some(path) = &path {
            permissions::warn_of_secret(path);
        }
        Ok(path)
    }

    /// Reads several values: an array of texts in a file, or texts separated by commas in the
    /// environment. Empty texts are ignored.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the error of `read`, or if the value is not an array of texts.
    pub fn items<'a, T>(
        &'a self,
        key: &str,
        read: impl Fn(&'a str) -> Result<T, String>,
    ) -> Result<Vec<T>, ConfigError> {
        let right = "must be texts in quotes, such as [\"one\", \"another\"]";
        self.read(key, &["string", "array"], right, |_| Ok(()))?;
        let texts = self.list(key).into_iter().filter(|text| !text.is_empty());
        let items = texts.map(read).collect::<Result<_, _>>();
        items.map_err(|reason| self.invalid(key, reason))
    }

    /// Returns the texts of a value of any type, to show or compare the value.
    #[must_use]
    pub fn list(&self, key: &str) -> Vec<&str> {
        let texts = self.get(key).into_iter().flat_map(|setting| &setting.texts);
        texts
            .flat_map(|text| text.split(','))
            .map(str::trim)
            .collect()
    }

    /// Reads the metadata of a candidate.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if a value is not text.
    pub fn metadata(&self) -> Result<BTreeMap<String, String>, ConfigError> {
        let names = self
            .values
            .keys()
            .filter_map(|key| Some((key, keys::metadata_name(key)?)));
        let texts = names.map(|(key, name)| {
            let text = self.with(key, |text| Ok(text.to_owned()))?;
            Ok((name.to_owned(), text.unwrap_or_default()))
        });
        texts.collect()
    }

    /// Reads a secret from its key or from the file of `key_file`. Also returns the key that was
    /// set. Warns if every user can read the secret.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if the file can't be read, if both are set, or with the error of
    /// `read`.
    pub fn secret<T>(
        &self,
        key: &str,
        read: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<(String, T)>, ConfigError> {
        let key_file = format!("{key}_file");
        let inline = self.with(key, |text| read(text.as_bytes()))?;
        self.warn_of_inline(key);
        let in_file = self.secret_path(&key_file)?.map(|path| {
            let bytes = std::fs::read(path).map_err(|error| format!("can't read it: {error}"));
            let secret = bytes.and_then(|bytes| read(&bytes));
            secret.map_err(|reason| self.invalid(&key_file, reason))
        });
        match (inline, in_file.transpose()?) {
            (Some(_), Some(_)) => Err(self.one_too_many(&key_file, key)),
            (Some(secret), None) => Ok(Some((key.into(), secret))),
            (None, secret) => Ok(secret.map(|secret| (key_file, secret))),
        }
    }

    /// Warns if every user can read the file that has this secret itself.
    pub fn warn_of_inline(&self, key: &str) {
        if let Some(Origin::File { path, .. }) = self.origin(key) {
            permissions::warn_of_secret(path);
        }
    }

    /// Returns the first of these keys that was set, or the first key if none was set.
    #[must_use]
    pub fn first_set(&self, keys: &[&'static str]) -> &'static str {
        let set = keys.iter().find(|key| self.origin(key).is_some());
        set.copied().unwrap_or(keys[0])
    }

    /// Returns the error for `key` if `other`, which means the same, is also set.
    #[must_use]
    pub fn one_too_many(&self, key: &str, other: &str) -> ConfigError {
        let origin = self.origin(other).map(Origin::to_string);
        let origin = origin.unwrap_or_default();
        let reason = format!("{other} is set, too ({origin}): leave one of the two out");
        self.invalid(key, reason)
    }

    /// Returns the error for a value of `key` that is not valid.
    #[must_use]
    pub fn invalid(&self, key: &str, reason: String) -> ConfigError {
        let (origin, value) = match self.get(key) {
            Some(setting) if is_secret(key) => (setting.origin.clone(), "(secret)".into()),
            Some(setting) => (setting.origin.clone(), setting.shown.clone()),
            None => (Origin::Flag("(default)".into()), String::new()),
        };
        let key = keys::shown(key).into();
        ConfigError::Invalid {
            origin,
            key,
            value,
            reason,
        }
    }

    /// Sets a key of a file, if the key belongs to this scope. `table` is the table of the key, or
    /// empty.
    ///
    /// A key of the other scope is for another program that reads the same file. A key of neither
    /// scope is an error in every program: it may be a misspelt table that protects the store.
    fn insert_of_file(
        &mut self,
        table: &str,
        name: &str,
        setting: Setting,
    ) -> Result<(), ConfigError> {
        let key = &match table {
            "" => keys::of_spelling(name).to_owned(),
            table => format!("{table}.{name}"),
        };
        // A dot in quotes is a part of a name, and only names of metadata have dots.
        let is_one_name = table == keys::METADATA || !name.contains('.');
        let is_table = setting.is_table();
        let is_key = is_one_name && (!is_table || table == keys::METADATA);
        // `cool_down = {}` has a wrong value, and `[server]` is a misspelt table.
        let is_wrong_value = is_one_name && is_table && keys::nearest_table(name).is_none();
        if (is_key || is_wrong_value) && self.scope.contains(key) {
            return self.insert(key, setting);
        }
        if is_key && keys::is_known(key) {
            return Ok(());
        }
        let Setting { origin, shown, .. } = setting;
        if keys::is_table(key) {
            return Err(ConfigError::Invalid {
                origin,
                reason: format!("must be a table: write [{key}], and its keys below"),
                key: key.clone(),
                value: shown,
            });
        }
        let shown = match (is_table, is_one_name) {
            (true, _) if table.is_empty() => format!("[{name}]"),
            (_, true) => keys::shown(key).to_owned(),
            (_, false) => format!("{name:?}"),
        };
        Err(ConfigError::UnknownKey {
            origin,
            key: shown,
            hint: keys::hint(table, name, is_table),
        })
    }

    /// Sets one key, unless this source has set it under another name, because that is ambiguous.
    fn insert(&mut self, key: &str, setting: Setting) -> Result<(), ConfigError> {
        let Some(before) = self.values.insert(key.into(), setting) else {
            return Ok(());
        };
        let before = before.origin;
        let reason = format!("{before} sets the same by another name: leave one of the two out");
        Err(self.invalid(key, reason))
    }
}

/// Returns the parser's message. Omits the line itself if the line may contain a secret.
fn syntax(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..at];
    let newlines = before.iter().filter(|&&byte| byte == b'\n').count();
    let line = text.lines().nth(newlines).unwrap_or_default();
    let key = line.split('=').next().unwrap_or_default().trim();
    let shown = if keys::may_be_secret(key.trim_matches('"')) {
        format!("{key} = (secret)")
    } else {
        Endpoint::shown(line)
    };
    if shown == line {
        return error.to_string().trim_end().into();
    }
    format!("line {}, {shown}: {}", newlines + 1, error.message())
}
