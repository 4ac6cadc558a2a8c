//! The table `[access]`: the settings of access control.

use std::path::PathBuf;

use tenure_config::{ConfigError, Settings};
use tenure_core::wire;
use tenure_server::access::TrustedProxies;

/// The checked settings of access control.
#[derive(Debug, Default)]
pub(crate) struct AccessSettings {
    /// The access file; `None` if the store has no access file.
    pub(crate) file: Option<PathBuf>,
    /// The host names of the store in requests, used without an access file.
    pub(crate) hosts: Vec<String>,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) allow_plain_http: bool,
    pub(crate) allow_anonymous: bool,
}

impl AccessSettings {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let file = settings.required_path("access.file")?;
        let hosts = settings.items("access.hosts", wire::host_name)?;
        let proxies = settings.items("access.trusted_proxies", Ok)?;
        let trusted_proxies = TrustedProxies::new(proxies)
            .map_err(|reason| settings.invalid("access.trusted_proxies", reason))?;
        Ok(Self {
            file,
            hosts,
            trusted_proxies,
            allow_plain_http: settings.flag("access.allow_plain_http")?,
            allow_anonymous: settings.flag("access.allow_anonymous")?,
        })
    }
}
