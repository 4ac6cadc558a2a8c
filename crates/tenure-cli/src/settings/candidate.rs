//! The settings of a candidate, checked as `tenure run` starts with them.

use std::net::SocketAddr;

use tenure::__cli::Settings;
use tenure::Config;
use tenure::config::{Bully, ConfigError};

use super::status;

/// Returns the configuration of a candidate.
pub(crate) fn candidate(settings: &Settings) -> Result<Config, ConfigError> {
    let config = tenure::__cli::from_settings(settings)?;
    status::address(settings)?;
    Ok(config)
}

/// Returns the address at which other machines reach a member without a key, unless a setting
/// permits it. As a store beyond loopback needs an access file, a member there needs a key.
pub(crate) fn address_without_key(
    settings: &Settings,
    config: &Config,
) -> Result<Option<SocketAddr>, ConfigError> {
    let key = match config.fallback() {
        Some(_) => "fallback.allow_anonymous",
        None => "bully.allow_anonymous",
    };
    let is_allowed = settings.flag(key)?.unwrap_or_default();
    let address = config.members().and_then(Bully::address_without_key);
    Ok(address.filter(|_| !is_allowed))
}
