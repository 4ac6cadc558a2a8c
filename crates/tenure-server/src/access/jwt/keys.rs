//! The keys of an authority (RFC 7517).

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use crate::access::secret::SecretHash;

/// A public key of an authority, and the only algorithm with which the key is used.
pub(crate) struct Key {
    /// The name, the issuer and the audience of the authority: a token counts only under these.
    authority: Box<str>,
    jwk: Jwk,
    pub(super) algorithm: Algorithm,
    pub(super) decoding: DecodingKey,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl Key {
    /// Returns the key, if it can check signatures. A symmetric key is not used: every holder of
    /// the key that can check a token could also create tokens.
    fn of(jwk: Jwk, authority: &str) -> Option<Self> {
        let common = &jwk.common;
        if let Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_)) = common.public_key_use {
            return None;
        }
        Some(Self {
            algorithm: algorithm(&jwk)?,
            decoding: DecodingKey::from_jwk(&jwk).ok()?,
            authority: authority.into(),
            jwk,
        })
    }

    /// Returns a text that other keys, and the same key of another authority, do not have.
    pub(in crate::access) fn fingerprint(&self) -> String {
        let jwk = serde_json::to_string(&self.jwk).unwrap_or_default();
        SecretHash::of(&format!("{}{jwk}", self.authority)).to_string()
    }

    /// Returns whether the key may have signed a token with this key id.
    pub(super) fn is_for(&self, id: Option<&str>) -> bool {
        let own = self.jwk.common.key_id.as_deref();
        id.is_none() || own.is_none() || id == own
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.authority == other.authority && self.jwk == other.jwk
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:?})", self.jwk.common.key_id)
    }
}

/// Returns the usable keys of an authority's set. Other keys are ignored, as the standard requires: an authority
/// may have keys for other uses, and keys of future kinds. A set without usable keys is right, too: the
/// authority has taken its last one back.
pub(in crate::access) fn parse(key_set: &str, authority: &str) -> Result<Vec<Key>, String> {
    // Editors of Windows write a byte order mark, which JSON does not have.
    let key_set = key_set.trim_start_matches('\u{feff}');
    let set: KeySet = serde_json::from_str(key_set).map_err(|error| error.to_string())?;
    if set.keys.iter().any(|key| !key["kty"].is_string()) {
        return Err("one of its keys has no text kty".into());
    }
    let keys = set.keys.into_iter();
    let keys = keys.filter_map(|key| Key::of(serde_json::from_value(key).ok()?, authority));
    Ok(keys.collect())
}

fn algorithm(jwk: &Jwk) -> Option<Algorithm> {
    let by_kind = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::OctetKeyPair(_) => Algorithm::EdDSA,
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => Algorithm::ES256,
            EllipticCurve::P384 => Algorithm::ES384,
            _ => return None,
        },
        AlgorithmParameters::OctetKey(_) => return None,
    };
    let Some(named) = jwk.common.key_algorithm else {
        return Some(by_kind);
    };
    let named: Algorithm = named.to_string().parse().ok()?;
    let is_symmetric = matches!(
        named,
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512
    );
    (!is_symmetric).then_some(named)
}
