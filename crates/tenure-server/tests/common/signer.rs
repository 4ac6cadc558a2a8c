//! An authority that issues JSON web tokens.

#![allow(dead_code, unreachable_pub)] // Each test file uses a part of this module.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

pub const ISSUER: &str = "https://issuer.example";
pub const AUDIENCE: &str = "tenure";

/// An authority with an Ed25519 key.
pub struct Signer {
    private: EncodingKey,
    pub public: Vec<u8>,
}

impl Signer {
    pub fn new() -> Self {
        let key = Ed25519KeyPair::generate().unwrap();
        let private = key.to_pkcs8().unwrap();
        Self {
            private: EncodingKey::from_ed_der(private.as_ref()),
            public: key.public_key().as_ref().to_vec(),
        }
    }

    /// Returns the key as a JSON Web Key of this id.
    pub fn key(&self, id: &str) -> Value {
        let x = base64url(&self.public);
        json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": id, "x": x})
    }

    pub fn key_set(&self, id: &str) -> String {
        json!({"keys": [self.key(id)]}).to_string()
    }

    pub fn sign(&self, id: &str, claims: &Value) -> String {
        let header = Header {
            kid: Some(id.into()),
            ..Header::new(Algorithm::EdDSA)
        };
        encode(&header, claims, &self.private).unwrap()
    }

    /// Signs a token with claims in this JSON text.
    pub fn sign_text(&self, id: &str, claims: &str) -> String {
        let header = json!({"alg": "EdDSA", "kid": id}).to_string();
        let signed = [header.as_bytes(), claims.as_bytes()]
            .map(base64url)
            .join(".");
        let signature =
            jsonwebtoken::crypto::sign(signed.as_bytes(), &self.private, Algorithm::EdDSA);
        format!("{signed}.{}", signature.unwrap())
    }

    /// Signs a token with another header.
    pub fn sign_with(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.private).unwrap()
    }
}

/// Returns the claims of a token that is valid for ten minutes.
pub fn claims(subject: &str) -> Value {
    let exp = now_secs() + 600;
    json!({"iss": ISSUER, "aud": AUDIENCE, "exp": exp, "sub": subject})
}

/// Returns the claims with this value in place of the claim with this name; `null` removes the
/// claim.
pub fn with(mut claims: Value, name: &str, value: Value) -> Value {
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

/// Returns wrong claims, each with a description of the error. They are refused wherever `right` is
/// accepted.
pub fn wrong_claims(right: &Value) -> Vec<(String, Value)> {
    let now = now_secs();
    let subjects = [
        "team/../admin",
        "../admin",
        "team/..",
        "team//x",
        "team/./x",
        "a b",
        "ä",
        "",
        &"x".repeat(300),
    ];
    let mut wrong = vec![
        ("iss", json!("https://other.example")),
        ("aud", json!("other")),
        ("exp", json!(now - 600)),
        ("exp", json!(now - 5)),
        ("exp", json!(now + 25 * 60 * 60)),
        ("exp", json!(u64::MAX)),
        ("exp", json!("tomorrow")),
        ("nbf", json!(now + 600)),
        ("iss", Value::Null),
        ("aud", Value::Null),
        ("exp", Value::Null),
        ("sub", Value::Null),
    ];
    wrong.extend(subjects.map(|subject| ("sub", json!(subject))));
    let wrong = wrong.into_iter().map(|(name, value)| {
        let text = format!("{name} {value:.40}");
        (text, with(right.clone(), name, value))
    });
    wrong.collect()
}

/// Returns tokens without a signer or with a wrong algorithm, each with a description of the error.
pub fn wrong_tokens(signer: &Signer, id: &str, right: &Value) -> Vec<(String, String)> {
    let header = |algorithm| Header {
        kid: Some(id.into()),
        ..Header::new(algorithm)
    };
    let key_set = signer.key_set(id);
    let public = base64url(&signer.public);
    let mut wrong = Vec::new();
    // A public key is used as the secret of a symmetric algorithm, in each of its forms.
    for secret in [&signer.public[..], public.as_bytes(), key_set.as_bytes()] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let secret = EncodingKey::from_secret(secret);
            let token = encode(&header(algorithm), right, &secret).unwrap();
            wrong.push((format!("{algorithm:?} by a public key"), token));
        }
    }
    let body = base64url(right.to_string().as_bytes());
    for algorithm in ["none", "None", "NONE", "", "EdDSA"] {
        let head = base64url(json!({"alg": algorithm, "kid": id}).to_string().as_bytes());
        wrong.push((
            format!("{algorithm:?} without a signature"),
            format!("{head}.{body}."),
        ));
    }
    let token = signer.sign(id, right);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (head, _) = signed.split_once('.').unwrap();
    let other = base64url(
        with(right.clone(), "sub", json!("admin"))
            .to_string()
            .as_bytes(),
    );
    wrong.push(("other claims".into(), format!("{head}.{other}.{signature}")));
    let critical = Header {
        crit: Some(vec!["exp".into()]),
        ..header(Algorithm::EdDSA)
    };
    wrong.push(("an extension".into(), signer.sign_with(&critical, right)));
    wrong.push(("another key".into(), Signer::new().sign(id, right)));
    wrong.push(("an unknown key id".into(), signer.sign("other", right)));
    wrong.push(("no signature".into(), signed.to_owned()));
    for text in ["a.b.c", "..", ".", "e30.e30.e30"] {
        wrong.push((format!("{text:?}"), text.to_owned()));
    }
    wrong
}

pub fn now_secs() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

pub fn base64url(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}
