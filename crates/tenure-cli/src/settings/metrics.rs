//! The table `[metrics]`: the settings of metrics.

use std::net::SocketAddr;

use tenure_config::{ConfigError, Settings};
use tenure_server::MetricsConfig;

use crate::logging;

/// The checked settings of metrics.
#[derive(Debug)]
pub(crate) struct MetricsSettings {
    /// The address of the listener for metrics, if there is one.
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) config: MetricsConfig,
}

impl MetricsSettings {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let max_leases = settings.number("metrics.max_leases")?;
        let (leases, expected) = (
            settings.items("metrics.leases", Ok)?,
            settings.items("metrics.expected", Ok)?,
        );
        let config = MetricsConfig::default()
            .with_max_leases(max_leases.unwrap_or_default())
            .with_dropped_log_lines(logging::dropped_lines)
            .with_leases(leases)
            .map_err(|error| settings.invalid("metrics.leases", error.to_string()))?
            .with_expected(expected)
            .map_err(|error| settings.invalid("metrics.expected", error.to_string()))?;
        Ok(Self {
            listen: settings.address("metrics.listen")?,
            config,
        })
    }
}
