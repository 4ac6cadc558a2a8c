//! Authentication, and the permissions of a request.
//!
//! An unknown account gets the same refusal as a wrong signature, after the same amount of work, so
//! that a client cannot find out which accounts exist.

mod sas;
mod shared_key;

use std::net::IpAddr;

use aws_lc_rs::hmac;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tenure_core::lease::Owner;
use tenure_server::access::{BearerTokens, CredentialNames, RefusalLog};

use super::clock;
use super::config::{AzureBearer, AzureConfig, ServedAccount};
use super::error::{
    AUTHENTICATION_FAILED, AUTHORIZATION_PERMISSION_MISMATCH, AUTHORIZATION_RESOURCE_TYPE_MISMATCH,
    NO_AUTHENTICATION_INFORMATION, Result,
};
use super::target::{Query, Target};

/// The credentials of all accounts.
pub(super) struct Guard {
    accounts: Vec<ServedAccount>,
    /// Keys that are checked for unknown accounts.
    unknown: Vec<hmac::Key>,
    bearer: Option<BearerTokens>,
    pub(super) over_tls: bool,
    behind_tls: bool,
    /// Whether a request without a credential has all permissions.
    is_open: bool,
    log: RefusalLog,
}

/// The permissions of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// All permissions in the account.
    All,
    /// The permissions with these letters, on these kinds of resources.
    Account { permissions: String, kinds: String },
    /// The permissions with these letters, on the single resource of the token.
    Service { permissions: String },
}

/// A kind of resource, as an account SAS distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Service,
    Container,
    /// The list of the blobs of a container. A service SAS for the container may permit it.
    Listing,
    Object,
}

impl Guard {
    pub(super) fn new(config: &AzureConfig) -> Self {
        let mut secret = [0; 32];
        // No client can sign with this key, so any value is suitable.
        let _ = getrandom::fill(&mut secret);
        let unknown = vec![hmac::Key::new(hmac::HMAC_SHA256, &secret); ServedAccount::MAX_KEYS];
        let mut accounts = config.accounts.clone();
        for account in &mut accounts {
            // Each account has the same number of keys, so that a wrong signature is compared
            // equally often for each account.
            let missing = ServedAccount::MAX_KEYS.saturating_sub(account.keys.len());
            account.keys.extend_from_slice(&unknown[..missing]);
        }
        Self {
            accounts,
            unknown,
            bearer: config.bearer.as_ref().map(AzureBearer::tokens),
            over_tls: config.over_tls,
            behind_tls: config.behind_tls,
            is_open: config.unguarded,
            log: RefusalLog::default(),
        }
    }

    /// Returns whether requests arrive over TLS.
    pub(super) const fn is_secure(&self) -> bool {
        self.over_tls || self.behind_tls
    }

    /// Returns the owner of the leases that requests for this account acquire.
    pub(super) fn owner(&self, account: &str) -> Option<&Owner> {
        self.known(account).map(|known| &known.owner)
    }

    fn known(&self, account: &str) -> Option<&ServedAccount> {
        self.accounts.iter().find(|known| known.name == account)
    }

    /// Determines the permissions of a request for a resource of this account, and logs the reason
    /// for a refusal.
    pub(super) fn admit(
        &self,
        parts: &Parts,
        account: &str,
        target: Option<&Target>,
        query: &Query,
        client: Option<IpAddr>,
    ) -> Result<Grant> {
        let found = self.find(parts, account, target, query, client);
        if let Err(error) = &found
            && let Some(kind) = self.kind(parts, query)
        {
            let detail = error.details.first();
            let check = detail.map_or(error.code.message, |(_, detail)| detail);
            self.record(kind, check, account, client);
        }
        found
    }

    fn record(&self, kind: &str, check: &str, account: &str, client: Option<IpAddr>) {
        self.log.record(kind, check, client, || CredentialNames {
            sub: Some(account.to_owned()),
            ..CredentialNames::default()
        });
    }

    /// Returns the kind of the request's credential. `None` if there is none, and for a bearer
    /// token, whose check logs its refusals itself.
    fn kind(&self, parts: &Parts, query: &Query) -> Option<&'static str> {
        let Some(authorization) = parts.headers.get(AUTHORIZATION) else {
            return query.get("sig").map(|_| "shared access signature");
        };
        let scheme = authorization
            .as_bytes()
            .split(|byte| *byte == b' ')
            .next()?;
        if scheme.eq_ignore_ascii_case(b"SharedKey") {
            return Some("shared key");
        }
        let is_checked = self.is_secure() && self.bearer.is_some();
        let is_bearer = is_checked && scheme.eq_ignore_ascii_case(b"Bearer");
        (!is_bearer).then_some("unknown")
    }

    fn find(
        &self,
        parts: &Parts,
        account: &str,
        target: Option<&Target>,
        query: &Query,
        client: Option<IpAddr>,
    ) -> Result<Grant> {
        let known = self.known(account);
        let keys = known.map_or(&self.unknown, |known| &known.keys);
        let now = clock::utc();
        let Some(authorization) = parts.headers.get(AUTHORIZATION) else {
            return if query.get("sig").is_some() {
                // Behind a proxy, the address is that of the proxy and not of the client.
                let address = client.filter(|_| !self.behind_tls);
                sas::verify(keys, account, target, query, now, self.is_secure(), address)
            } else if self.is_open {
                Ok(Grant::All)
            } else {
                Err(NO_AUTHENTICATION_INFORMATION.into())
            };
        };
        let authorization = authorization.to_str().map_err(|_| AUTHENTICATION_FAILED)?;
        let (scheme, credential) = authorization.split_once(' ').unwrap_or_default();
        if scheme.eq_ignore_ascii_case("SharedKey") {
            shared_key::verify(keys, parts, account, query, credential.trim(), now)?;
            return Ok(Grant::All);
        }
        if scheme.eq_ignore_ascii_case("Bearer")
            && self.is_secure()
            && let Some(bearer) = &self.bearer
        {
            bearer.check(credential.trim(), client)?;
            // Tokens are valid for all known accounts.
            return match known {
                Some(_) => Ok(Grant::All),
                None => {
                    self.record("bearer token", "no account has this name", account, client);
                    Err(AUTHENTICATION_FAILED.into())
                }
            };
        }
        let schemes = "the header Authorization must be SharedKey ACCOUNT:SIGNATURE; a bearer token \
                       needs TLS and a key set";
        Err(AUTHENTICATION_FAILED.because(schemes))
    }
}

/// Returns whether one of the keys signed the text. A comparison takes constant time, and a wrong
/// signature is compared with all keys.
fn is_signed(keys: &[hmac::Key], text: &[u8], signature: &str) -> bool {
    let Ok(signature) = BASE64_STANDARD.decode(signature) else {
        return false;
    };
    keys.iter()
        .any(|key| hmac::verify(key, text, &signature).is_ok())
}

impl Grant {
    /// Checks that the request has one of these permissions on this kind of resource.
    pub(super) fn check(&self, kind: Kind, one_of: &str) -> Result<()> {
        let (permissions, is_kind) = match self {
            Self::All => return Ok(()),
            Self::Account { permissions, kinds } => {
                let kind = match kind {
                    Kind::Service => 's',
                    Kind::Container | Kind::Listing => 'c',
                    Kind::Object => 'o',
                };
                (permissions, kinds.contains(kind))
            }
            Self::Service { permissions } => {
                (permissions, matches!(kind, Kind::Object | Kind::Listing))
            }
        };
        if !is_kind {
            return Err(AUTHORIZATION_RESOURCE_TYPE_MISMATCH.into());
        }
        if permissions.contains(|letter| one_of.contains(letter)) {
            Ok(())
        } else {
            Err(AUTHORIZATION_PERMISSION_MISMATCH.into())
        }
    }
}
