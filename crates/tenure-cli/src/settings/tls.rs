//! The table `[tls]`: the certificate of the store.

use tenure_config::{ConfigError, Settings};
use tenure_server::Tls;

/// Opens the certificate and its key, if they are set.
pub(crate) fn open(settings: &Settings) -> Result<Option<Tls>, ConfigError> {
    let certificate = settings.required_path("tls.certificate")?;
    let key = settings.required_path("tls.key")?;
    settings.check_pair("tls.certificate", "tls.key")?;
    let (Some(certificate), Some(key)) = (certificate, key) else {
        return Ok(None);
    };
    settings.secret_path("tls.key")?;
    Tls::open(certificate, key)
        .map(Some)
        .map_err(|error| settings.invalid(&format!("tls.{}", error.setting), error.reason))
}
