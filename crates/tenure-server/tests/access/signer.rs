//! A test authority that signs JSON web tokens.

use std::time::SystemTime;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

pub(super) const ISSUER: &str = "https://issuer.example";

pub(super) struct Signer {
    private: EncodingKey,
    public: Vec<u8>,
}

impl Signer {
    pub(super) fn new() -> Self {
        let key = Ed25519KeyPair::generate().unwrap();
        let private = key.to_pkcs8().unwrap();
        Self {
            private: EncodingKey::from_ed_der(private.as_ref()),
            public: key.public_key().as_ref().to_vec(),
        }
    }

    pub(super) fn key_set(&self) -> String {
        let x = BASE64_URL_SAFE_NO_PAD.encode(&self.public);
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "one", "x": x}]})
            .to_string()
    }

    /// Returns a token of this subject that is valid for an hour.
    pub(super) fn sign(&self, subject: &str) -> String {
        let header = Header {
            kid: Some("one".into()),
            ..Header::new(Algorithm::EdDSA)
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let expires = now.unwrap().as_secs() + 3600;
        let claims = json!({"iss": ISSUER, "aud": "tenure", "sub": subject, "exp": expires});
        encode(&header, &claims, &self.private).unwrap()
    }
}
