//! The blob whose lease the candidates compete for.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::Url;
use tenure_core::lease::candidate::Timings;
use tenure_core::lease::{LeaseDuration, Rules};

use super::account::AzureAccount;
use crate::protocol;

/// A blob whose lease the candidates of an election compete for. It is in an Azure storage account,
/// in an emulator, or in a lease store that serves this protocol. All candidates of an election
/// must name the same blob, and no other program should lease the blob or write its metadata. A
/// blob that does not exist is created, and so is its container.
///
/// # Examples
///
/// ```
/// use tenure_azure::client::{AzureAccount, AzureBlob};
///
/// let account = AzureAccount::with_connection_string("UseDevelopmentStorage=true")?;
/// let blob = AzureBlob::new(account, "leases", "nightly")?;
/// assert_eq!(blob.url(), "http://127.0.0.1:10000/devstoreaccount1/leases/nightly");
/// # Ok::<(), tenure_azure::client::AzureBlobError>(())
/// ```
#[derive(Clone)]
pub struct AzureBlob {
    pub(super) account: AzureAccount,
    pub(super) container: Url,
    pub(super) blob: Url,
}

/// The reason why the settings allow no election by this blob. The configuration must change. The
/// text contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AzureBlobError {
    /// This is not a valid account name.
    #[error("{0:?} is not an account name: write 3 to 24 lower-case letters and digits")]
    Account(String),
    /// This is not a valid key.
    #[error("the account key is not base64: copy it as the portal shows it")]
    Key,
    /// This is not a valid shared access signature.
    #[error(
        "this is not a shared access signature: write the part after the \"?\" of its URL, with sv=... \
         and sig=..."
    )]
    Signature,
    /// This is not the URL of a blob service.
    #[error(
        "{0} is not the URL of a blob service: write it like https://ACCOUNT.blob.core.windows.net or \
         http://127.0.0.1:10000/ACCOUNT, and name signature, container and blob separately"
    )]
    Url(String),
    /// This part of a connection string is missing or wrong.
    #[error("the connection string has no valid {0}")]
    Part(&'static str),
    /// This is not a valid container name.
    #[error(
        "{0:?} is not a container name: write 3 to 63 lower-case letters, digits and single hyphens"
    )]
    Container(String),
    /// This is not a valid blob name.
    #[error(
        "{0:?} is not a blob name: write 1 to 1024 characters that do not end with \".\" or \"/\", and no \
         part \".\" or \"..\" between slashes"
    )]
    Blob(String),
    /// The service does not grant leases of this duration.
    #[error(
        "Azure grants leases of {least} to {most} whole seconds, not of {0:?}",
        least = Rules::AZURE.min_duration.as_secs(),
        most = Rules::AZURE.max_duration.as_secs()
    )]
    Duration(Duration),
    /// The service supports no lock delay. A lease that has ended can be acquired at once.
    #[error("Azure has no lock delay, and lock_delay is {0:?}: remove it")]
    LockDelay(Duration),
}

impl AzureBlob {
    /// Creates the blob of this name in this container.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`] if one of the names is not valid.
    pub fn new(account: AzureAccount, container: &str, blob: &str) -> Result<Self, AzureBlobError> {
        if !protocol::is_container(container) {
            return Err(AzureBlobError::Container(container.into()));
        }
        let vanishes_in_urls = |part| matches!(part, "." | "..");
        if !protocol::is_blob(blob)
            || blob.ends_with(['.', '/'])
            || blob.split('/').any(vanishes_in_urls)
        {
            return Err(AzureBlobError::Blob(blob.into()));
        }
        let container = below(&account.url, container);
        let blob = below(&container, blob);
        Ok(Self {
            account,
            container,
            blob,
        })
    }

    /// Returns the blob's URL without any credential.
    #[must_use]
    pub fn url(&self) -> &str {
        self.blob.as_str()
    }

    /// Returns the path of the blob's URL.
    #[must_use]
    pub fn path(&self) -> &str {
        self.blob.path()
    }

    /// Returns a warning about settings that are valid but probably a mistake.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let warn = self.account.exposes_signature() && !is_local(&self.blob);
        warn.then(|| {
            format!(
                "plain http beyond this machine ({}): an eavesdropper can use the shared access \
                 signature; use https, or an account key, which is never sent",
                self.account.url
            )
        })
    }

    /// Checks that the service supports leases with these timings.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError::Duration`] or [`AzureBlobError::LockDelay`].
    pub fn check(&self, timings: &Timings, lock_delay: Duration) -> Result<(), AzureBlobError> {
        let duration = timings.lease_duration();
        let is_whole = duration.subsec_nanos() == 0;
        if !(is_whole && Rules::AZURE.allows(LeaseDuration::Fixed(duration))) {
            return Err(AzureBlobError::Duration(duration));
        }
        if !lock_delay.is_zero() {
            return Err(AzureBlobError::LockDelay(lock_delay));
        }
        Ok(())
    }
}

/// Returns whether requests to this URL stay on this machine.
fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Returns the URL with this name appended to the path of another URL.
fn below(url: &Url, name: &str) -> Url {
    let mut below = url.clone();
    // The URL of a blob service contains a host, so it has a path.
    if let Ok(mut segments) = below.path_segments_mut() {
        segments.pop_if_empty().extend(name.split('/'));
    }
    below
}

impl fmt::Debug for AzureBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AzureBlob")
            .field(&self.blob.as_str())
            .finish()
    }
}
