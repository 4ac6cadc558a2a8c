//! The table `[azure]`: the Azure Blob lease protocol of the store.

use std::fs;

use tenure_azure::server::{AzureBearer, AzureConfig, AzureConfigError, ServedAccount};
use tenure_config::{ConfigError, Settings};

use super::limits;

/// The flags that enable the protocol, beside the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AzureFlags {
    pub(crate) azure: bool,
    /// Also the well-known account of emulators.
    pub(crate) azure_dev: bool,
}

/// The configuration of the protocol, if a flag or a setting enables it.
pub(super) fn checked(
    settings: &Settings,
    flags: AzureFlags,
    over_tls: bool,
) -> Result<Option<AzureConfig>, ConfigError> {
    if !(flags.azure || flags.azure_dev || settings.has_table("azure")) {
        return Ok(None);
    }
    let mut config = config(settings)?;
    config.over_tls = over_tls;
    if flags.azure_dev {
        config.accounts.push(ServedAccount::development());
    }
    check(settings, &config)?;
    Ok(Some(config))
}

/// The configuration of the protocol. [`check`] checks it when it is complete.
pub(crate) fn config(settings: &Settings) -> Result<AzureConfig, ConfigError> {
    settings.warn_of_inline("azure.accounts");
    let accounts = settings.items("azure.accounts", account)?;
    let mut config = AzureConfig::new(accounts);
    limits::read(settings, "azure", config.limits())?;
    config.behind_tls = settings.flag("azure.behind_tls")?;
    config.bearer = bearer(settings)?;
    Ok(config)
}

/// Accounts are written as `NAME:KEY` or `NAME:KEY:KEY`.
fn account(text: &str) -> Result<ServedAccount, String> {
    let mut parts = text.split(':').map(str::trim);
    let name = parts.next().unwrap_or_default();
    ServedAccount::new(name, parts)
        .map_err(|error| format!("{error}; write NAME:KEY, or NAME:KEY:KEY while keys are rotated"))
}

fn bearer(settings: &Settings) -> Result<Option<AzureBearer>, ConfigError> {
    let Some(path) = settings.path("azure.bearer_keys")? else {
        return Ok(None);
    };
    let invalid = |error: String| settings.invalid("azure.bearer_keys", error);
    let keys = fs::read_to_string(path).map_err(|error| invalid(error.to_string()))?;
    let issuer = settings.text("azure.bearer_issuer")?;
    let reason = "tokens are accepted from one issuer: set it to the value of their claim iss";
    let issuer = issuer.ok_or_else(|| ConfigError::missing("bearer_issuer", reason))?;
    let audience = settings.text("azure.bearer_audience")?;
    AzureBearer::new(&keys, issuer, audience.unwrap_or_default())
        .map(Some)
        .map_err(|error| invalid(error.to_string()))
}

/// Checks a configuration with all of its accounts.
fn check(settings: &Settings, config: &AzureConfig) -> Result<(), ConfigError> {
    config.check().map_err(|error| {
        let key = match &error {
            AzureConfigError::NoAccount => {
                let reason = "list accounts in the table [azure] of the configuration file or in \
                              TENURE_AZURE_ACCOUNTS, each as NAME:KEY; or use --azure-dev";
                return ConfigError::missing("accounts", reason);
            }
            AzureConfigError::BearerInTheOpen => "azure.bearer_keys",
            _ => "azure.accounts",
        };
        settings.invalid(key, error.to_string())
    })
}
