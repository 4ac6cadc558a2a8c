//! The blob whose lease is competed for.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use tenure_azure::protocol;
use tenure_core::ElectionName;
use tenure_core::lease::candidate::Timings;
use tenure_core::lease::{LeaseDuration, Rules};

use super::account::AzureAccount;

/// A blob whose lease is competed for: on an Azure storage account, on an emulator, or on a lease store that
/// speaks this protocol. All candidates of an election must have the same blob, and nothing else should
/// lease it or write its metadata. It is made if it is not there, and so is its container.
///
/// # Examples
///
/// ```
/// use tenure::config::{AzureAccount, AzureBlob, Strategy};
/// use tenure::Config;
///
/// let account = AzureAccount::with_connection_string("UseDevelopmentStorage=true")?;
/// let blob = AzureBlob::new(account, "leases", "nightly")?;
/// let config = Config::new("billing/nightly".parse()?).with_strategy(Strategy::AzureBlob(blob));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AzureBlob {
    account: AzureAccount,
    container: Url,
    blob: Url,
}

/// Why there can't be an election by this blob. Whoever configured it must change it. Nothing secret is told
/// back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AzureBlobError {
    /// No account has such a name.
    #[error("an account has 3 to 24 lower-case letters and digits, and not {0:?}")]
    Account(String),
    /// This is no key.
    #[error("a key of an account is base64, as the portal shows it, and this is none")]
    Key,
    /// This is no shared access signature.
    #[error(
        "a shared access signature is what follows the \"?\" of its URL, with sv=... and sig=..., and this \
         is none"
    )]
    Signature,
    /// This is no address of a blob service.
    #[error(
        "{0} is no address of a blob service: write it like https://ACCOUNT.blob.core.windows.net or \
         http://127.0.0.1:10000/ACCOUNT, and a signature, container and blob apart from it"
    )]
    Url(Url),
    /// This part of a connection string is missing or wrong.
    #[error("a connection string needs a right {0}")]
    Part(&'static str),
    /// No container has such a name.
    #[error(
        "a container has 3 to 63 lower-case letters, digits and single hyphens between them, and not {0:?}"
    )]
    Container(String),
    /// No blob has such a name.
    #[error(
        "a blob has 1 to 1024 characters, does not end with \".\" or \"/\" and has no part \".\" or \"..\" \
         between slashes: {0:?}"
    )]
    Blob(String),
    /// The service grants no lease of this duration.
    #[error(
        "Azure grants leases of {least} to {most} whole seconds, and not of {0:?}",
        least = Rules::AZURE.min_duration.as_secs(),
        most = Rules::AZURE.max_duration.as_secs()
    )]
    Duration(Duration),
    /// The service grants the lease at once, whatever ended the last term.
    #[error("Azure has no lock delay, and it is {0:?}: leave it out")]
    LockDelay(Duration),
}

impl AzureBlob {
    /// The blob of this name in this container.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`]: there can't be such a container or blob.
    pub fn new(account: AzureAccount, container: &str, blob: &str) -> Result<Self, AzureBlobError> {
        if !protocol::is_container(container) {
            return Err(AzureBlobError::Container(container.into()));
        }
        let is_lost_in_urls = |part| matches!(part, "." | "..");
        if !protocol::is_blob(blob)
            || blob.ends_with(['.', '/'])
            || blob.split('/').any(is_lost_in_urls)
        {
            return Err(AzureBlobError::Blob(blob.into()));
        }
        let container = below(account.url(), container);
        let blob = below(&container, blob);
        Ok(Self {
            account,
            container,
            blob,
        })
    }

    /// The blob with the election's name, in the container with the name of its namespace.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`]: there can't be such a container.
    pub fn of_election(
        account: AzureAccount,
        election: &ElectionName,
    ) -> Result<Self, AzureBlobError> {
        let (container, blob) = (election.namespace(), election.name());
        Self::new(account, container.as_str(), blob.as_str())
    }

    /// Where it is. Nothing secret is in it.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.blob
    }

    /// What works and is hardly meant.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let warn = self.account.is_open_to_listeners() && crate::config::is_bare(&self.blob);
        warn.then(|| {
            format!(
                "plain http beyond this machine ({}): whoever listens can use the shared access signature; \
                 use https, or a key, which signs and is never sent",
                self.account.url()
            )
        })
    }

    /// Whether there can be such an election by it.
    ///
    /// # Errors
    ///
    /// [`AzureBlobError`]: its lease can't last so long, or can't be delayed.
    pub(crate) fn check(
        &self,
        timings: &Timings,
        lock_delay: Duration,
    ) -> Result<(), AzureBlobError> {
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

    pub(super) const fn account(&self) -> &AzureAccount {
        &self.account
    }

    pub(super) const fn container(&self) -> &Url {
        &self.container
    }
}

/// The URL of what has this name below another.
fn below(url: &Url, name: &str) -> Url {
    let mut below = url.clone();
    // An address of a blob service has a host, so it has a path.
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
