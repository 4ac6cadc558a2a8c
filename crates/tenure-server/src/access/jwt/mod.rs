//! Callers that another authority vouches for: JSON web tokens (RFC 7519), checked against sets of
//! keys (RFC 7517).

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use tenure_core::Name;

/// Longest life of an accepted token. Whoever issues tokens for longer can't take them back.
const MAX_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest identity.
pub(super) const MAX_IDENTITY_LEN: usize = 256;

/// The prefix of a Kubernetes service account's subject.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// An authority, as the access file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Issuer {
    /// The beginning of the identities that it vouches for: `k8s` for Kubernetes.
    pub name: String,
    /// The claim `iss`. With Kubernetes, `None` stands for the issuer of this pod's own token.
    pub issuer: Option<String>,
    /// The claim `aud`.
    pub audience: String,
    /// Where its keys are.
    pub keys: KeySource,
}

/// Where the keys of an authority are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySource {
    /// A file with a JSON Web Key Set.
    File(std::path::PathBuf),
    /// An https address that answers with a JSON Web Key Set, and the CA certificates for it.
    Url(String, Option<std::path::PathBuf>),
    /// The API server of the Kubernetes cluster that the store runs in.
    Kubernetes,
}

/// The name of the authority whose identities are Kubernetes service accounts.
pub const KUBERNETES: &str = "k8s";

/// An authority with its present keys.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) issuer: Issuer,
    keys: RwLock<Keys>,
}

#[derive(Clone, Default)]
struct Keys {
    keys: Arc<[Key]>,
    /// The `iss` that the keys came with, if the file does not name it.
    issuer: Option<Arc<str>>,
}

struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.keys.len())
    }
}

/// A caller that an authority vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `k8s:NAMESPACE/SERVICEACCOUNT`, or `NAME:SUBJECT`.
    pub(crate) text: Arc<str>,
    /// The Kubernetes namespace.
    pub(crate) namespace: Option<Name>,
}

/// A checked token.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) identity: Identity,
    pub(super) expires: SystemTime,
}

/// Why a token is refused. Only the log of the store tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JwtRefusal {
    /// It is no token of this authority, or a claim is wrong.
    Invalid,
    /// No known key has its key id: the authority may have new keys.
    UnknownKey,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
}

impl Authority {
    pub(super) fn new(issuer: Issuer) -> Self {
        Self {
            issuer,
            keys: RwLock::default(),
        }
    }

    /// Takes over the keys of an authority that another file named alike.
    pub(super) fn with_keys_of(self, previous: &Self) -> Self {
        let keys = previous.keys();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        self
    }

    /// Puts other keys in force.
    pub(super) fn replace(&self, key_set: &str, issuer: Option<&str>) -> Result<(), String> {
        let keys = Keys {
            keys: parse(key_set)?.into(),
            issuer: issuer.map(Into::into),
        };
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    fn keys(&self) -> Keys {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    /// Whether a key of this authority signed the token, and it is valid here and now.
    pub(super) fn verify(&self, token: &str, now: SystemTime) -> Result<Verified, JwtRefusal> {
        let Keys { keys, issuer } = self.keys();
        let Some(issuer) = self.issuer.issuer.as_deref().or(issuer.as_deref()) else {
            return Err(JwtRefusal::UnknownKey);
        };
        let id = decode_header(token).map_err(|_| JwtRefusal::Invalid)?.kid;
        let mut refusal = JwtRefusal::UnknownKey;
        for key in keys.iter() {
            if id.is_some() && key.id.is_some() && id != key.id {
                continue;
            }
            refusal = JwtRefusal::Invalid;
            // The key decides the algorithm, never the token: a public key must not be used as the
            // secret of another algorithm.
            let mut validation = Validation::new(key.algorithm);
            validation.set_audience(&[&self.issuer.audience]);
            validation.set_issuer(&[issuer]);
            validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
            validation.validate_nbf = true;
            if let Ok(token) = decode::<Claims>(token, &key.key, &validation) {
                return self.check(&token.claims, now).ok_or(JwtRefusal::Invalid);
            }
        }
        Err(refusal)
    }

    fn check(&self, claims: &Claims, now: SystemTime) -> Option<Verified> {
        let expires = UNIX_EPOCH.checked_add(Duration::from_secs(claims.exp))?;
        let is_short = expires <= now + MAX_LIFE;
        let identity = self.identity(&claims.sub)?;
        is_short.then_some(Verified { identity, expires })
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
    /// The identity of a subject that an authority vouches for, if the subject is well-formed.
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

/// The usable keys of a set. Symmetric keys are not: whoever can check a token with one can make
/// tokens.
fn parse(key_set: &str) -> Result<Vec<Key>, String> {
    let set: JwkSet = serde_json::from_str(key_set).map_err(|error| error.to_string())?;
    let signs = |key: &&Jwk| {
        !matches!(
            key.common.public_key_use,
            Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_))
        )
    };
    let keys = set.keys.iter().filter(signs).filter_map(|key| {
        let algorithm = algorithm(key)?;
        let decoding = DecodingKey::from_jwk(key).map_err(|error| error.to_string());
        Some(decoding.map(|decoding| Key {
            id: key.common.key_id.clone(),
            algorithm,
            key: decoding,
        }))
    });
    let keys = keys.collect::<Result<Vec<_>, String>>()?;
    if keys.is_empty() {
        return Err("it has no public key of signatures".into());
    }
    Ok(keys)
}

fn algorithm(key: &Jwk) -> Option<Algorithm> {
    let by_kind = match &key.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::OctetKeyPair(_) => Algorithm::EdDSA,
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P384 => Algorithm::ES384,
            _ => Algorithm::ES256,
        },
        AlgorithmParameters::OctetKey(_) => return None,
    };
    let Some(named) = key.common.key_algorithm else {
        return Some(by_kind);
    };
    let named: Algorithm = named.to_string().parse().ok()?;
    let is_symmetric = matches!(
        named,
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512
    );
    (!is_symmetric).then_some(named)
}

#[cfg(test)]
pub(super) mod tests;
