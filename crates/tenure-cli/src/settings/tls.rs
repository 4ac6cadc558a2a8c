//! The table `[tls]`: the certificate of the store.

use tenure_config::{ConfigError, Settings};
use tenure_server::Tls;

/// Opens the certificate and its key, if they are set.
pub(crate) fn open(settings: &Settings) -> Result<Option<Tls>, ConfigError> {
    let missing =
        |key, other| ConfigError::missing(key, format!("{other} is set, and each needs the other"));
    let (certificate, key) = match (
        settings.required_path("tls.certificate")?,
        settings.required_path("tls.key")?,
    ) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => return Err(missing("tls.key", "tls.certificate")),
        (None, Some(_)) => return Err(missing("tls.certificate", "tls.key")),
    };
    settings.secret_path("tls.key")?;
    Tls::open(certificate, key)
        .map(Some)
        .map_err(|error| settings.invalid(&format!("tls.{}", error.setting), error.reason))
}
