//! Bearer tokens: signed JSON Web Tokens (RFC 7519), checked with a set of keys (RFC 7517).

use std::fmt::{self, Display};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::de::IgnoredAny;

use crate::server::config::AzureConfigError;
use crate::server::error::{AUTHENTICATION_FAILED, Result};

/// The keys, the issuer and the audience of accepted bearer tokens.
#[derive(Clone)]
pub struct AzureBearer {
    keys: Vec<Key>,
    issuer: String,
    audience: String,
}

#[derive(Clone)]
struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl AzureBearer {
    /// The audience of Azure's own tokens for storage.
    pub const AUDIENCE: &str = "https://storage.azure.com";

    /// Accepts tokens that a key of this set (RFC 7517) has signed, with this issuer and audience,
    /// until they expire.
    ///
    /// # Errors
    ///
    /// [`AzureConfigError::KeySet`].
    pub fn new(key_set: &str, issuer: &str, audience: &str) -> Result<Self, AzureConfigError> {
        let invalid = |reason: &dyn Display| AzureConfigError::KeySet(reason.to_string());
        let set: JwkSet = serde_json::from_str(key_set).map_err(|error| invalid(&error))?;
        let keys = set.keys.iter().map(|key| {
            Ok::<_, AzureConfigError>(Key {
                id: key.common.key_id.clone(),
                algorithm: algorithm(key).map_err(|reason| invalid(&reason))?,
                key: DecodingKey::from_jwk(key).map_err(|error| invalid(&error))?,
            })
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(invalid(&"it has no keys"));
        }
        if issuer.is_empty() || audience.is_empty() {
            return Err(invalid(&"issuer and audience must be given"));
        }
        Ok(Self {
            keys,
            issuer: issuer.into(),
            audience: audience.into(),
        })
    }

    /// Checks that a key of the set signed the token, and that the token is valid here and now.
    pub(super) fn verify(&self, token: &str) -> Result<()> {
        let failed = |error: jsonwebtoken::errors::Error| {
            AUTHENTICATION_FAILED.because(format!("the token is refused: {error}"))
        };
        let id = decode_header(token).map_err(failed)?.kid;
        let mut refusal = AUTHENTICATION_FAILED.because("no key has the token's key id");
        for key in &self.keys {
            if id.is_some() && key.id.is_some() && id != key.id {
                continue;
            }
            // The key determines the algorithm, and never the token. Otherwise a public key could
            // be used as the secret of another algorithm.
            let mut validation = Validation::new(key.algorithm);
            validation.set_audience(&[&self.audience]);
            validation.set_issuer(&[&self.issuer]);
            validation.set_required_spec_claims(&["exp", "aud", "iss"]);
            validation.validate_nbf = true;
            match decode::<IgnoredAny>(token, &key.key, &validation) {
                Ok(_) => return Ok(()),
                Err(error) => refusal = failed(error),
            }
        }
        Err(refusal)
    }
}

fn algorithm(key: &Jwk) -> Result<Algorithm, String> {
    if let Some(named) = key.common.key_algorithm {
        let named = named.to_string();
        return named
            .parse()
            .map_err(|_| format!("{named} is not a signature algorithm"));
    }
    match &key.algorithm {
        AlgorithmParameters::RSA(_) => Ok(Algorithm::RS256),
        AlgorithmParameters::OctetKey(_) => Ok(Algorithm::HS256),
        AlgorithmParameters::OctetKeyPair(_) => Ok(Algorithm::EdDSA),
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P384 => Ok(Algorithm::ES384),
            _ => Ok(Algorithm::ES256),
        },
    }
}

// The keys are secrets.
impl fmt::Debug for AzureBearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AzureBearer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    /// A key set that contains the secret in base64url.
    const SET: &str = r#"{"keys": [{"kty": "oct", "alg": "HS256", "kid": "one",
        "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;
    const AUDIENCE: &str = AzureBearer::AUDIENCE;

    fn token(secret: &[u8], id: &str, change: impl FnOnce(&mut Value)) -> String {
        let now = chrono::Utc::now().timestamp();
        let mut claims = json!({"iss": "https://issuer", "aud": AUDIENCE, "exp": now + 600});
        change(&mut claims);
        let header = Header {
            kid: Some(id.into()),
            ..Header::default()
        };
        encode(&header, &claims, &EncodingKey::from_secret(secret)).unwrap()
    }

    #[test]
    fn only_a_valid_token_of_the_right_signer_is_accepted() {
        let bearer = AzureBearer::new(SET, "https://issuer", AUDIENCE).unwrap();
        let takes = |token: &str| bearer.verify(token).is_ok();
        let now = chrono::Utc::now().timestamp();
        assert!(takes(&token(SECRET, "one", |_| {})));
        assert!(!takes(&token(b"another", "one", |_| {})));
        assert!(!takes(&token(SECRET, "two", |_| {})));
        assert!(!takes(
            &token(SECRET, "one", |claims| claims["exp"] = json!(now - 600))
        ));
        assert!(!takes(
            &token(SECRET, "one", |claims| claims["nbf"] = json!(now + 600))
        ));
        assert!(!takes(
            &token(SECRET, "one", |claims| claims["iss"] = json!("x"))
        ));
        assert!(!takes(
            &token(SECRET, "one", |claims| claims["aud"] = json!("x"))
        ));
        for claim in ["exp", "iss", "aud"] {
            let without = token(SECRET, "one", |claims| {
                claims.as_object_mut().unwrap().remove(claim);
            });
            assert!(!takes(&without), "{claim}");
        }
        // A token with `"alg": "none"`, and an empty token.
        let unsigned = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lzc3VlciJ9.";
        assert!(!takes(unsigned) && !takes("") && !takes("a.b.c"));
    }

    #[test]
    fn an_invalid_key_set_is_refused() {
        for set in ["", "{}", r#"{"keys": []}"#, r#"{"keys": [{"kty": "oct"}]}"#] {
            assert!(AzureBearer::new(set, "i", "a").is_err(), "{set}");
        }
        assert!(AzureBearer::new(SET, "", "a").is_err());
    }
}
