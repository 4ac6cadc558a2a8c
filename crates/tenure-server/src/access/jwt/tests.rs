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

const fn is_invalid(refusal: JwtRefusal) -> bool {
    matches!(refusal, JwtRefusal::Invalid(_))
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
        match claims["exp"].as_u64() {
            Some(end) if end <= now => assert_eq!(refused, JwtRefusal::Expired, "{wrong}"),
            _ => assert!(is_invalid(refused), "{wrong}: {refused:?}"),
        }
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
        let refused = verify(&token).unwrap_err();
        match &*wrong {
            "an unknown key id" => assert_eq!(refused, JwtRefusal::UnknownKey),
            _ => assert!(is_invalid(refused), "{wrong}: {refused:?}"),
        }
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
            assert!(verify(other).is_err_and(is_invalid), "{other:?}");
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
    assert!(is_invalid(refused));
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
fn a_wrong_key_set_changes_nothing_and_one_without_a_public_key_refuses_all_tokens() {
    let signer = Signer::new();
    let ci = authority("ci");
    ci.replace(&signer.key_set("one"), None).unwrap();
    for wrong in [
        "",
        "{}",
        r#"{"keys": {}}"#,
        r#"{"keys": [7]}"#,
        r#"{"keys": [{"kid": "one"}]}"#,
    ] {
        assert!(ci.replace(wrong, None).is_err(), "{wrong}");
    }
    let token = signer.sign("one", &claims("x"));
    let mut encrypts = signer.key("one");
    encrypts["use"] = json!("enc");
    for none in [
        r#"{"keys": []}"#,
        r#"{"keys": [{"kty": "oct", "alg": "HS256", "k": "MDEyMzQ1Njc4OWFiY2RlZg"}]}"#,
        &json!({ "keys": [encrypts] }).to_string(),
    ] {
        assert!(ci.verify(&token, SystemTime::now()).is_ok(), "{none}");
        assert!(ci.replace(none, None).unwrap(), "{none}");
        assert!(ci.verify(&token, SystemTime::now()).is_err(), "{none}");
        ci.replace(&signer.key_set("one"), None).unwrap();
    }
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

#[test]
fn dates_may_be_any_json_number_and_are_rounded_down() {
    let (signer, ci) = (Signer::new(), authority("ci"));
    ci.replace(&signer.key_set("one"), None).unwrap();
    let base = now_secs();
    let now = UNIX_EPOCH + Duration::from_secs(base);
    // The texts are those of a token, because a JSON value would be written in its own form.
    let verify = |name: &str, date: &str| {
        let own = format!("\"{name}\":{date}");
        let exp = match name {
            "exp" => own,
            _ => format!("\"exp\":{},{own}", base + 600),
        };
        let claims = format!("{{\"iss\":\"{ISSUER}\",\"aud\":\"{AUDIENCE}\",\"sub\":\"x\",{exp}}}");
        let verified = ci.verify(&signer.sign_text("one", &claims), now);
        verified.map(|verified| verified.expires)
    };
    let at = |seconds: u64| Ok(now + Duration::from_secs(seconds));
    for (text, expected) in [
        (format!("{}.5", base + 600), at(600)),
        (format!("{}.999", base + 600), at(600)),
        (format!("{}.0", base + 600), at(600)),
        (format!("{:e}", (base + 600) as f64), at(600)),
        (format!("{base}.9"), Err(JwtRefusal::Expired)),
        ("1.7e9".into(), Err(JwtRefusal::Expired)),
        ("-1.5".into(), Err(JwtRefusal::Expired)),
        ("0".into(), Err(JwtRefusal::Expired)),
    ] {
        assert_eq!(verify("exp", &text), expected, "exp {text}");
    }
    for text in [
        "1e300",
        "18446744073709551615",
        "\"1\"",
        "null",
        "[]",
        "true",
    ] {
        assert!(verify("exp", text).is_err_and(is_invalid), "exp {text}");
    }
    // Clocks may differ by a minute.
    for (text, is_valid) in [
        (format!("{}.5", base + 60), true),
        (format!("{}.0", base + 61), false),
        (format!("{:e}", (base + 50) as f64), true),
        ("1.7e9".into(), true),
        ("-5".into(), true),
        ("1e300".into(), false),
        ("\"1\"".into(), false),
    ] {
        assert_eq!(verify("nbf", &text).is_ok(), is_valid, "nbf {text}");
    }
    for text in ["600.5", "600.0", "1.7e9"] {
        assert_eq!(verify("iat", text), at(600), "iat {text}");
    }
}

#[test]
fn a_signature_is_checked_with_at_most_ten_keys() {
    let signers: Vec<_> = (0..=MAX_TRIED_KEYS).map(|_| Signer::new()).collect();
    let ci = authority("ci");
    let keys: Vec<_> = signers
        .iter()
        .enumerate()
        .map(|(number, signer)| signer.key(&number.to_string()))
        .collect();
    ci.replace(&json!({ "keys": keys }).to_string(), None)
        .unwrap();
    let unnamed = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::EdDSA);
    let verify = |signer: &Signer| {
        let token = signer.sign_with(&unnamed, &claims("x"));
        ci.verify(&token, SystemTime::now()).map(drop)
    };
    let (last, others) = signers.split_last().unwrap();
    for signer in others {
        assert_eq!(verify(signer), Ok(()));
    }
    let refused = verify(last).unwrap_err();
    let check = "ten keys that may have signed it have not; name the key by kid";
    assert_eq!(refused, JwtRefusal::Invalid(check));
    let named = last.sign(&MAX_TRIED_KEYS.to_string(), &claims("x"));
    ci.verify(&named, SystemTime::now()).unwrap();
}

#[test]
fn no_key_is_tried_for_a_token_of_another_issuer() {
    let (signer, ci) = (Signer::new(), authority("ci"));
    // The signature could not be checked without a key, and the reason would be another one.
    ci.replace(&signer.key_set("two"), None).unwrap();
    let other = signer::with(claims("x"), "iss", json!("https://other.example"));
    let refused = ci.verify(&signer.sign("one", &other), SystemTime::now());
    let check = "the claim iss is that of no issuer";
    assert_eq!(refused.unwrap_err(), JwtRefusal::Invalid(check));
}
