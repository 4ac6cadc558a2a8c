//! Settings as text with their origins, so that errors can name the origin.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tenure_core::file_path;
use tenure_core::text::without_passwords;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::error::{ConfigError, Origin};
use crate::file_key::FileKey;
use crate::keys::{Key, PREFIX};
use crate::permissions;
use crate::scope::Scope;
use crate::setting::Setting;
use crate::unknown_variables::warn_of_unknown_variables;

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
        warn_of_unknown_variables(scope);
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
    ///
    /// # Errors
    ///
    /// The errors of [`of_file`](Self::of_file).
    pub fn of_toml(scope: Scope, text: &str, path: &Path) -> Result<Self, ConfigError> {
        let file = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            path: path.into(),
            message: syntax(scope, text, &error),
        })?;
        let setting = |key: &Spanned<DeString<'_>>, value| {
            let path = path.into();
            let line = text[..key.span().start].matches('\n').count() + 1;
            Setting::of_file(text, value, Origin::File { path, line })
        };
        let mut settings = Self::new(scope);
        for (key, value) in file.get_ref() {
            match value.get_ref() {
                DeValue::Table(_) if scope.is_ignored(key.get_ref()) => {}
                DeValue::Table(table)
                    if scope.is_table(key.get_ref())
                        || !table.is_empty() && scope.replacement(key.get_ref(), "").is_some() =>
                {
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
    pub fn read_environment(
        &mut self,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        let mut read = Self::new(self.scope);
        for (name, value) in environment {
            // Only the prefix must be in upper case. Templates of units and containers write an empty
            // value for what is not set.
            if !name.starts_with(PREFIX) || value.is_empty() {
                continue;
            }
            let variable = name.to_ascii_uppercase();
            let origin = Origin::Environment(name);
            if let Some(key) = self.scope.key_of_variable(&variable) {
                read.insert(key, Setting::of_text([value], origin))?;
            } else if let Some(key) = self.scope.replaced_by_variable(&variable) {
                self.refuse_replaced(key, &value, &origin)?;
            }
        }
        self.values.append(&mut read.values);
        Ok(())
    }

    /// Sets a key to the values of its command-line flag, if there are any. The flag has the name of
    /// the key without its table.
    ///
    /// # Panics
    ///
    /// If there is no such key.
    #[track_caller]
    pub fn set_flag<'a>(&mut self, key: &str, values: impl IntoIterator<Item = &'a String>) {
        let name = key.rsplit('.').next().unwrap_or(key);
        self.set_named_flag(&name.replace('_', "-"), key, values);
    }

    /// Refuses a key that does not exist any more, with this value.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with what to write in place of the key.
    pub fn refuse_replaced(
        &self,
        key: &str,
        value: &str,
        origin: &Origin,
    ) -> Result<(), ConfigError> {
        match self.scope.replacement(key, value) {
            None => Ok(()),
            Some(now) => Err(ConfigError::Invalid {
                origin: origin.clone(),
                key: self.scope.shown(key).into(),
                value: without_passwords(&format!("{value:?}")),
                reason: format!("there is no such key any more: {now}"),
            }),
        }
    }

    /// Like [`set_flag`](Self::set_flag), for a flag with another name.
    ///
    /// # Panics
    ///
    /// If there is no such key.
    #[track_caller]
    pub fn set_named_flag<'a>(
        &mut self,
        flag: &str,
        key: &str,
        values: impl IntoIterator<Item = &'a String>,
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.set(key, values, Origin::Flag(format!("--{flag}")));
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

    /// Sets a key to the value in its definition.
    ///
    /// # Panics
    ///
    /// If there is no such key.
    pub fn set_example(&mut self, key: &str) {
        let definition = self.scope.key(key).expect("a key");
        self.values.insert(key.into(), definition.example.clone());
    }

    /// Returns the keys that may be set, without those of the metadata.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> + Clone + use<> {
        self.scope.keys()
    }

    /// Returns the value of a key for people: durations in their usual form, and no secret. `None` if
    /// there is no value.
    #[must_use]
    pub fn shown(&self, key: &Key) -> Option<String> {
        self.get(&key.name)?;
        if key.is_secret() {
            return Some("(secret)".into());
        }
        let shown = without_passwords(&self.list(&key.name).join(", "));
        let duration = key
            .is_duration()
            .then(|| humantime::parse_duration(&shown).ok());
        Some(match duration.flatten() {
            Some(duration) => humantime::format_duration(duration).to_string(),
            None => shown,
        })
    }

    /// Returns whether there is such a key.
    #[must_use]
    pub fn has_key(&self, key: &str) -> bool {
        self.scope.contains(key)
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
        debug_assert!(self.scope.contains(key), "there is no setting {key}");
        Some(&self.values.get(key)?.origin)
    }

    /// Returns the place of a key in a file that can be read again. A pipe can't.
    #[must_use]
    pub fn file_key(&self, key: &str) -> Option<FileKey> {
        match self.origin(key)? {
            Origin::File { path, .. } if path.is_file() => Some(FileKey {
                path: path.clone(),
                context: self.context.clone(),
                key: key.into(),
            }),
            _ => None,
        }
    }

    /// Returns the value of a key, or else its default.
    fn get(&self, key: &str) -> Option<&Setting> {
        debug_assert!(self.scope.contains(key), "there is no setting {key}");
        let default = || self.scope.key(key)?.default();
        self.values.get(key).or_else(default)
    }

    /// Parses a value. Returns `None` if the key was not set and has no
    /// default.
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
    /// [`ConfigError::Invalid`] if it is not a duration with a unit, or not an allowed one.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>, ConfigError> {
        let right = "write a number and a unit, such as \"15s\"";
        let parse =
            |text| humantime::parse_duration(text).map_err(|error| format!("{error}; {right}"));
        self.read(key, &["string"], right, |text| {
            let duration = parse(text)?;
            let range = self.scope.key(key).and_then(Key::range);
            match range
                .map(|(least, most)| Ok::<_, String>(parse(least)?..=parse(most)?))
                .transpose()?
            {
                Some(range) if !range.contains(&duration) => Err(self.right(key)),
                _ => Ok(duration),
            }
        })
    }

    /// Reads a whole number within the range of its definition.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`], which names both ends of the range, if the value is not a number
    /// in the range.
    pub fn number<T: FromStr + PartialOrd>(&self, key: &str) -> Result<Option<T>, ConfigError> {
        let range = self.scope.key(key).and_then(Key::range);
        let (least, most) = range.unwrap_or_default();
        let right = format!("must be a whole number, {least} to {most}");
        let parse = |text: &str| text.parse::<T>().ok();
        self.read(key, &["integer"], &right, |text| {
            let (number, least, most) = (parse(text), parse(least), parse(most));
            let number = number
                .filter(|number| Some(number) >= least.as_ref() && Some(number) <= most.as_ref());
            number.ok_or_else(|| right.clone())
        })
    }

    /// Reads a boolean.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if it is neither `true` nor `false`.
    pub fn flag(&self, key: &str) -> Result<bool, ConfigError> {
        Ok(self.optional_flag(key)?.unwrap_or_default())
    }

    /// Reads a boolean whose default follows from other settings.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if it is neither `true` nor `false`.
    pub fn optional_flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        let right = "must be true or false";
        self.read(key, &["boolean"], right, |text| {
            text.parse().map_err(|_| right.into())
        })
    }

    /// Reads a text with the function `read`. The error of `read` must describe a valid value.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the error of `read`, or if the text is not an allowed one.
    pub fn with<'a, T>(
        &'a self,
        key: &str,
        read: impl FnOnce(&'a str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        self.read(key, &["string"], "must be text in quotes", |text| {
            let allowed = self.scope.key(key).and_then(Key::allowed);
            match allowed.is_none_or(|allowed| allowed.contains(&format!("{:?}", text.trim()))) {
                true => read(text),
                false => Err(self.right(key)),
            }
        })
    }

    /// Returns what the allowed values of a key are.
    fn right(&self, key: &str) -> String {
        let allowed = self.scope.key(key).and_then(Key::allowed);
        format!("must be {}", allowed.unwrap_or_default())
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

    /// Reads a text, and trims it. Returns `None` if the key was not set and has no
    /// default.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if the value is not text.
    pub fn text(&self, key: &str) -> Result<Option<&str>, ConfigError> {
        self.with(key, |text| Ok(text.trim()))
    }

    /// Reads an address and a port. Returns `None` if the key was not set, or is empty.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with the value of the definition as an example.
    pub fn address(&self, key: &str) -> Result<Option<SocketAddr>, ConfigError> {
        let example = self.scope.key(key).map_or("", |key| key.written);
        let right = format!(
            "write an address and a port, such as {}",
            example.trim_matches('"')
        );
        let address = self.with(key, |text| match text.trim() {
            "" => Ok(None),
            text => match text.to_socket_addrs().map(|mut found| found.next()) {
                Ok(Some(address)) => Ok(Some(address)),
                Ok(None) => Err(format!("no address; {right}")),
                Err(error) => Err(format!("{error}; {right}")),
            },
        })?;
        Ok(address.flatten())
    }

    /// Refuses one of two keys that need each other.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Missing`] with the key that is not set, or is empty.
    pub fn check_pair(&self, one: &str, other: &str) -> Result<(), ConfigError> {
        let is_set = |key| self.list(key).iter().any(|text| !text.is_empty());
        let (set, missing) = match (is_set(one), is_set(other)) {
            (true, false) => (one, other),
            (false, true) => (other, one),
            _ => return Ok(()),
        };
        let origin = self.origin(set).map(Origin::to_string).unwrap_or_default();
        let reason = format!("{set} is set ({origin}), and each needs the other");
        Err(ConfigError::missing(missing, reason))
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

    /// Reads the texts of the table whose keys the user chooses.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if a value is not text.
    pub fn free_table(&self) -> Result<BTreeMap<String, String>, ConfigError> {
        let names = self
            .values
            .keys()
            .filter_map(|key| Some((key, self.scope.free_name(key)?)));
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
        self.warn_of_inline(key);
        let of_file = |path| {
            let bytes = std::fs::read(path).map_err(|error| format!("can't read it: {error}"));
            bytes.and_then(|bytes| read(&bytes))
        };
        self.text_or_file(key, |text| read(text.as_bytes()).map(Some), of_file)
    }

    /// Reads a value from the text of a key, or from the file of `key_file`. Also returns the key that
    /// was set. Warns if every user can read a file with a secret.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if both are set, or with the error of `of_text` or `of_file`.
    pub fn text_or_file<T>(
        &self,
        key: &str,
        of_text: impl FnOnce(&str) -> Result<Option<T>, String>,
        of_file: impl FnOnce(PathBuf) -> Result<T, String>,
    ) -> Result<Option<(String, T)>, ConfigError> {
        let key_file = format!("{key}_file");
        let inline = self.with(key, of_text)?.flatten();
        let path = match self.scope.is_secret(key) {
            true => self.secret_path(&key_file)?,
            false => self.path(&key_file)?,
        };
        let in_file = path.map(of_file).transpose();
        let in_file = in_file.map_err(|reason| self.invalid(&key_file, reason))?;
        match (inline, in_file) {
            (Some(_), Some(_)) => Err(self.one_too_many(&key_file, key)),
            (Some(value), None) => Ok(Some((key.into(), value))),
            (None, value) => Ok(value.map(|value| (key_file, value))),
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
            Some(setting) if self.scope.is_secret(key) => {
                (setting.origin.clone(), "(secret)".into())
            }
            Some(setting) => (setting.origin.clone(), setting.shown.clone()),
            None => (Origin::Default, String::new()),
        };
        let key = self.scope.shown(key).into();
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
        let scope = self.scope;
        let key = &match table {
            "" => scope.of_spelling(name).to_owned(),
            table => format!("{table}.{name}"),
        };
        self.refuse_replaced(key, &setting.texts.join(","), &setting.origin)?;
        // A dot in quotes is a part of a name, and only names of metadata have dots.
        let is_free = !table.is_empty() && scope.free_table() == Some(table);
        let is_one_name = is_free || !name.contains('.');
        let is_table = setting.is_table();
        let is_key = is_one_name && (!is_table || is_free);
        // `cool_down = {}` has a wrong value, and `[server]` is a misspelt table.
        let is_wrong_value = is_one_name && is_table && scope.nearest_table(name).is_none();
        if (is_key || is_wrong_value) && scope.contains(key) {
            return self.insert(key, setting);
        }
        if is_key && scope.is_known(key) {
            return Ok(());
        }
        let Setting { origin, shown, .. } = setting;
        if scope.is_table(key) {
            return Err(ConfigError::Invalid {
                origin,
                reason: format!("must be a table: write [{key}], and its keys below"),
                key: key.clone(),
                value: shown,
            });
        }
        let shown = match (is_table, is_one_name) {
            (true, _) if table.is_empty() => format!("[{name}]"),
            (_, true) => scope.shown(key).to_owned(),
            (_, false) => format!("{name:?}"),
        };
        Err(ConfigError::UnknownKey {
            origin,
            key: shown,
            hint: scope.hint(table, name, is_table),
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
fn syntax(scope: Scope, text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..at];
    let newlines = before.iter().filter(|&&byte| byte == b'\n').count();
    let line = text.lines().nth(newlines).unwrap_or_default();
    let key = line.split('=').next().unwrap_or_default().trim();
    let tables = text
        .lines()
        .take(newlines + 1)
        .filter_map(|line| line.trim().strip_prefix('['));
    let table = tables.last().unwrap_or_default();
    // A secret of another program can't be told from its other values.
    let is_unknown = scope.is_ignored(table.trim_end_matches([']', ' ']));
    let shown = if is_unknown || scope.may_be_secret(key.trim_matches('"')) {
        format!("{key} = (secret)")
    } else {
        without_passwords(line)
    };
    if shown == line {
        return error.to_string().trim_end().into();
    }
    format!("line {}, {shown}: {}", newlines + 1, error.message())
}
