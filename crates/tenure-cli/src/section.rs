//! Tables of the configuration file that are the store's, and the environment that overrides them.

use std::ffi::OsStr;
use std::path::Path;

use tenure::__cli::Settings;
use tenure::config::ConfigError;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    /// What the names of its variables begin with.
    pub(crate) prefix: &'static str,
    pub(crate) keys: &'static [&'static str],
}

impl Section {
    /// What stands in the file.
    pub(crate) fn of_file(&self, path: &Path) -> Result<Settings, ConfigError> {
        let mut settings = Settings::new(self.keys);
        settings.read_file(path, Some(self.name), &[])?;
        Ok(settings)
    }

    /// What stands in the file, overridden by the environment.
    pub(crate) fn of_environment(&self, path: Option<&Path>) -> Result<Settings, ConfigError> {
        let mut settings = match path {
            Some(path) => self.of_file(path)?,
            None => Settings::new(self.keys),
        };
        let environment = std::env::vars_os().map(|(name, value)| (lossy(&name), lossy(&value)));
        settings.read_environment(self.prefix, environment)?;
        Ok(settings)
    }

    /// Its variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = String> {
        let variable = |key: &&str| format!("{}{}", self.prefix, key.to_ascii_uppercase());
        self.keys.iter().map(variable)
    }

    /// Whether any of its keys was set.
    pub(crate) fn is_set(&self, settings: &Settings) -> bool {
        self.keys.iter().any(|key| settings.origin(key).is_some())
    }
}

/// Text that is no UTF-8 becomes text that no setting is.
pub(crate) fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}
