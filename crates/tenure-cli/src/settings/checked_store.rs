//! All settings of the store, checked as its start needs them.

use tenure_azure::server::AzureConfig;
use tenure_config::{ConfigError, Settings};
use tenure_server::Tls;
use tenure_server::audit::AuditConfig;

use super::access::AccessSettings;
use super::azure::{self, AzureFlags};
use super::metrics::MetricsSettings;
use super::serve::StoreSettings;
use super::{audit, cluster, tls};

/// The checked settings of the store. `tenure serve` starts with them, and `tenure config` shows and
/// checks them, so that both accept the same files.
#[derive(Debug)]
pub(crate) struct CheckedStore {
    pub(crate) serve: StoreSettings,
    pub(crate) tls: Option<Tls>,
    pub(crate) access: AccessSettings,
    pub(crate) metrics: MetricsSettings,
    /// `None` if there is no audit log.
    pub(crate) audit: Option<AuditConfig>,
    /// `None` if the Azure Blob lease protocol is not served.
    pub(crate) azure: Option<AzureConfig>,
}

impl CheckedStore {
    pub(crate) fn new(settings: &Settings, azure: AzureFlags) -> Result<Self, ConfigError> {
        let serve = StoreSettings::new(settings)?;
        if let Some(cluster) = &serve.cluster {
            cluster::check(settings, cluster)?;
        }
        let tls = tls::open(settings)?;
        let azure = azure::checked(settings, azure, tls.is_some())?;
        Ok(Self {
            serve,
            tls,
            access: AccessSettings::new(settings)?,
            metrics: MetricsSettings::new(settings)?,
            audit: audit::checked(settings)?,
            azure,
        })
    }
}
