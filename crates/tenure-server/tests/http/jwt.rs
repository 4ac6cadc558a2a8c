//! Tests of JSON web tokens over HTTP: every wrong token is refused, failures are limited by
//! address, and tokens that a store has checked remain valid.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::common::{Answer, Running, SOON, answer, id, served};
use crate::signer::{Signer, claims, wrong_claims, wrong_tokens};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::access::Access;
use tenure_server::{Server, Store, StoreConfig};

/// The access file: the team may lead in `a`.
const RULES: &str = "version = 1
[[issuer]]
name = \"ci\"
issuer = \"https://issuer.example\"
audience = \"tenure\"
key_set_file = \"unused\"
[[match]]
identity = \"ci:team/*\"
grants = [{ role = \"candidate\", namespace = \"a\" }]
";

const LEASE: &str = "/v1/namespaces/a/leases/job";

/// A store that accepts the tokens of one authority.
struct Guarded {
    running: Running,
    access: Access,
    folder: TempDir,
}

impl Guarded {
    fn start(signer: &Signer) -> Self {
        let folder = TempDir::new().unwrap();
        write(&folder, RULES);
        let access = Access::open(folder.path().join("access.toml")).unwrap();
        let (issuer, keys) = (access.issuers().remove(0), signer.key_set("one"));
        assert!(access.replace_keys(&issuer, &keys, None).unwrap());
        let store = Store::open(StoreConfig::memory()).unwrap();
        let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
        Self {
            running: served(server.with_access(access.clone())),
            access,
            folder,
        }
    }

    fn change(&self, rules: &str) {
        write(&self.folder, rules);
        assert!(self.access.reload().unwrap());
    }

    fn request(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        self.running.api.request(method, path).bearer_auth(token)
    }

    async fn whoami(&self, token: &str) -> Answer {
        let request = self.request(Method::GET, "/v1/whoami", token);
        answer(request.send().await.unwrap()).await
    }

    async fn post(&self, token: &str, verb: &str, body: Value) -> Answer {
        let request = self.request(Method::POST, &format!("{LEASE}/{verb}"), token);
        answer(request.json(&body).send().await.unwrap()).await
    }
}

fn write(folder: &TempDir, text: &str) {
    let (new, path) = (folder.path().join("new"), folder.path().join("access.toml"));
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

fn acquire(number: u32) -> Value {
    json!({"lease_id": id(number), "holder": "c1", "duration_ms": 60_000})
}

#[tokio::test]
async fn a_store_refuses_every_wrong_json_web_token_alike() {
    let signer = Signer::new();
    let guarded = Guarded::start(&signer);
    let right = claims("team/build");
    let (status, caller) = guarded.whoami(&signer.sign("one", &right)).await;
    assert_eq!((status, &caller["kind"]), (200, &json!("jwt")), "{caller}");
    assert_eq!(caller["principal"], "ci:team/build");

    let mut wrong = wrong_tokens(&signer, "one", &right);
    wrong.extend(wrong_claims(&right).into_iter().map(|(text, claims)| {
        let token = signer.sign("one", &claims);
        (text, token)
    }));
    let unauthenticated = guarded.whoami("unknown").await;
    assert_eq!(unauthenticated.0, 401);
    // An address may have ten failures at the same time.
    for cases in wrong.chunks(10) {
        let guarded = Guarded::start(&signer);
        for (text, token) in cases {
            assert_eq!(guarded.whoami(token).await, unauthenticated, "{text}");
        }
    }
    let pad = crate::signer::with(right, "pad", "x".repeat(100 * 1024).into());
    assert_eq!(guarded.whoami(&signer.sign("one", &pad)).await.0, 431);
}

#[tokio::test]
async fn a_waiting_request_of_an_identity_ends_when_it_is_denied_or_its_token_expires() {
    let signer = Signer::new();
    let guarded = Guarded::start(&signer);
    let leader = signer.sign("one", &claims("team/leader"));
    assert_eq!(guarded.post(&leader, "acquire", acquire(1)).await.0, 200);
    let waiting = |subject: &str, lives_secs: u64, number: u32| {
        let exp = json!(crate::signer::now_secs() + lives_secs);
        let token = signer.sign("one", &crate::signer::with(claims(subject), "exp", exp));
        let mut body = acquire(number);
        body["wait_ms"] = json!(60_000);
        let request = guarded.request(Method::POST, &format!("{LEASE}/acquire"), &token);
        let request = request.json(&body).send();
        tokio::spawn(async move { answer(request.await.unwrap()).await })
    };
    let view = || async {
        let request = guarded.request(Method::GET, LEASE, &leader);
        answer(request.send().await.unwrap()).await.1
    };
    let denied = waiting("team/denied", 600, 2);
    let until = Instant::now() + SOON;
    while view().await["waiters"] != 1 {
        assert!(Instant::now() < until, "a waiter");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guarded.change(&format!("{RULES}[[deny]]\nidentity = \"ci:team/denied\"\n"));
    for ended in [denied, waiting("team/expires", 2, 3)] {
        let (status, problem) = crate::common::outcome(ended).await;
        assert_eq!(status, 403, "{problem}");
        assert_eq!(problem["code"], "forbidden");
    }
    assert_eq!(view().await["holder"], "c1");
}
