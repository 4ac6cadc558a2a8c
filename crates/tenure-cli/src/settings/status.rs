//! The key `status_listen`: where `tenure run` shows its status.

use std::net::{SocketAddr, TcpListener};

use tenure::Config;
use tenure::config::Bully;
use tenure_config::{ConfigError, Settings};
use tenure_core::wire::host_name;

/// The key.
pub(crate) const STATUS_LISTEN: &str = "status_listen";

/// Reads the names under which clients reach the status listener: those of the setting and, for a
/// member among peers, those in the list of members.
pub(super) fn hosts(settings: &Settings, config: &Config) -> Result<Vec<String>, ConfigError> {
    let hosts = settings.items("hosts", host_name)?;
    Ok(config.members().map_or(hosts, Bully::host_names))
}

/// Opens the status listener, if there is one. The error names the place of the setting.
pub(crate) fn bind(
    settings: &Settings,
    address: Option<SocketAddr>,
) -> Result<Option<TcpListener>, ConfigError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = tenure::listener::listen(address).map_err(|error| {
        let right = "use another port, or port 0 for a free one";
        let reason = format!("can't listen on {address}: {error}; {right}");
        settings.invalid(STATUS_LISTEN, reason)
    })?;
    Ok(Some(listener))
}
