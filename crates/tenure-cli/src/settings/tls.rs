//! The table `[tls]`: the certificate of the store.

use serde_json::Value;
use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::Tls;

use super::table::SettingsTable;

pub(crate) const TABLE: SettingsTable = SettingsTable {
    name: "tls",
    prefix: "TENURE_TLS_",
    keys: &["certificate", "key"],
};

/// Opens the certificate and its key, if they are set.
pub(crate) fn open(settings: &Settings) -> Result<Option<Tls>, ConfigError> {
    let missing = |key, other| ConfigError::Missing {
        key,
        reason: format!("tls.{other} is set, and each needs the other"),
    };
    let (certificate, key) = match (file(settings, "certificate")?, file(settings, "key")?) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => return Err(missing("tls.key", "certificate")),
        (None, Some(_)) => return Err(missing("tls.certificate", "key")),
    };
    Tls::open(certificate, key)
        .map(Some)
        .map_err(|error| settings.invalid(error.setting(), error.reason().into()))
}

/// Each key with its value in effect; all values are checked.
pub(crate) fn values(settings: &Settings) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    open(settings)?;
    let value = |key: &&'static str| Ok((*key, file(settings, key)?.into()));
    TABLE.keys.iter().map(value).collect()
}

/// The file that a key names, if any.
pub(crate) fn file<'a>(settings: &'a Settings, key: &str) -> Result<Option<&'a str>, ConfigError> {
    let file = settings.text(key)?;
    Ok(file.filter(|file| !file.is_empty()))
}
