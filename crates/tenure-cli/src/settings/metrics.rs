//! The table `[metrics]`: the settings of metrics.

use std::net::SocketAddr;

use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::MetricsConfig;

use super::serve::resolve;
use crate::logging;

/// The default of `max_leases`, and the pattern of all leases.
const MAX_LEASES: usize = 200;
const ALL: &str = "*";

/// The address in examples.
const EXAMPLE: &str = "127.0.0.1:7401";

/// The checked settings of metrics.
#[derive(Debug)]
pub(crate) struct MetricsSettings {
    /// The address of the listener for metrics, if there is one.
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) max_leases: usize,
    pub(crate) leases: Vec<String>,
    pub(crate) expected: Vec<String>,
    pub(crate) config: MetricsConfig,
}

impl MetricsSettings {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let listen = settings.with("metrics.listen", |text| match text {
            "" => Ok(None),
            text => resolve(text, EXAMPLE).map(Some),
        })?;
        let max_leases = settings.number("metrics.max_leases", 0..=100_000)?;
        let max_leases = max_leases.unwrap_or(MAX_LEASES);
        let texts = |key| settings.items(key, |text| Ok(text.to_owned()));
        let (leases, expected) = (texts("metrics.leases")?, texts("metrics.expected")?);
        let leases = match settings.origin("metrics.leases") {
            Some(_) => leases,
            None => vec![ALL.to_owned()],
        };
        let config = MetricsConfig::default()
            .with_max_leases(max_leases)
            .with_dropped_log_lines(logging::dropped_lines)
            .with_leases(leases.iter().map(String::as_str))
            .map_err(|error| settings.invalid("metrics.leases", error.to_string()))?
            .with_expected(expected.iter().map(String::as_str))
            .map_err(|error| settings.invalid("metrics.expected", error.to_string()))?;
        Ok(Self {
            listen: listen.flatten(),
            max_leases,
            leases,
            expected,
            config,
        })
    }
}
