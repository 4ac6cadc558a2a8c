//! The bearer tokens of another protocol.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use tenure_core::wire::Problem;

use super::failures::Failures;
use super::file::AccessFile;
use super::jwt::{self, Issuer, KeySource};
use super::table::Table;

/// The bearer tokens that a [`Protocol`](crate::Protocol) accepts: JSON web tokens of one
/// authority. They are checked like the tokens of the authorities in the access file, and wrong
/// tokens are limited by address in the same manner. Clones are handles to the same tokens.
#[derive(Clone, Debug)]
pub struct BearerTokens(Arc<Tokens>);

#[derive(Debug)]
struct Tokens {
    table: Table,
    failures: Failures,
}

impl BearerTokens {
    /// Accepts tokens that a key of this set (RFC 7517) signed, with these claims `iss` and `aud`.
    ///
    /// # Errors
    ///
    /// The key set is wrong or has no usable key, or a text is empty.
    pub fn new(key_set: &str, issuer: &str, audience: &str) -> Result<Self, String> {
        if issuer.is_empty() || audience.is_empty() {
            return Err("issuer and audience must be given".into());
        }
        let issuer = Issuer {
            name: "bearer".into(),
            issuer: Some(issuer.into()),
            audience: audience.into(),
            keys: KeySource::Fixed,
        };
        let mut file = AccessFile::default();
        file.issuers = vec![issuer.clone()];
        let table = Table::new(file.into(), None);
        // These keys do not change, so a set without one is a mistake.
        if !table.replace_keys(&issuer, key_set, None)? {
            return Err("it has no public key of signatures".into());
        }
        let failures = Failures::default();
        Ok(Self(Arc::new(Tokens { table, failures })))
    }

    /// Checks a token that came from this address.
    ///
    /// # Errors
    ///
    /// [`Code::Unauthenticated`](tenure_core::wire::Code::Unauthenticated) with one text for all
    /// causes; [`Code::OverLimit`](tenure_core::wire::Code::OverLimit) if the address has sent too
    /// many wrong tokens. A token that was valid before is never refused for this reason.
    pub fn check(&self, token: &str, client: Option<IpAddr>) -> Result<(), Problem> {
        let Tokens { table, failures } = &*self.0;
        let found = table.find_jwt(token, client, failures, SystemTime::now());
        match found {
            Ok(_) => Ok(()),
            Err(refusal) => {
                let names = || jwt::names(token);
                Err(failures.refuse(&refusal.into(), client, "bearer token", names))
            }
        }
    }
}
