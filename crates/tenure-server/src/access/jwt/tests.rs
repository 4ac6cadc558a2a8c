//! Tests of valid tokens, and of every kind of wrong token.

#[path = "../../../tests/common/signer.rs"]
pub(crate) mod signer;

use serde_json::json;

use super::*;
use signer::{AUDIENCE, ISSUER, Signer, claims, now_secs, wrong_claims, wrong_tokens};

fn authority(name: &str) -> Authority {
    Authority::new(Issuer {
        name: name.into(),
        issuer: Some(ISSUER.into()),
        audience: AUDIENCE.into(),
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

    // A list of audiences may contain other audiences.
    let many = signer::with(claims("x"), "aud", json!([AUDIENCE, "other"]));
    verify(&signer.sign("one", &many)).unwrap();
    for (wrong, claims) in wrong_claims(&claims("team/build")) {
        let refused = verify(&signer.sign("one", &claims)).unwrap_err();
        let now = now_secs();
        let expected = match claims["exp"].as_u64() {
            Some(end) if end <= now => JwtRefusal::Expired,
            _ => JwtRefusal::Invalid,
        };
        assert_eq!(refused, expected, "{wrong}");
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
    for (wrong, token) in wrong_tokens(&signer, "one", &claims("x")) {
        let expected = match &*wrong {
            "an unknown key id" => JwtRefusal::UnknownKey,
            _ => JwtRefusal::Invalid,
        };
        assert_eq!(verify(&token), Err(expected), "{wrong}");
    }
    // The authority withdraws keys.
    ci.replace(&other.key_set("two"), None).unwrap();
    assert_eq!(verify(&token), Err(JwtRefusal::UnknownKey));
}

#[test]
fn a_token_with_another_algorithm_of_its_key_is_refused() {
    use aws_lc_rs::encoding::AsDer;
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use jsonwebtoken::jwk::Jwk;
    use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};

    let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let pkcs8 = key.as_der().unwrap();
    // The key itself follows 26 bytes that mark it as a key.
    let key = EncodingKey::from_rsa_der(&pkcs8.as_ref()[26..]);
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
    let ci = authority("ci");
    let verify = |algorithm| {
        let token = encode(&Header::new(algorithm), &claims("x"), &key).unwrap();
        ci.verify(&token, SystemTime::now()).map(drop)
    };
    // The algorithm of the key set, and the usual algorithm of such a key.
    for named in [jwk.common.key_algorithm, None] {
        jwk.common.key_algorithm = named;
        let set = json!({ "keys": [jwk] });
        ci.replace(&set.to_string(), None).unwrap();
        assert_eq!(verify(Algorithm::RS256), Ok(()));
        for other in [Algorithm::RS384, Algorithm::RS512, Algorithm::PS256] {
            assert_eq!(verify(other), Err(JwtRefusal::Invalid), "{other:?}");
        }
    }
}

#[test]
fn a_token_that_is_longer_than_a_head_is_refused() {
    let (signer, ci) = (Signer::new(), authority("ci"));
    ci.replace(&signer.key_set("one"), None).unwrap();
    let token = |len: usize| {
        let claims = signer::with(claims("x"), "pad", "x".repeat(len).into());
        signer.sign("one", &claims)
    };
    let long = token(100 * 1024);
    let refused = ci.verify(&long, SystemTime::now()).unwrap_err();
    assert_eq!(refused, JwtRefusal::Invalid);
    ci.verify(&token(8 * 1024), SystemTime::now()).unwrap();
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

#[test]
fn keys_of_other_kinds_and_for_other_uses_are_ignored() {
    let (signer, other) = (Signer::new(), Signer::new());
    let ci = authority("ci");
    let mut encrypts = other.key("two");
    encrypts["use"] = json!("enc");
    let set = json!({"keys": [
        {"kty": "AKP", "alg": "ML-DSA-65", "pub": "AA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"},
        {"kty": "oct", "k": "MDEyMzQ1Njc4OWFiY2RlZg"},
        encrypts,
        signer.key("one"),
    ]});
    ci.replace(&set.to_string(), None).unwrap();
    let verify = |token: String| ci.verify(&token, SystemTime::now()).map(drop);
    assert_eq!(verify(signer.sign("one", &claims("x"))), Ok(()));
    let by_other = other.sign("two", &claims("x"));
    assert_eq!(verify(by_other), Err(JwtRefusal::UnknownKey));
}

#[test]
fn a_key_that_stays_is_the_same_and_one_of_another_issuer_is_not() {
    let (one, two) = (Signer::new(), Signer::new());
    let ci = authority("ci");
    assert_eq!(ci.replace(&one.key_set("one"), None), Ok(true));
    let token = one.sign("one", &claims("x"));
    let key = ci.verify(&token, SystemTime::now()).unwrap().key;
    assert_eq!(ci.replace(&one.key_set("one"), None), Ok(false));
    assert!(ci.has(&key));
    let both = json!({"keys": [two.key("two"), one.key("one")]}).to_string();
    assert_eq!(ci.replace(&both, None), Ok(true));
    assert!(ci.has(&key));
    assert_eq!(ci.replace(&both, Some("https://other.example")), Ok(true));
    assert!(!ci.has(&key));
}
