//! The table `[azure]`: the Azure Blob lease protocol of the store.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tenure::__cli::{Scope, Settings};
use tenure::config::ConfigError;
use tenure_azure::server::{AzureBearer, AzureConfig, AzureConfigError, ServedAccount};

use super::{limits, tls};

pub(crate) const SCOPE: Scope = Scope::Table("azure");

/// Checks the table of a file, if the file has it.
pub(crate) fn check_file(path: &Path) -> Result<(), ConfigError> {
    let settings = Settings::of_file(SCOPE, path)?;
    if settings.is_empty() {
        return Ok(());
    }
    let mut config = config(&settings)?;
    config.over_tls = !Settings::of_file(tls::SCOPE, path)?.is_empty();
    // The accounts may be in the environment of the store.
    if config.accounts.is_empty() {
        return Ok(());
    }
    check(&settings, &config)
}

/// Each key with its value in effect, without the keys of accounts; all values are checked.
pub(crate) fn values(settings: &Settings) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    let mut config = config(settings)?;
    let names: Vec<&str> = config.accounts.iter().map(ServedAccount::name).collect();
    let mut values = vec![("accounts", names.into())];
    values.extend(limits::values(config.limits()));
    values.extend([
        ("behind_tls", config.behind_tls.into()),
        ("bearer_keys", settings.text("bearer_keys")?.into()),
        ("bearer_issuer", settings.text("bearer_issuer")?.into()),
        ("bearer_audience", audience(settings)?.into()),
    ]);
    Ok(values)
}

/// The configuration of the protocol. [`check`] checks it when it is complete.
pub(crate) fn config(settings: &Settings) -> Result<AzureConfig, ConfigError> {
    let accounts = settings.items("accounts", account)?;
    let mut config = AzureConfig::new(accounts);
    limits::read(settings, config.limits())?;
    config.behind_tls = settings.flag("behind_tls")?.unwrap_or_default();
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
    let Some(path) = settings.text("bearer_keys")? else {
        return Ok(None);
    };
    let invalid = |error: String| settings.invalid("bearer_keys", error);
    let keys = fs::read_to_string(path).map_err(|error| invalid(error.to_string()))?;
    let issuer = settings.text("bearer_issuer")?;
    let reason = "tokens are accepted from one issuer: set it to the value of their claim iss";
    let issuer = issuer.ok_or_else(|| ConfigError::missing("bearer_issuer", reason))?;
    AzureBearer::new(&keys, issuer, audience(settings)?)
        .map(Some)
        .map_err(|error| invalid(error.to_string()))
}

fn audience(settings: &Settings) -> Result<&str, ConfigError> {
    let audience = settings.text("bearer_audience")?;
    Ok(audience.unwrap_or(AzureBearer::AUDIENCE))
}

/// Checks a configuration with all of its accounts.
pub(crate) fn check(settings: &Settings, config: &AzureConfig) -> Result<(), ConfigError> {
    config.check().map_err(|error| {
        let key = match &error {
            AzureConfigError::NoAccount => {
                let reason = "list accounts in the table [azure] of the configuration file or in \
                              TENURE_AZURE_ACCOUNTS, each as NAME:KEY; or use --azure-dev";
                return ConfigError::missing("accounts", reason);
            }
            AzureConfigError::Limit(error) => error.name(),
            AzureConfigError::BearerInTheOpen => "bearer_keys",
            _ => "accounts",
        };
        settings.invalid(key, error.to_string())
    })
}
