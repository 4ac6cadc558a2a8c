//! The settings of the Azure Blob lease protocol: the table `[azure]`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use tenure::config::{ConfigError, Origin, Settings};
use tenure_azure::server::{AzureAccount, AzureBearer, AzureConfig};

use crate::cli::Serve;
use crate::section::Section;
use crate::tls;

pub(crate) const SECTION: Section = Section {
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

/// What a wrong value of secrets is shown as.
const SECRET: &str = "(secret)";

/// What `tenure serve` is to speak to Azure's clients with, if it is to.
pub(crate) fn of(
    arguments: &Serve,
    listen: SocketAddr,
    over_tls: bool,
) -> Result<Option<AzureConfig>, ConfigError> {
    let settings = SECTION.of_environment(arguments.config.as_deref())?;
    if arguments.azure_dev && !listen.ip().is_loopback() {
        return Err(ConfigError::Invalid {
            origin: Origin::Flag("--azure-dev".into()),
            key: "listen".into(),
            value: listen.to_string(),
            reason: "everybody has the key of the development account: it needs a loopback address"
                .into(),
        });
    }
    if !(arguments.azure || arguments.azure_dev || SECTION.is_set(&settings)) {
        return Ok(None);
    }
    let mut config = config(&settings)?;
    config.over_tls = over_tls;
    if arguments.azure_dev {
        config.accounts.push(AzureAccount::development());
    }
    check(&settings, &config)?;
    Ok(Some(config))
}

/// Checks the table of a file, if it is there.
pub(crate) fn check_file(path: &Path) -> Result<(), ConfigError> {
    let settings = SECTION.of_file(path)?;
    if SECTION.is_set(&settings) {
        let mut config = config(&settings)?;
        config.over_tls = tls::SECTION.is_set(&tls::SECTION.of_file(path)?);
        // Accounts may stand in the environment.
        if !config.accounts.is_empty() {
            check(&settings, &config)?;
        }
    }
    Ok(())
}

/// Checks the values, and gives each key with what it is now. Keys of accounts are left out.
pub(crate) fn values(settings: &Settings) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    let config = config(settings)?;
    let names = config
        .accounts
        .iter()
        .map(|account| account.name().to_owned());
    let text = |key| {
        let value = settings.text(key)?.map(Value::from);
        Ok((key, value.unwrap_or_default()))
    };
    Ok(vec![
        ("accounts", names.collect::<Vec<_>>().into()),
        ("max_blob_bytes", config.max_blob_bytes.into()),
        ("max_total_bytes", config.max_total_bytes.into()),
        ("max_uncommitted_bytes", config.max_uncommitted_bytes.into()),
        (
            "uncommitted_time",
            humantime::format_duration(config.uncommitted_time)
                .to_string()
                .into(),
        ),
        ("behind_tls", config.behind_tls.into()),
        text("bearer_keys")?,
        text("bearer_issuer")?,
        ("bearer_audience", audience(settings)?.into()),
    ])
}

fn config(settings: &Settings) -> Result<AzureConfig, ConfigError> {
    let mut config = AzureConfig::new(accounts(settings)?);
    if let Some(most) = settings.number("max_blob_bytes", AzureConfig::BLOB_BYTES)? {
        config.max_blob_bytes = most;
    }
    if let Some(most) = settings.number("max_total_bytes", AzureConfig::TOTAL_BYTES)? {
        config.max_total_bytes = most;
    }
    let range = AzureConfig::UNCOMMITTED_BYTES;
    if let Some(most) = settings.number("max_uncommitted_bytes", range)? {
        config.max_uncommitted_bytes = most;
    }
    if let Some(time) = settings.duration("uncommitted_time")? {
        config.uncommitted_time = time;
    }
    config.behind_tls = settings.flag("behind_tls")?.unwrap_or_default();
    config.bearer = bearer(settings)?;
    Ok(config)
}

/// `NAME:KEY` or `NAME:KEY:KEY`.
fn accounts(settings: &Settings) -> Result<Vec<AzureAccount>, ConfigError> {
    let account = |text: &str| {
        let mut parts = text.split(':').map(str::trim);
        let name = parts.next().unwrap_or_default();
        AzureAccount::new(name, parts).map_err(|error| {
            secret(
                settings,
                format!("{error}; write NAME:KEY, or NAME:KEY:KEY while keys are changed"),
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
    let keys = fs::read_to_string(path)
        .map_err(|error| settings.invalid("bearer_keys", error.to_string()))?;
    let issuer = settings.text("bearer_issuer")?;
    let issuer = issuer.ok_or_else(|| ConfigError::Missing {
        key: "bearer_issuer",
        reason: "tokens are taken of one issuer only: name the value of their claim iss".into(),
    })?;
    AzureBearer::new(&keys, issuer, audience(settings)?)
        .map(Some)
        .map_err(|error| settings.invalid("bearer_keys", error.to_string()))
}

fn audience(settings: &Settings) -> Result<&str, ConfigError> {
    let audience = settings.text("bearer_audience")?;
    Ok(audience.unwrap_or(AzureBearer::AUDIENCE))
}

fn check(settings: &Settings, config: &AzureConfig) -> Result<(), ConfigError> {
    use tenure_azure::server::AzureConfigError as Wrong;
    config.check().map_err(|error| match error {
        Wrong::NoAccount => ConfigError::Missing {
            key: "accounts",
            reason: "name accounts in the table [azure] of the configuration file or in \
                     TENURE_AZURE_ACCOUNTS, each as NAME:KEY; or use --azure-dev"
                .into(),
        },
        Wrong::Limit { name, .. } | Wrong::Time { name, .. } => {
            settings.invalid(name, error.to_string())
        }
        Wrong::BearerInTheOpen => settings.invalid("bearer_keys", error.to_string()),
        error => secret(settings, error.to_string()),
    })
}

/// What is wrong with accounts. Their value is never shown.
fn secret(settings: &Settings, reason: String) -> ConfigError {
    let origin = settings.origin("accounts").cloned();
    ConfigError::Invalid {
        origin: origin.unwrap_or_else(|| Origin::Flag("--azure-dev".into())),
        key: "accounts".into(),
        value: SECRET.into(),
        reason,
    }
}
