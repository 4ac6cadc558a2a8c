//! The settings of the table `[azure_blob]`.

use tenure_config::{ConfigError, Settings};

use super::candidate::Config;
use super::{AzureAccount, AzureBlob, AzureBlobError};

const URL: &str = "azure_blob.url";
const ACCOUNT: &str = "azure_blob.account";
const KEY: &str = "azure_blob.key";
const SAS: &str = "azure_blob.sas";
const CONNECTION_STRING: &str = "azure_blob.connection_string";
const CONTAINER: &str = "azure_blob.container";
const BLOB: &str = "azure_blob.blob";

/// Returns the blob of these settings, for a candidate with this configuration.
pub(super) fn of_settings(settings: &Settings, config: &Config) -> Result<AzureBlob, ConfigError> {
    let account = account(settings)?;
    let (container, blob) = (settings.text(CONTAINER)?, settings.text(BLOB)?);
    let election = &config.election;
    let named = AzureBlob::new(
        account,
        container.unwrap_or_else(|| election.namespace.as_str()),
        blob.unwrap_or_else(|| election.name.as_str()),
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

/// Returns the account with its credential: a key, a signature or a connection string.
fn account(settings: &Settings) -> Result<AzureAccount, ConfigError> {
    let mut credentials = Vec::new();
    for kind in [KEY, SAS, CONNECTION_STRING] {
        let secret = settings.secret(kind, |bytes| {
            let text = std::str::from_utf8(bytes).map_err(|_| "must be text".to_owned())?;
            Ok(text.trim().to_owned())
        })?;
        credentials.extend(secret.map(|(of, text)| (kind, of, text)));
    }
    let (kind, of, credential) = match &credentials[..] {
        [credential] => credential,
        [(_, first, _), (_, second, _), ..] => {
            return Err(settings.one_too_many(second, first));
        }
        [] => {
            let reason = "name a credential of the account: a key (key, key_file), a shared access signature \
                          (sas, sas_file) or a connection_string (connection_string_file) in [azure_blob]; \
                          in the environment such as TENURE_AZURE_BLOB_KEY";
            return Err(ConfigError::missing(KEY, reason));
        }
    };
    let (url, name) = (settings.text(URL)?, settings.text(ACCOUNT)?);
    let named = |reason| name.ok_or_else(|| ConfigError::missing(ACCOUNT, reason));
    let account = match *kind {
        KEY => {
            let account =
                AzureAccount::with_key(named("name the storage account of this key")?, credential);
            match url {
                Some(url) => account.and_then(|account| account.with_url(url)),
                None => account,
            }
        }
        SAS => {
            let reason = "name the storage account of the shared access signature, or its address as \
                          azure_blob.url";
            let url = match url {
                Some(url) => Ok(url.to_owned()),
                None => AzureAccount::public_url(named(reason)?),
            };
            url.and_then(|url| AzureAccount::with_signature(&url, credential))
        }
        _ => {
            let set = [URL, ACCOUNT]
                .into_iter()
                .find(|key| settings.origin(key).is_some());
            if let Some(key) = set {
                return Err(settings.one_too_many(key, of));
            }
            return AzureAccount::with_connection_string(credential)
                .map_err(|error| settings.invalid(of, error.to_string()));
        }
    };
    account.map_err(|error| match error {
        AzureBlobError::Account(_) => settings.invalid(ACCOUNT, error.to_string()),
        AzureBlobError::Url(_) => invalid_url(settings, error.to_string()),
        _ => settings.invalid(of, error.to_string()),
    })
}

/// Returns the error for an invalid URL. The error hides a URL that contains a signature or a
/// password.
fn invalid_url(settings: &Settings, reason: String) -> ConfigError {
    let mut invalid = settings.invalid(URL, reason);
    if let ConfigError::Invalid { value, .. } = &mut invalid
        && value.contains(['?', '@'])
    {
        *value = "(secret)".into();
    }
    invalid
}
