//! Callers that another authority vouches for: JSON web tokens (RFC 7519), checked against sets of
//! keys (RFC 7517).

mod keys;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::dangerous::insecure_decode;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{TokenData, Validation, decode};
use serde::{Deserialize, Deserializer};
use tenure_core::Name;
use tracing::warn;

use super::failures::{AuthFailure, Refusal};
use super::refusal_log::CredentialNames;
use crate::metrics::ReloadStatus;

pub(super) use self::keys::Key;
pub(super) use self::keys::parse as parse_keys;

/// The maximum lifetime of an accepted token. An issuer cannot withdraw a token before it expires,
/// so a longer lifetime is refused.
const MAX_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum length of a token. A request with a longer token exceeds the default limit of its
/// head.
const MAX_TOKEN_LEN: usize = 16 * 1024;

/// The maximum number of keys with which the signature of one token is checked: without a key id,
/// every key of the set could have signed it.
const MAX_TRIED_KEYS: usize = 10;

/// The difference between the clocks of an authority and of the store that `nbf` may have.
const LEEWAY: Duration = Duration::from_secs(60);

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
    /// The token is not from this authority, or a claim is wrong: the check that failed.
    Invalid(&'static str),
    /// The token has expired.
    Expired,
    /// The access file denies the identity.
    Denied,
    /// No known key has the key id of the token: the authority may have new keys.
    UnknownKey,
}

/// The claims that are read before the signature is checked. They decide only which keys are tried,
/// and what the log says.
#[derive(Deserialize)]
struct Unverified {
    iss: Option<String>,
    sub: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: Option<Date>,
    nbf: Option<Date>,
}

/// A date: any JSON number of seconds since 1970 (RFC 7519, section 2), rounded down.
struct Date(Duration);

impl<'de> Deserialize<'de> for Date {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The cast saturates.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let whole = number.as_u64();
        let seconds = whole.or_else(|| Some(number.as_f64()?.floor() as u64));
        Ok(Self(Duration::from_secs(seconds.unwrap_or_default())))
    }
}

impl From<JwtRefusal> for Refusal {
    fn from(refusal: JwtRefusal) -> Self {
        match refusal {
            JwtRefusal::Invalid(check) => AuthFailure::Unknown.because(check),
            JwtRefusal::Expired => AuthFailure::Expired.because("the claim exp is over"),
            JwtRefusal::Denied => AuthFailure::Denied.because("the access file denies it"),
            JwtRefusal::UnknownKey => {
                AuthFailure::Unknown.because("the issuer has no key with this kid in force")
            }
        }
    }
}

/// Returns the names in a token, whether it is valid or not.
pub(super) fn names(token: &str) -> CredentialNames {
    let read = insecure_decode::<Unverified>(token).ok();
    read.map_or_else(CredentialNames::default, |token| CredentialNames {
        iss: token.claims.iss,
        sub: token.claims.sub,
        kid: token.header.kid,
        id: None,
    })
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
        let Issuer {
            name,
            issuer: named,
            audience,
            ..
        } = &self.issuer;
        let parsed = keys::parse(key_set, &format!("{:?}", (name, named, issuer, audience)));
        self.fetch.record(parsed.is_ok());
        let parsed = parsed?;
        if parsed.is_empty() {
            warn!(issuer = %name, "an authority has no public key of signatures: its tokens are refused");
        }
        let mut present = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let keys = parsed.into_iter().map(|key| {
            let known = present.keys.iter().find(|known| ***known == key).cloned();
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
            return Err(JwtRefusal::Invalid("it is longer than 16 KiB"));
        }
        let read = insecure_decode::<Unverified>(token);
        let TokenData { header, claims } =
            read.map_err(|_| JwtRefusal::Invalid("it is not a JSON web token"))?;
        if header.crit.is_some() {
            // A recipient that does not know these extensions must refuse the token (RFC 7515,
            // 4.1.11).
            return Err(JwtRefusal::Invalid("its header has extensions (crit)"));
        }
        // The keys of other authorities are not tried, because a signature check is expensive.
        if claims.iss.as_deref() != Some(issuer) {
            return Err(JwtRefusal::Invalid("the claim iss is that of no issuer"));
        }
        let (mut refusal, mut tried) = (JwtRefusal::UnknownKey, 0);
        for key in keys.iter().filter(|key| key.is_for(header.kid.as_deref())) {
            // The key determines the algorithm, never the token: a public key must not be used as
            // the secret of another algorithm.
            if key.algorithm != header.alg {
                refusal = JwtRefusal::Invalid("its algorithm is not that of the key");
                continue;
            }
            if tried == MAX_TRIED_KEYS {
                let check = "ten keys that may have signed it have not; name the key by kid";
                return Err(JwtRefusal::Invalid(check));
            }
            tried += 1;
            let mut validation = Validation::new(key.algorithm);
            validation.set_audience(&[&self.issuer.audience]);
            validation.set_issuer(&[issuer]);
            validation.set_required_spec_claims(&["aud", "iss", "sub"]);
            // `check` reads the dates, which may be fractions.
            validation.validate_exp = false;
            match decode::<Claims>(token, &key.decoding, &validation) {
                Ok(token) => return self.check(&token.claims, key, now),
                Err(error) => match claim_check(error.kind()) {
                    Some(check) => return Err(JwtRefusal::Invalid(check)),
                    None => {
                        refusal = JwtRefusal::Invalid("the signature is not that of the key");
                    }
                },
            }
        }
        Err(refusal)
    }

    fn check(
        &self,
        claims: &Claims,
        key: &Arc<Key>,
        now: SystemTime,
    ) -> Result<Verified, JwtRefusal> {
        let Some(Date(end)) = claims.exp else {
            return Err(JwtRefusal::Invalid("it has no claim exp"));
        };
        let Some(expires) = UNIX_EPOCH.checked_add(end) else {
            return Err(JwtRefusal::Invalid("the claim exp is not a date"));
        };
        // There is no leeway: the caller is shown this end, and everything that is open ends then.
        if expires <= now {
            return Err(JwtRefusal::Expired);
        }
        if expires > now + MAX_LIFE {
            return Err(JwtRefusal::Invalid(
                "the claim exp is more than 24 hours ahead",
            ));
        }
        let is_early = |Date(begin): &Date| {
            let begin = UNIX_EPOCH.checked_add(*begin);
            begin.is_none_or(|begin| begin > now + LEEWAY)
        };
        if claims.nbf.as_ref().is_some_and(is_early) {
            return Err(JwtRefusal::Invalid("the claim nbf is ahead"));
        }
        let identity = self.identity(&claims.sub);
        Ok(Verified {
            identity: identity.ok_or(JwtRefusal::Invalid("the claim sub is not a valid name"))?,
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

/// Returns the check of the claims that failed, after that of the signature has succeeded.
const fn claim_check(kind: &ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::InvalidAudience => Some("the claim aud is not the audience of the issuer"),
        ErrorKind::InvalidIssuer => Some("the claim iss is that of no issuer"),
        ErrorKind::MissingRequiredClaim(_)
        | ErrorKind::InvalidClaimFormat(_)
        | ErrorKind::Json(_) => Some("a claim is missing, duplicate or of the wrong type"),
        _ => None,
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
