//! The table `[azure]`: the Azure Blob lease protocol of the store.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use humantime::format_duration;
use serde_json::Value;
use tenure::__cli::Settings;
use tenure::config::{ConfigError, Origin};
use tenure_azure::server::{AzureBearer, AzureConfig, ServedAccount};

use super::table::SettingsTable;
use super::tls;

pub(crate) const TABLE: SettingsTable = SettingsTable {
    name: "azure",
    prefix: "TENURE_AZURE_",
    keys: &[
        "accounts",
        "max_blob_bytes",
        "max_total_bytes",
        "max_uncommitted_bytes",
        "uncommitted_time",
        "behind_tls",
        "bearer_keys",
        "bearer_issuer",
        "bearer_audience",
    ],
};

/// Which accounts a flag of `tenure serve` enables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accounts {
    /// No flag: those of the settings, if there are any.
    IfSet,
    /// `--azure`: those of the settings.
    OfSettings,
    /// `--azure-dev`: those of the settings, and the development account.
    Development,
}

/// The configuration of the protocol, if the store is to speak it.
pub(crate) fn open(
    settings: &Settings,
    accounts: Accounts,
    listen: SocketAddr,
    over_tls: bool,
) -> Result<Option<AzureConfig>, ConfigError> {
    if accounts == Accounts::Development && !listen.ip().is_loopback() {
        return Err(ConfigError::Invalid {
            origin: Origin::Flag("--azure-dev".into()),
            key: "listen".into(),
            value: listen.to_string(),
            reason: "the key of the development account is public: it needs a loopback address"
                .into(),
        });
    }
    if accounts == Accounts::IfSet && !TABLE.is_set(settings) {
        return Ok(None);
    }
    let mut config = config(settings)?;
    config.over_tls = over_tls;
    if accounts == Accounts::Development {
        config.accounts.push(ServedAccount::development());
    }
    check(settings, &config)?;
    Ok(Some(config))
}

/// Checks the table of a file, if the file has it.
pub(crate) fn check_file(path: &Path) -> Result<(), ConfigError> {
    let settings = TABLE.read_file(path)?;
    if TABLE.is_set(&settings) {
        let mut config = config(&settings)?;
        config.over_tls = tls::TABLE.is_set(&tls::TABLE.read_file(path)?);
        // The accounts may be in the environment of the store.
        if !config.accounts.is_empty() {
            check(&settings, &config)?;
        }
    }
    Ok(())
}

/// Each key with its value in effect, without the keys of accounts; all values are checked.
pub(crate) fn values(settings: &Settings) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    let config = config(settings)?;
    let names = config
        .accounts
        .iter()
        .map(|account| account.name().to_owned());
    let uncommitted_time = format_duration(config.uncommitted_time).to_string();
    Ok(vec![
        ("accounts", names.collect::<Vec<_>>().into()),
        ("max_blob_bytes", config.max_blob_bytes.into()),
        ("max_total_bytes", config.max_total_bytes.into()),
        ("max_uncommitted_bytes", config.max_uncommitted_bytes.into()),
        ("uncommitted_time", uncommitted_time.into()),
        ("behind_tls", config.behind_tls.into()),
        ("bearer_keys", settings.text("bearer_keys")?.into()),
        ("bearer_issuer", settings.text("bearer_issuer")?.into()),
        ("bearer_audience", audience(settings)?.into()),
    ])
}

fn config(settings: &Settings) -> Result<AzureConfig, ConfigError> {
    let mut config = AzureConfig::new(accounts(settings)?);
    for (key, range, value) in [
        (
            "max_blob_bytes",
            AzureConfig::BLOB_BYTES,
            &mut config.max_blob_bytes,
        ),
        (
            "max_total_bytes",
            AzureConfig::TOTAL_BYTES,
            &mut config.max_total_bytes,
        ),
        (
            "max_uncommitted_bytes",
            AzureConfig::UNCOMMITTED_BYTES,
            &mut config.max_uncommitted_bytes,
        ),
    ] {
        *value = settings.number(key, range)?.unwrap_or(*value);
    }
    let time = settings.duration("uncommitted_time")?;
    config.uncommitted_time = time.unwrap_or(config.uncommitted_time);
    config.behind_tls = settings.flag("behind_tls")?.unwrap_or_default();
    config.bearer = bearer(settings)?;
    Ok(config)
}

/// Accounts are written as `NAME:KEY` or `NAME:KEY:KEY`.
fn accounts(settings: &Settings) -> Result<Vec<ServedAccount>, ConfigError> {
    let account = |text: &str| {
        let mut parts = text.split(':').map(str::trim);
        let name = parts.next().unwrap_or_default();
        ServedAccount::new(name, parts).map_err(|error| {
            invalid_accounts(
                settings,
                format!("{error}; write NAME:KEY, or NAME:KEY:KEY while keys are rotated"),
            )
        })
    };
    let accounts = settings.texts("accounts")?.into_iter();
    accounts
        .filter(|text| !text.is_empty())
        .map(account)
        .collect()
}

fn bearer(settings: &Settings) -> Result<Option<AzureBearer>, ConfigError> {
    let Some(path) = settings.text("bearer_keys")? else {
        return Ok(None);
    };
    let invalid = |error: String| settings.invalid("bearer_keys", error);
    let keys = fs::read_to_string(path).map_err(|error| invalid(error.to_string()))?;
    let issuer = settings.text("bearer_issuer")?;
    let issuer = issuer.ok_or_else(|| ConfigError::Missing {
        key: "bearer_issuer",
        reason: "tokens are accepted from one issuer: set it to the value of their claim iss"
            .into(),
    })?;
    AzureBearer::new(&keys, issuer, audience(settings)?)
        .map(Some)
        .map_err(|error| invalid(error.to_string()))
}

fn audience(settings: &Settings) -> Result<&str, ConfigError> {
    let audience = settings.text("bearer_audience")?;
    Ok(audience.unwrap_or(AzureBearer::AUDIENCE))
}

fn check(settings: &Settings, config: &AzureConfig) -> Result<(), ConfigError> {
    use tenure_azure::server::AzureConfigError;
    config.check().map_err(|error| match error {
        AzureConfigError::NoAccount => ConfigError::Missing {
            key: "accounts",
            reason: "list accounts in the table [azure] of the configuration file or in \
                     TENURE_AZURE_ACCOUNTS, each as NAME:KEY; or use --azure-dev"
                .into(),
        },
        AzureConfigError::Limit { name, .. } | AzureConfigError::Time { name, .. } => {
            settings.invalid(name, error.to_string())
        }
        AzureConfigError::BearerInTheOpen => settings.invalid("bearer_keys", error.to_string()),
        error => invalid_accounts(settings, error.to_string()),
    })
}

/// An error in accounts, without their value, which has keys.
fn invalid_accounts(settings: &Settings, reason: String) -> ConfigError {
    let origin = settings.origin("accounts").cloned();
    ConfigError::Invalid {
        origin: origin.unwrap_or_else(|| Origin::Flag("--azure-dev".into())),
        key: "accounts".into(),
        value: "(secret)".into(),
        reason,
    }
}
