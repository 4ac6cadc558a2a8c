//! Tokens that are valid, and all that is wrong with others.

use super::*;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://issuer.example";

/// A signer with an Ed25519 key.
pub(crate) struct Signer {
    private: EncodingKey,
    public: Vec<u8>,
}

impl Signer {
    pub(crate) fn new() -> Self {
        use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
        let key = Ed25519KeyPair::generate().unwrap();
        let private = key.to_pkcs8().unwrap();
        Self {
            private: EncodingKey::from_ed_der(private.as_ref()),
            public: key.public_key().as_ref().to_vec(),
        }
    }

    pub(crate) fn key_set(&self, id: &str) -> String {
        let x = BASE64_URL_SAFE_NO_PAD.encode(&self.public);
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": id, "x": x}]})
            .to_string()
    }

    pub(crate) fn sign(&self, id: &str, claims: &Value) -> String {
        let header = Header {
            kid: Some(id.into()),
            ..Header::new(Algorithm::EdDSA)
        };
        encode(&header, claims, &self.private).unwrap()
    }
}

fn now_secs() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

pub(crate) fn claims(subject: &str) -> Value {
    let exp = now_secs() + 600;
    json!({"iss": ISSUER, "aud": "tenure", "exp": exp, "sub": subject})
}

fn authority(name: &str) -> Authority {
    Authority::new(Issuer {
        name: name.into(),
        issuer: Some(ISSUER.into()),
        audience: "tenure".into(),
        keys: KeySource::Kubernetes,
    })
}

#[test]
fn a_token_of_a_known_key_is_its_subject() {
    let signer = Signer::new();
    let ci = authority("ci");
    ci.replace(&signer.key_set("one"), None).unwrap();
    let verify = |token: &str| ci.verify(token, SystemTime::now());
    let token = signer.sign("one", &claims("team/build"));
    let verified = verify(&token).unwrap();
    assert_eq!(&*verified.identity.text, "ci:team/build");
    assert_eq!(verified.identity.namespace, None);

    let change = |key: &str, value: Value| {
        let mut claims = claims("team/build");
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(key)),
            value => claims[key] = value,
        }
        signer.sign("one", &claims)
    };
    let now = now_secs();
    for (key, value) in [
        ("iss", json!("https://other.example")),
        ("aud", json!("other")),
        ("exp", json!(now - 600)),
        ("exp", json!(now + 25 * 60 * 60)),
        ("exp", json!(u64::MAX)),
        ("nbf", json!(now + 600)),
        ("sub", json!("team/../admin")),
        ("sub", json!("../admin")),
        ("sub", json!("team//x")),
        ("sub", json!("a b")),
        ("sub", json!("ä")),
        ("sub", json!("x".repeat(300))),
        ("iss", Value::Null),
        ("aud", Value::Null),
        ("exp", Value::Null),
        ("sub", Value::Null),
    ] {
        let refused = verify(&change(key, value.clone())).unwrap_err();
        assert_eq!(refused, JwtRefusal::Invalid, "{key} {value}");
    }
}

#[test]
fn a_token_of_another_signer_or_algorithm_is_refused() {
    let (signer, other) = (Signer::new(), Signer::new());
    let ci = authority("ci");
    let verify = |token: &str| ci.verify(token, SystemTime::now()).map(drop);
    let token = signer.sign("one", &claims("x"));
    assert_eq!(verify(&token), Err(JwtRefusal::UnknownKey), "no keys yet");
    ci.replace(&signer.key_set("one"), None).unwrap();
    assert_eq!(verify(&token), Ok(()));
    let by_other = other.sign("one", &claims("x"));
    assert_eq!(verify(&by_other), Err(JwtRefusal::Invalid));
    let unknown = signer.sign("two", &claims("x"));
    assert_eq!(verify(&unknown), Err(JwtRefusal::UnknownKey));
    // The public key as the secret of HS256, and no signature at all.
    let secret = EncodingKey::from_secret(&signer.public);
    let hs256 = encode(&Header::new(Algorithm::HS256), &claims("x"), &secret).unwrap();
    assert_eq!(verify(&hs256), Err(JwtRefusal::Invalid));
    let none = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let body = BASE64_URL_SAFE_NO_PAD.encode(claims("x").to_string());
    for wrong in [format!("{none}.{body}."), String::new(), "a.b.c".into()] {
        assert_eq!(verify(&wrong), Err(JwtRefusal::Invalid), "{wrong}");
    }
    // Keys that are taken back.
    ci.replace(&other.key_set("two"), None).unwrap();
    assert_eq!(verify(&token), Err(JwtRefusal::UnknownKey));
}

#[test]
fn a_kubernetes_service_account_has_a_namespace() {
    let signer = Signer::new();
    let kubernetes = authority(KUBERNETES);
    kubernetes.replace(&signer.key_set("one"), None).unwrap();
    let identity = |subject: &str| {
        let token = signer.sign("one", &claims(subject));
        let verified = kubernetes.verify(&token, SystemTime::now());
        verified.ok().map(|verified| verified.identity)
    };
    let worker = identity("system:serviceaccount:billing:worker").unwrap();
    assert_eq!(&*worker.text, "k8s:billing/worker");
    assert_eq!(worker.namespace.unwrap().as_str(), "billing");
    for wrong in [
        "billing:worker",
        "system:serviceaccount:billing",
        "system:serviceaccount::worker",
        "system:serviceaccount:..:worker",
        "system:serviceaccount:billing:a/b",
        "system:node:x",
    ] {
        assert_eq!(identity(wrong), None, "{wrong}");
    }
}

#[test]
fn a_key_set_needs_a_public_key_and_a_wrong_one_changes_nothing() {
    let signer = Signer::new();
    let ci = authority("ci");
    ci.replace(&signer.key_set("one"), None).unwrap();
    for wrong in [
        "",
        "{}",
        r#"{"keys": []}"#,
        r#"{"keys": [{"kty": "oct", "alg": "HS256", "k": "MDEyMzQ1Njc4OWFiY2RlZg"}]}"#,
    ] {
        assert!(ci.replace(wrong, None).is_err(), "{wrong}");
    }
    let token = signer.sign("one", &claims("x"));
    assert!(ci.verify(&token, SystemTime::now()).is_ok());
}
