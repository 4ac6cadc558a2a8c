//! The key `status_listen`: where `tenure run` shows its status.

use std::net::{SocketAddr, TcpListener};

use tenure::__cli::Settings;
use tenure::config::ConfigError;

use super::serve::resolve;

/// The key.
pub(crate) const STATUS_LISTEN: &str = "status_listen";

/// The address in examples.
const EXAMPLE: &str = "127.0.0.1:7410";

/// The address of the status listener, if there is one.
pub(crate) fn address(settings: &Settings) -> Result<Option<SocketAddr>, ConfigError> {
    let address = settings.with(STATUS_LISTEN, |text| match text.trim() {
        "" => Ok(None),
        text => resolve(text, EXAMPLE).map(Some),
    })?;
    Ok(address.flatten())
}

/// Opens the status listener, if there is one. The error names the place of the setting.
pub(crate) fn bind(settings: &Settings) -> Result<Option<TcpListener>, ConfigError> {
    let Some(address) = address(settings)? else {
        return Ok(None);
    };
    let listener = tenure::__cli::listen(address).map_err(|error| {
        let right = "use another port, or port 0 for a free one";
        let reason = format!("can't listen on {address}: {error}; {right}");
        settings.invalid(STATUS_LISTEN, reason)
    })?;
    Ok(Some(listener))
}
