//! Tables of the configuration file that belong to the store.

use std::ffi::OsStr;
use std::path::Path;

use tenure::__cli::Settings;
use tenure::config::ConfigError;

/// A table and the environment variables that override it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettingsTable {
    pub(crate) name: &'static str,
    /// The prefix of its variables.
    pub(crate) prefix: &'static str,
    pub(crate) keys: &'static [&'static str],
}

impl SettingsTable {
    /// The settings of a file.
    pub(crate) fn read_file(&self, path: &Path) -> Result<Settings, ConfigError> {
        let mut settings = Settings::new(self.keys);
        settings.read_file(path, Some(self.name), &[])?;
        Ok(settings)
    }

    /// The settings of a file, if there is one, overridden by the environment.
    pub(crate) fn read(&self, path: Option<&Path>) -> Result<Settings, ConfigError> {
        let mut settings = match path {
            Some(path) => self.read_file(path)?,
            None => Settings::new(self.keys),
        };
        let environment = std::env::vars_os().map(|(name, value)| (lossy(&name), lossy(&value)));
        settings.read_environment(self.prefix, environment)?;
        Ok(settings)
    }

    /// The names of its variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = String> {
        let variable = |key: &&str| format!("{}{}", self.prefix, key.to_ascii_uppercase());
        self.keys.iter().map(variable)
    }

    /// Whether any of its keys is set.
    pub(crate) fn is_set(&self, settings: &Settings) -> bool {
        self.keys.iter().any(|key| settings.origin(key).is_some())
    }
}

/// Text that is not UTF-8 becomes text that is not a valid setting.
pub(crate) fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}
