//! Shared access signatures and bearer tokens, with TLS and addresses.

use std::fs;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{SecondsFormat, Utc};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Certificate, Client};
use serde_json::{Value, json};
use tenure_azure::server::{Azure, AzureBearer, AzureConfig};
use tenure_server::{ServeError, Server, Store, StoreConfig, Tls};
use tokio::time::{Instant, sleep, timeout};

use crate::client::{ACCOUNT, Az, KEY, development, in_memory, start};
use crate::common::wire::Wire;
use crate::common::{SOON, served};
use crate::signer::{self, Signer, wrong_claims, wrong_tokens};

const ISSUER: &str = "https://issuer";

/// Returns the claims of a token for this API.
fn claims() -> Value {
    let claims = signer::with(signer::claims("app"), "iss", json!(ISSUER));
    signer::with(claims, "aud", json!(AzureBearer::AUDIENCE))
}

fn bearer(signer: &Signer) -> AzureBearer {
    AzureBearer::new(&signer.key_set("one"), ISSUER, AzureBearer::AUDIENCE).unwrap()
}

fn sign(text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &BASE64_STANDARD.decode(KEY).unwrap());
    BASE64_STANDARD.encode(hmac::sign(&key, text.as_bytes()))
}

/// Returns a signed query with these parameters.
fn query(pairs: &[(&str, &str)], text: &str) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = pairs.iter().chain([&("sig", "")]).map(|(name, value)| {
        let value = if *name == "sig" {
            sign(text)
        } else {
            (*value).to_owned()
        };
        format!("{name}={}", encode(&value))
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns an account SAS with all permissions, which is valid until the year 2100.
fn account_sas(addresses: &str, protocols: &str) -> String {
    account_sas_until("2100-01-01", addresses, protocols)
}

fn account_sas_until(end: &str, addresses: &str, protocols: &str) -> String {
    let pairs = [
        ("sp", "rwdlc"),
        ("ss", "b"),
        ("srt", "sco"),
        ("st", ""),
        ("se", end),
        ("sip", addresses),
        ("spr", protocols),
        ("sv", "2022-11-02"),
    ];
    let values: String = pairs
        .iter()
        .map(|(_, value)| format!("{value}\n"))
        .collect();
    query(&pairs, &format!("{ACCOUNT}\n{values}\n"))
}

async fn outcome(http: &Client, url: &str) -> (u16, String) {
    let response = http.get(url).send().await.unwrap();
    let code = response.headers().get("x-ms-error-code");
    let code = code.map_or("", |code| code.to_str().unwrap()).to_owned();
    (response.status().as_u16(), code)
}

const ELSEWHERE: (u16, &str) = (403, "AuthorizationSourceIPMismatch");
const PROTOCOL: (u16, &str) = (403, "AuthorizationProtocolMismatch");
const OK: (u16, &str) = (200, "");

#[tokio::test]
async fn a_signature_for_certain_addresses_is_valid_only_there() {
    let (_running, az) = in_memory();
    let list = async |sas: String| {
        let url = format!("{}/{ACCOUNT}?comp=list&{sas}", az.origin);
        outcome(&az.http, &url).await
    };
    for (addresses, expected) in [
        ("", OK),
        ("127.0.0.1", OK),
        ("127.0.0.0-127.0.0.255", OK),
        ("10.0.0.1", ELSEWHERE),
        ("127.0.0.2-127.0.0.9", ELSEWHERE),
        ("::1", ELSEWHERE),
        ("x", ELSEWHERE),
    ] {
        let (status, code) = list(account_sas(addresses, "")).await;
        assert_eq!((status, &*code), expected, "{addresses}");
    }
    // A parameter in another spelling is refused, and never ignored.
    let hidden = account_sas("10.0.0.1", "").replace("sip=", "%73ip=");
    assert_eq!(list(hidden).await.1, ELSEWHERE.1);
    // Behind a proxy, the address is that of the proxy and not of the client.
    let config = AzureConfig {
        behind_tls: true,
        ..development()
    };
    let (_running, az) = start(StoreConfig::memory(), config);
    let url = format!(
        "{}/{ACCOUNT}?comp=list&{}",
        az.origin,
        account_sas("127.0.0.1", "")
    );
    assert_eq!(outcome(&az.http, &url).await.1, ELSEWHERE.1);
}

#[tokio::test]
async fn a_body_that_comes_after_the_signature_has_expired_changes_nothing() {
    let (running, az) = in_memory();
    az.put("/con?restype=container", &[]).await.assert(201);
    az.put_block("/con/blob", &[], b"before").await.assert(201);
    let end = Utc::now() + Duration::from_secs(3);
    let sas = account_sas_until(&end.to_rfc3339_opts(SecondsFormat::Millis, true), "", "");
    // Each operation with a body: its method, its target, its headers, and its body.
    let list = "<BlockList></BlockList>";
    let batch = "--b\r\nContent-Type: application/http\r\n\r\nDELETE /devstoreaccount1/con/blob HTTP/1.1\r\n\r\n--b--\r\n";
    let kind = "x-ms-blob-type: BlockBlob\r\n";
    let multipart = "content-type: multipart/mixed; boundary=b\r\n";
    let requests = [
        ("PUT", "/con/blob?", kind, "after"),
        ("PUT", "/con/new?", kind, "after"),
        ("PUT", "/con/blob?comp=block&blockid=AAAA&", "", "after"),
        ("PUT", "/con/blob?comp=blocklist&", "", list),
        (
            "POST",
            "/con?restype=container&comp=batch&",
            multipart,
            batch,
        ),
    ];
    let mut late = Vec::new();
    for (method, target, headers, body) in requests {
        let mut wire = Wire::connect(&running.api).await;
        let target = format!("/{ACCOUNT}{target}{sas}");
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\
             expect: 100-continue\r\n\r\n",
            body.len()
        );
        wire.send(head).await.unwrap();
        // The signature is still valid, and the store reads the body.
        let reply = wire.reply().await.unwrap();
        assert_eq!(reply.answer.0, 100, "{target}: {}", reply.head);
        late.push((target, wire, body));
    }
    while Utc::now() <= end {
        sleep(Duration::from_millis(50)).await;
    }
    for (target, mut wire, body) in late {
        wire.send(body).await.unwrap();
        let reply = wire.reply().await.unwrap();
        assert_eq!(reply.answer.0, 403, "{target}: {}", reply.head);
        assert!(
            reply.has("x-ms-error-code: AuthenticationFailed"),
            "{}",
            reply.head
        );
    }
    let blob = az.get("/con/blob", &[]).await;
    assert_eq!(blob.text(), "before");
    az.get("/con/new", &[]).await.assert(404);
    let blocks = "/con/blob?comp=blocklist&blocklisttype=uncommitted";
    assert!(!az.get(blocks, &[]).await.text().contains("AAAA"));
}

#[tokio::test]
async fn over_tls_bearer_tokens_and_https_only_signatures_are_valid() {
    let signer = Signer::new();
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let path = folder.path().join("both.pem");
    // The certificate and the key may be in one file.
    fs::write(&path, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
    let tls = Tls::open(&path, &path).unwrap();
    let config = AzureConfig {
        over_tls: true,
        bearer: Some(bearer(&signer)),
        ..development()
    };
    let open = || {
        let store = Store::open(StoreConfig::memory()).unwrap();
        let azure = Azure::open(&store, config.clone()).unwrap();
        let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
        server.with_protocol(azure)
    };
    // The protocol needs TLS here, so the server does not start without it.
    let bare = timeout(SOON, open().serve(std::future::pending())).await;
    assert!(matches!(bare, Ok(Err(ServeError::Io(_)))), "{bare:?}");

    let running = served(open().with_tls(tls));
    let origin = running.api.origin.replace("http:", "https:");
    let root = Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let http = Client::builder().tls_certs_only([root]).build().unwrap();
    let list = format!("{origin}/{ACCOUNT}?comp=list");

    let token = signer.sign("one", &claims());
    let with = async |token: &str| {
        let request = http.get(&list).bearer_auth(token);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let (status, text) = with(&token).await;
    assert_eq!(status, 200);
    // The URL of the account in the response is usable.
    assert!(
        text.contains(&format!("ServiceEndpoint=\"{origin}/{ACCOUNT}/\"")),
        "{text}"
    );
    assert_eq!(with(&format!("{token}x")).await.0, 403);
    for (protocols, expected) in [
        ("https", OK),
        ("https,http", OK),
        ("", OK),
        ("http", PROTOCOL),
    ] {
        let url = format!("{list}&{}", account_sas("127.0.0.1", protocols));
        let (status, code) = outcome(&http, &url).await;
        assert_eq!((status, &*code), expected, "{protocols}");
    }
    let (_running, az) = in_memory();
    let url = format!(
        "{}/{ACCOUNT}?comp=list&{}",
        az.origin,
        account_sas("", "https")
    );
    assert_eq!(outcome(&az.http, &url).await.1, PROTOCOL.1);
}

#[tokio::test]
async fn every_wrong_bearer_token_is_refused_alike() {
    let signer = Signer::new();
    let open = || {
        let config = AzureConfig {
            behind_tls: true,
            bearer: Some(bearer(&signer)),
            ..development()
        };
        start(StoreConfig::memory(), config)
    };
    let send = async |az: &Az, token: &str| {
        let url = format!("{}/{ACCOUNT}?comp=list", az.origin);
        let response = az.http.get(url).bearer_auth(token).send().await.unwrap();
        let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
        let detail = text.split_once("<AuthenticationErrorDetail>");
        (status, detail.map(|(_, detail)| detail.to_owned()))
    };
    let mut wrong = wrong_tokens(&signer, "one", &claims());
    wrong.extend(wrong_claims(&claims()).into_iter().map(|(text, claims)| {
        let token = signer.sign("one", &claims);
        (text, token)
    }));
    let (_running, az) = open();
    assert_eq!(send(&az, &signer.sign("one", &claims())).await.0, 200);
    let refused = send(&az, "unknown").await;
    assert_eq!(refused.0, 403);
    assert!(refused.1.is_some(), "the refusal has a reason");
    // An address may have ten failures at the same time.
    for cases in wrong.chunks(10) {
        let (_running, az) = open();
        for (text, token) in cases {
            assert_eq!(send(&az, token).await, refused, "{text}");
        }
    }
    // A response to a valid token does not reveal which accounts exist.
    let nobody = Az {
        account: "nobody".into(),
        ..az.clone()
    };
    let right = format!("Bearer {}", signer.sign("one", &claims()));
    let right = [("authorization", &*right)];
    nobody
        .get("/?comp=list", &right)
        .await
        .assert_refused(403, "AuthenticationFailed");
    let long = signer::with(claims(), "pad", "x".repeat(100 * 1024).into());
    assert!(!(200..300).contains(&send(&az, &signer.sign("one", &long)).await.0));
}

#[tokio::test]
async fn wrong_bearer_tokens_are_limited_by_address_and_known_ones_are_not() {
    let (signer, other) = (Signer::new(), Signer::new());
    let config = AzureConfig {
        behind_tls: true,
        bearer: Some(bearer(&signer)),
        ..development()
    };
    let (_running, az) = start(StoreConfig::memory(), config);
    let url = format!("{}/{ACCOUNT}?comp=list", az.origin);
    let send = async |token: &str| {
        let response = az.http.get(&url).bearer_auth(token).send().await.unwrap();
        response.status().as_u16()
    };
    let known = signer.sign("one", &claims());
    assert_eq!(send(&known).await, 200);
    let wrong = other.sign("one", &claims());
    let mut refused = 0;
    for _ in 0..200 {
        match send(&wrong).await {
            403 => refused += 1,
            status => assert_eq!(status, 503),
        }
        assert_eq!(send(&known).await, 200);
    }
    assert!((10..=20).contains(&refused), "{refused} times 403");
    // The SDKs repeat a request after a 503, and the store accepts a new token within a second.
    let fresh = signer.sign("one", &signer::with(claims(), "jti", json!("next")));
    let until = Instant::now() + SOON;
    while send(&fresh).await != 200 {
        assert!(Instant::now() < until);
        sleep(Duration::from_millis(50)).await;
    }
    // Signatures with the keys of the account continue to work.
    az.get("/?comp=list", &[]).await.assert(200);
}
