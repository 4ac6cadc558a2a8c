//! Callers that another authority vouches for: JSON web tokens (RFC 7519), checked against sets of
//! keys (RFC 7517).

mod keys;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use serde::Deserialize;
use tenure_core::Name;

use crate::metrics::ReloadStatus;

pub(super) use self::keys::Key;
#[cfg(test)]
pub(super) use self::keys::parse as parse_keys;

/// The maximum lifetime of an accepted token. An issuer cannot withdraw a token before it expires,
/// so a longer lifetime is refused.
const MAX_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum length of a token. A request with a longer token exceeds the default limit of its
/// head.
const MAX_TOKEN_LEN: usize = 16 * 1024;

/// The maximum length of an identity.
pub(super) const MAX_IDENTITY_LEN: usize = 256;

/// The prefix of a Kubernetes service account's subject.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// An authority that the access file names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Issuer {
    /// The beginning of the identities that the authority vouches for: `k8s` for Kubernetes.
    pub name: String,
    /// The claim `iss`. With Kubernetes, `None` means the issuer of this pod's own token.
    pub issuer: Option<String>,
    /// The claim `aud`.
    pub audience: String,
    /// The location of the authority's keys.
    pub keys: KeySource,
}

/// The location of an authority's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySource {
    /// A file with a JSON Web Key Set.
    File(std::path::PathBuf),
    /// An https address that returns a JSON Web Key Set, and the CA certificates for it.
    Url(String, Option<std::path::PathBuf>),
    /// The API server of the Kubernetes cluster in which the store runs.
    Kubernetes,
    /// The keys are given once, and do not change.
    Fixed,
}

/// The name of the authority whose identities are Kubernetes service accounts.
pub const KUBERNETES: &str = "k8s";

/// An authority with its present keys.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) issuer: Issuer,
    /// The last fetch of the keys.
    pub(super) fetch: ReloadStatus,
    keys: RwLock<Keys>,
}

#[derive(Clone, Debug, Default)]
struct Keys {
    keys: Arc<[Arc<Key>]>,
    /// The claim `iss` that came with the keys, if the access file does not name it.
    issuer: Option<Arc<str>>,
}

/// A caller that an authority vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The text of the identity: `k8s:NAMESPACE/SERVICEACCOUNT`, or `NAME:SUBJECT`.
    pub(crate) text: Arc<str>,
    /// The Kubernetes namespace; `None` for other authorities.
    pub(crate) namespace: Option<Name>,
}

/// A checked token.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) identity: Identity,
    pub(super) expires: SystemTime,
    /// The key that signed the token.
    pub(super) key: Arc<Key>,
}

/// The reason why a token is refused. Only the log of the store contains the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JwtRefusal {
    /// The token is not from this authority, or a claim is wrong.
    Invalid,
    /// The token has expired.
    Expired,
    /// The access file denies the identity.
    Denied,
    /// No known key has the key id of the token: the authority may have new keys.
    UnknownKey,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
}

impl Claims {
    fn is_over(&self, now: SystemTime) -> bool {
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.exp <= since_1970.as_secs()
    }
}

impl Authority {
    pub(super) fn new(issuer: Issuer) -> Self {
        Self {
            issuer,
            fetch: ReloadStatus::unread(),
            keys: RwLock::default(),
        }
    }

    /// Takes over the keys of the authority with the same name in the previous file.
    pub(super) fn with_keys_of(self, previous: &Self) -> Self {
        Self {
            keys: RwLock::new(previous.keys()),
            fetch: previous.fetch.clone(),
            ..self
        }
    }

    /// Puts other keys in force, and returns whether they differ. A key that remains is the same
    /// object, so that tokens that were checked with the key need no further check.
    pub(super) fn replace(&self, key_set: &str, issuer: Option<&str>) -> Result<bool, String> {
        let parsed = keys::parse(key_set);
        self.fetch.record(parsed.is_ok());
        let parsed = parsed?;
        let mut present = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let is_same_issuer = present.issuer.as_deref() == issuer;
        let keys = parsed.into_iter().map(|key| {
            let mut known = present.keys.iter().filter(|_| is_same_issuer);
            let known = known.find(|known| ***known == key).cloned();
            known.unwrap_or_else(|| Arc::new(key))
        });
        let keys: Arc<[_]> = keys.collect();
        let is_same = |(one, other)| Arc::ptr_eq(one, other);
        let has_changed =
            keys.len() != present.keys.len() || !keys.iter().zip(&*present.keys).all(is_same);
        let issuer = issuer.map(Into::into);
        *present = Keys { keys, issuer };
        Ok(has_changed)
    }

    /// Returns whether this key is in force.
    pub(super) fn has(&self, key: &Arc<Key>) -> bool {
        let present = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        present.keys.iter().any(|known| Arc::ptr_eq(known, key))
    }

    /// Returns whether a key with this fingerprint is in force.
    pub(super) fn has_fingerprint(&self, fingerprint: &str) -> bool {
        let present = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let mut keys = present.keys.iter();
        keys.any(|known| known.fingerprint() == fingerprint)
    }

    fn keys(&self) -> Keys {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    /// Checks that a key of this authority signed the token, and that the token is valid for this
    /// store and at this time.
    pub(super) fn verify(&self, token: &str, now: SystemTime) -> Result<Verified, JwtRefusal> {
        let Keys { keys, issuer } = self.keys();
        let Some(issuer) = self.issuer.issuer.as_deref().or(issuer.as_deref()) else {
            return Err(JwtRefusal::UnknownKey);
        };
        if token.len() > MAX_TOKEN_LEN {
            return Err(JwtRefusal::Invalid);
        }
        let header = decode_header(token).map_err(|_| JwtRefusal::Invalid)?;
        if header.crit.is_some() {
            // A recipient that does not know these extensions must refuse the token (RFC 7515,
            // 4.1.11).
            return Err(JwtRefusal::Invalid);
        }
        let mut refusal = JwtRefusal::UnknownKey;
        for key in keys.iter().filter(|key| key.is_for(header.kid.as_deref())) {
            refusal = JwtRefusal::Invalid;
            // The key determines the algorithm, never the token: a public key must not be used as
            // the secret of another algorithm.
            let mut validation = Validation::new(key.algorithm);
            validation.set_audience(&[&self.issuer.audience]);
            validation.set_issuer(&[issuer]);
            validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
            validation.validate_nbf = true;
            match decode::<Claims>(token, &key.decoding, &validation) {
                Ok(token) => {
                    let verified = self.check(&token.claims, key, now);
                    return verified.ok_or_else(|| match token.claims.is_over(now) {
                        true => JwtRefusal::Expired,
                        false => JwtRefusal::Invalid,
                    });
                }
                Err(error) if *error.kind() == ErrorKind::ExpiredSignature => {
                    refusal = JwtRefusal::Expired;
                }
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    fn check(&self, claims: &Claims, key: &Arc<Key>, now: SystemTime) -> Option<Verified> {
        let expires = UNIX_EPOCH.checked_add(Duration::from_secs(claims.exp))?;
        // The library accepts a token for some time after its end, because clocks differ. But the
        // caller is shown this end, and everything that is open ends then.
        let is_in_force = now < expires && expires <= now + MAX_LIFE;
        let identity = self.identity(&claims.sub)?;
        is_in_force.then(|| Verified {
            identity,
            expires,
            key: Arc::clone(key),
        })
    }

    fn identity(&self, subject: &str) -> Option<Identity> {
        if self.issuer.name == KUBERNETES {
            let (namespace, account) = subject.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
            let namespace: Name = namespace.parse().ok()?;
            Name::check(account).ok()?;
            let text = format!("{KUBERNETES}:{namespace}/{account}");
            return Some(Identity {
                text: text.into(),
                namespace: Some(namespace),
            });
        }
        Identity::of(&self.issuer.name, subject)
    }
}

impl Identity {
    /// Returns the identity of a subject that an authority vouches for, if the subject is
    /// well-formed.
    pub(super) fn of(authority: &str, subject: &str) -> Option<Self> {
        let text = format!("{authority}:{subject}");
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        // A pattern such as `ci:team/*` must not match `ci:team/../other`.
        let mut parts = subject.split('/');
        let has_steps = parts.any(|part| matches!(part, "" | "." | ".."));
        let is_valid = is_visible && !has_steps && text.len() <= MAX_IDENTITY_LEN;
        is_valid.then(|| Self {
            text: text.into(),
            namespace: None,
        })
    }
}

#[cfg(test)]
pub(super) mod tests;
