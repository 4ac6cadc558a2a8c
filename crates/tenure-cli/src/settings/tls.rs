//! The table `[tls]`: the certificate of the store.

use serde_json::Value;
use tenure::__cli::{Scope, Settings};
use tenure::config::ConfigError;
use tenure_server::Tls;

pub(crate) const SCOPE: Scope = Scope::Table("tls");

/// Opens the certificate and its key, if they are set.
pub(crate) fn open(settings: &Settings) -> Result<Option<Tls>, ConfigError> {
    let missing =
        |key, other| ConfigError::missing(key, format!("{other} is set, and each needs the other"));
    let (certificate, key) = match (file(settings, "certificate")?, file(settings, "key")?) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => return Err(missing("tls.key", "tls.certificate")),
        (None, Some(_)) => return Err(missing("tls.certificate", "tls.key")),
    };
    Tls::open(certificate, key)
        .map(Some)
        .map_err(|error| settings.invalid(error.setting(), error.reason().into()))
}

/// Each key with its value in effect; all values are checked.
pub(crate) fn values(settings: &Settings) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    open(settings)?;
    let value = |key| Ok((key, file(settings, key)?.into()));
    settings.keys().map(value).collect()
}

/// The file that a key names, if any.
pub(crate) fn file<'a>(settings: &'a Settings, key: &str) -> Result<Option<&'a str>, ConfigError> {
    let file = settings.text(key)?;
    Ok(file.filter(|file| !file.is_empty()))
}
