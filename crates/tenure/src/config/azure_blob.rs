//! The settings of the table `[azure_blob]`.

use super::candidate::Config;
use super::settings::{ConfigError, Settings, missing, secret};
use super::{AzureAccount, AzureBlob, AzureBlobError};

const URL: &str = "azure_blob.url";
const ACCOUNT: &str = "azure_blob.account";
const KEY: [&str; 2] = ["azure_blob.key", "azure_blob.key_file"];
const SAS: [&str; 2] = ["azure_blob.sas", "azure_blob.sas_file"];
const CONNECTION_STRING: [&str; 2] = [
    "azure_blob.connection_string",
    "azure_blob.connection_string_file",
];
const CONTAINER: &str = "azure_blob.container";
const BLOB: &str = "azure_blob.blob";

/// The blob of these settings, for a candidate with this configuration.
pub(super) fn of_settings(settings: &Settings, config: &Config) -> Result<AzureBlob, ConfigError> {
    let account = account(settings)?;
    let (container, blob) = (settings.text(CONTAINER)?, settings.text(BLOB)?);
    let election = &config.election;
    let named = AzureBlob::new(
        account,
        container.unwrap_or_else(|| election.namespace().as_str()),
        blob.unwrap_or_else(|| election.name().as_str()),
    );
    let blob = named.map_err(|error| {
        let key = match error {
            AzureBlobError::Container(_) => CONTAINER,
            _ => BLOB,
        };
        if settings.origin(key).is_some() {
            return settings.invalid(key, error.to_string());
        }
        let reason = format!("{error}; name another one as {key}");
        settings.invalid("election", reason)
    })?;
    blob.check(&config.timings, config.lock_delay)
        .map_err(|error| {
            let key = match error {
                AzureBlobError::LockDelay(_) => "lock_delay",
                _ => "lease_duration",
            };
            settings.invalid(key, error.to_string())
        })?;
    Ok(blob)
}

/// The account with its credential: a key, a signature or a connection string.
fn account(settings: &Settings) -> Result<AzureAccount, ConfigError> {
    let text = |[key, key_file]: [&'static str; 2]| {
        secret(settings, key, key_file, |bytes| {
            let text = std::str::from_utf8(bytes).map_err(|_| "must be text".to_owned())?;
            Ok(text.trim().to_owned())
        })
    };
    let (key, sas, connection_string) = (text(KEY)?, text(SAS)?, text(CONNECTION_STRING)?);
    match (key, sas, connection_string) {
        (None, None, None) => {
            let reason = "name a credential of the account: a key (key, key_file), a shared access signature \
                          (sas, sas_file) or a connection_string (connection_string_file) in [azure_blob]; \
                          in the environment such as TENURE_AZURE_BLOB_KEY";
            Err(missing(KEY[0], reason))
        }
        (Some(key), None, None) => {
            let reason = "name the storage account of this key";
            let name = settings
                .text(ACCOUNT)?
                .ok_or_else(|| missing(ACCOUNT, reason))?;
            let account = AzureAccount::with_key(name, &key);
            let account = account.map_err(|error| wrong(settings, &KEY, &error))?;
            match url(settings)? {
                Some(url) => account
                    .with_url(url)
                    .map_err(|error| wrong(settings, &KEY, &error)),
                None => Ok(account),
            }
        }
        (None, Some(sas), None) => {
            let url = match (url(settings)?, settings.text(ACCOUNT)?) {
                (Some(url), _) => url.to_owned(),
                (None, Some(account)) => AzureAccount::public_url(account)
                    .map_err(|error| wrong(settings, &SAS, &error))?,
                (None, None) => {
                    let reason = "name the storage account of the shared access signature, or its address as \
                                  azure_blob.url";
                    return Err(missing(ACCOUNT, reason));
                }
            };
            AzureAccount::with_signature(&url, &sas).map_err(|error| wrong(settings, &SAS, &error))
        }
        (None, None, Some(connection_string)) => {
            let of = settings.first_set(&CONNECTION_STRING);
            for key in [URL, ACCOUNT] {
                if settings.origin(key).is_some() {
                    return Err(settings.one_too_many(key, of));
                }
            }
            AzureAccount::with_connection_string(&connection_string)
                .map_err(|error| settings.invalid(of, error.to_string()))
        }
        (Some(_), Some(_), _) => {
            Err(settings.one_too_many(settings.first_set(&SAS), settings.first_set(&KEY)))
        }
        (key, _, Some(_)) => {
            let other = settings.first_set(if key.is_some() { &KEY } else { &SAS });
            Err(settings.one_too_many(settings.first_set(&CONNECTION_STRING), other))
        }
    }
}

fn url(settings: &Settings) -> Result<Option<&str>, ConfigError> {
    settings.text(URL)
}

/// The error at the key that it belongs to.
fn wrong(settings: &Settings, credential: &[&'static str], error: &AzureBlobError) -> ConfigError {
    match error {
        AzureBlobError::Account(_) => settings.invalid(ACCOUNT, error.to_string()),
        AzureBlobError::Url(_) => invalid_url(settings, error.to_string()),
        _ => settings.invalid(settings.first_set(credential), error.to_string()),
    }
}

/// A URL with a signature or a password in it is not shown.
fn invalid_url(settings: &Settings, reason: String) -> ConfigError {
    let may_be_secret = |text: &str| text.contains(['?', '@']);
    match settings.invalid(URL, reason) {
        ConfigError::Invalid {
            origin,
            key,
            value,
            reason,
        } if may_be_secret(&value) => ConfigError::Invalid {
            origin,
            key,
            value: "(secret)".into(),
            reason,
        },
        error => error,
    }
}
