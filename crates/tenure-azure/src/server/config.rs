//! The configuration of the protocol.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::protocol::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, is_account};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tenure_core::lease::Owner;
use tenure_server::access::BearerTokens;
use tenure_server::{LimitError, LimitSetting, is_native};

use super::blobs::StagedLimits;

/// The configuration of [`Azure`](super::Azure).
#[derive(Clone, Debug)]
pub struct AzureConfig {
    /// The accounts that may use the protocol. Each account has its own containers.
    pub accounts: Vec<ServedAccount>,
    /// The greatest size of a blob, in bytes. Default 256 KiB, because a blob only describes its
    /// lease here. Beyond this limit: 413 `RequestBodyTooLarge`.
    pub max_blob_bytes: usize,
    /// The greatest size of all containers and blobs, with their names and metadata, in bytes of
    /// memory and of disk. Default 64 MiB. Beyond this limit: 413 `RequestBodyTooLarge`.
    pub max_total_bytes: usize,
    /// The greatest size of all uncommitted blocks, with their names and ids and 256 bytes for
    /// each, in bytes of memory. Default 16 MiB. Beyond this limit: 503 `ServerBusy`. The blocks of
    /// one blob may have twice [`max_blob_bytes`](Self::max_blob_bytes), so that an interrupted
    /// upload can start again.
    pub max_uncommitted_bytes: usize,
    /// The time for which the uncommitted blocks of a blob stay after the last one arrived. Default
    /// 10 minutes.
    pub uncommitted_time: Duration,
    /// The keys that sign bearer tokens. A valid token gives access to all accounts. Default: none.
    pub bearer: Option<AzureBearer>,
    /// Whether the server itself uses TLS ([`Server::with_tls`](tenure_server::Server::with_tls)).
    /// Default: no. Without TLS the server accepts no bearer tokens, because an eavesdropper could
    /// use them, and no shared access signatures that are restricted to https.
    pub over_tls: bool,
    /// Whether a proxy in front of the store terminates TLS for all requests. Default: no. The
    /// server then knows only the address of the proxy, so it refuses shared access signatures that
    /// are restricted to certain addresses.
    pub behind_tls: bool,
    /// Whether a request without a credential has all permissions. This is only for a benchmark, so
    /// the command has no setting for it.
    #[doc(hidden)]
    pub unguarded: bool,
}

/// An account's name and its keys.
#[derive(Clone)]
pub struct ServedAccount {
    pub(super) name: String,
    pub(super) keys: Vec<hmac::Key>,
    /// The owner of the leases of the account: `azure:NAME`. No principal has such a name.
    pub(super) owner: Owner,
}

/// The key set, the issuer and the audience of accepted bearer tokens.
#[derive(Clone, Debug)]
pub struct AzureBearer(BearerTokens);

/// An account or the keys of bearer tokens are wrong. No message has a key in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AzureConfigError {
    /// The name of the account is invalid.
    #[error("account {0:?} must have 3 to 24 lower-case letters and digits")]
    Name(String),
    /// The path of the account belongs to the native API.
    #[error(
        "account {0:?} has the name of a path of the store itself: requests for /{0} would not come \
         to the account; choose another name"
    )]
    Reserved(String),
    /// The account has no key, or more than two.
    #[error("account {name} has {count} keys and must have one or two")]
    Keys {
        /// The account.
        name: String,
        /// The number of keys.
        count: usize,
    },
    /// A key is invalid.
    #[error("account {name}: key {number} must be base64 of 16 bytes at least")]
    Key {
        /// The account.
        name: String,
        /// The number of the key, from 1.
        number: usize,
    },
    /// The account is duplicate.
    #[error("account {0} is duplicate")]
    Twice(String),
    /// There is no account.
    #[error("there is no account: no client could use the protocol")]
    NoAccount,
    /// Bearer tokens would be readable on the network.
    #[error(
        "bearer tokens need TLS: give the store a certificate, or put a proxy that ends it in front and \
         set behind_tls"
    )]
    BearerInTheOpen,
    /// A limit is outside of its allowed range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The keys of bearer tokens are invalid.
    #[error("the key set of bearer tokens is invalid: {0}")]
    KeySet(String),
}

impl AzureConfig {
    /// Creates the configuration with these accounts and the default limits.
    #[must_use]
    pub const fn new(accounts: Vec<ServedAccount>) -> Self {
        Self {
            accounts,
            max_blob_bytes: 256 * 1024,
            max_total_bytes: 64 * 1024 * 1024,
            max_uncommitted_bytes: 16 * 1024 * 1024,
            uncommitted_time: Duration::from_secs(10 * 60),
            bearer: None,
            over_tls: false,
            behind_tls: false,
            unguarded: false,
        }
    }

    /// Returns the limits by the names of their settings. All of them limit memory. The uncommitted
    /// time is at most the service's, which is one week.
    pub fn limits(&mut self) -> [(&'static str, LimitSetting<'_>); 4] {
        use LimitSetting::{Count, Time};
        let times = Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 60 * 60);
        let (blob, total) = (1024..=64 << 20, 1024..=1 << 30);
        [
            ("max_blob_bytes", Count(&mut self.max_blob_bytes, blob)),
            (
                "max_total_bytes",
                Count(&mut self.max_total_bytes, total.clone()),
            ),
            (
                "max_uncommitted_bytes",
                Count(&mut self.max_uncommitted_bytes, total),
            ),
            ("uncommitted_time", Time(&mut self.uncommitted_time, times)),
        ]
    }

    /// Checks the configuration.
    ///
    /// # Errors
    ///
    /// [`AzureConfigError`] names the first error.
    pub fn check(&self) -> Result<(), AzureConfigError> {
        if self.accounts.is_empty() {
            return Err(AzureConfigError::NoAccount);
        }
        let mut names = BTreeSet::new();
        for account in &self.accounts {
            if !names.insert(&account.name) {
                return Err(AzureConfigError::Twice(account.name.clone()));
            }
        }
        if self.bearer.is_some() && !(self.over_tls || self.behind_tls) {
            return Err(AzureConfigError::BearerInTheOpen);
        }
        for (name, limit) in self.clone().limits() {
            limit.check(name)?;
        }
        Ok(())
    }

    pub(super) const fn staged(&self) -> StagedLimits {
        StagedLimits {
            blob_bytes: 2 * self.max_blob_bytes as u64,
            total_bytes: self.max_uncommitted_bytes as u64,
            time: self.uncommitted_time,
        }
    }
}

impl ServedAccount {
    /// The well-known account of emulators. **Its key is public**, so use it only for development
    /// and on a loopback address.
    pub const DEVELOPMENT: &str = DEVELOPMENT_ACCOUNT;

    /// The greatest number of keys of an account, an old key and a new one.
    pub(super) const MAX_KEYS: usize = 2;

    /// Creates an account with one or two keys, in base64. With two keys, clients can change from
    /// one to the other.
    ///
    /// # Errors
    ///
    /// [`AzureConfigError`].
    pub fn new<'a>(
        name: &str,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, AzureConfigError> {
        let name = name.to_owned();
        if !name.is_empty() && is_native(&name) {
            return Err(AzureConfigError::Reserved(name));
        }
        if !is_account(&name) {
            return Err(AzureConfigError::Name(name));
        }
        let key = |(at, text): (usize, &str)| {
            let bytes = BASE64_STANDARD.decode(text.trim()).ok();
            match bytes.filter(|bytes| bytes.len() >= 16) {
                Some(bytes) => Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes)),
                None => Err(AzureConfigError::Key {
                    name: name.clone(),
                    number: at + 1,
                }),
            }
        };
        let keys = keys.into_iter().enumerate().map(key);
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        match keys.len() {
            1..=Self::MAX_KEYS => Ok(Self {
                owner: Owner::new(format!("azure:{name}")),
                name,
                keys,
            }),
            count => Err(AzureConfigError::Keys { name, count }),
        }
    }

    /// Creates the account of [`ServedAccount::DEVELOPMENT`].
    ///
    /// # Panics
    ///
    /// Never, because its name and key are valid.
    #[must_use]
    pub fn development() -> Self {
        Self::new(Self::DEVELOPMENT, [DEVELOPMENT_KEY]).expect("they are right")
    }

    /// Returns the account's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl AzureBearer {
    /// The audience of the tokens that Azure itself issues for storage.
    pub const AUDIENCE: &str = "https://storage.azure.com";

    /// Accepts tokens that a public key of this set (RFC 7517) signed, with this issuer and
    /// audience, until they expire.
    ///
    /// # Errors
    ///
    /// [`AzureConfigError::KeySet`].
    pub fn new(key_set: &str, issuer: &str, audience: &str) -> Result<Self, AzureConfigError> {
        let tokens = BearerTokens::new(key_set, issuer, audience);
        tokens.map(Self).map_err(AzureConfigError::KeySet)
    }

    pub(super) fn tokens(&self) -> BearerTokens {
        self.0.clone()
    }
}

// The keys are secrets.
impl fmt::Debug for ServedAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureAccount")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
