//! The settings of the store's TLS: the table `[tls]`.

use std::path::Path;

use serde_json::Value;
use tenure::__cli::Settings;
use tenure::config::{ConfigError, Origin};
use tenure_server::Tls;
use tracing::{info, warn};

use crate::cli::Serve;
use crate::permissions;
use crate::section::Section;

pub(crate) const SECTION: Section = Section {
    name: "tls",
    prefix: "TENURE_TLS_",
    keys: &["certificate", "key"],
};

/// What `tenure serve` is to show its clients, if it is to speak TLS.
pub(crate) fn of(arguments: &Serve) -> Result<Option<Tls>, ConfigError> {
    let mut settings = SECTION.of_environment(arguments.config.as_deref())?;
    let flags = [
        (
            "certificate",
            "--tls-certificate",
            &arguments.tls_certificate,
        ),
        ("key", "--tls-key", &arguments.tls_key),
    ];
    for (key, flag, value) in flags {
        if let Some(value) = value {
            settings.set(key, [value], Origin::Flag(flag.into()));
        }
    }
    let tls = open(&settings)?;
    if let Some(key) = file(&settings, "key")? {
        permissions::check_key(key.as_ref());
    }
    Ok(tls)
}

/// Checks the table of a file, if it is there.
pub(crate) fn check_file(path: &Path) -> Result<(), ConfigError> {
    open(&SECTION.of_file(path)?).map(|_| ())
}

/// Each key with what it is now, all checked.
pub(crate) fn values(settings: &Settings) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    open(settings)?;
    let value = |key: &&'static str| Ok((*key, file(settings, key)?.into()));
    SECTION.keys.iter().map(value).collect()
}

fn open(settings: &Settings) -> Result<Option<Tls>, ConfigError> {
    let missing = |key, other| ConfigError::Missing {
        key,
        reason: format!("it belongs to tls.{other}: name both files, or neither"),
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

/// The file that is named, if one is.
fn file<'a>(settings: &'a Settings, key: &str) -> Result<Option<&'a str>, ConfigError> {
    let file = settings.text(key)?;
    Ok(file.filter(|file| !file.is_empty()))
}

/// Shows new connections what is in the files now. It blocks.
pub(crate) fn reload(tls: &Tls) {
    match tls.reload() {
        Ok(true) => info!("new connections are shown the certificate that is in the file now"),
        Ok(false) => {}
        Err(error) => warn!(%error, "the certificate stays the one that it was"),
    }
}
