//! The settings of a candidate, checked as `tenure run` starts with them.

use std::net::SocketAddr;

use nix::sys::signal::Signal;
use tenure::Config;
use tenure::config::Bully;
use tenure_config::{ConfigError, Settings};

use super::{members_table, status, stop_signal};

/// The checked settings of a candidate. `tenure run` starts with them, and `tenure config` shows and
/// checks them, so that both accept the same files.
#[derive(Debug)]
pub(crate) struct CheckedCandidate {
    pub(crate) config: Config,
    /// The address of the status listener, if there is one.
    pub(crate) status_listen: Option<SocketAddr>,
    /// The names under which clients reach the status listener.
    pub(crate) hosts: Vec<String>,
    pub(crate) stop_signal: Signal,
}

impl CheckedCandidate {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let config = Config::from_settings(settings)?;
        Ok(Self {
            status_listen: settings.address(status::STATUS_LISTEN)?,
            hosts: status::hosts(settings, &config)?,
            stop_signal: stop_signal::stop_signal(settings)?,
            config,
        })
    }
}

/// Returns the address at which other machines reach a member without a key, unless a setting
/// permits it. As a store beyond loopback needs an access file, a member there needs a key.
pub(crate) fn address_without_key(
    settings: &Settings,
    config: &Config,
) -> Result<Option<SocketAddr>, ConfigError> {
    let key = format!("{}.allow_anonymous", members_table(settings));
    let is_allowed = settings.flag(&key)?;
    let address = config.members().and_then(Bully::address_without_key);
    Ok(address.filter(|_| !is_allowed))
}
