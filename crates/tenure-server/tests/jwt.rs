//! Tests of JSON web tokens over HTTP: every wrong token is refused, failures are limited by
//! address, and tokens that a store has checked remain valid.

mod common;
#[path = "common/signer.rs"]
mod signer;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use common::{Answer, Running, SOON, answer, id, served};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use signer::{Signer, claims, wrong_claims, wrong_tokens};
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
    let pad = signer::with(right, "pad", "x".repeat(100 * 1024).into());
    assert_eq!(guarded.whoami(&signer.sign("one", &pad)).await.0, 431);
}

#[tokio::test]
async fn wrong_signatures_are_limited_by_address_and_cost_a_leader_nothing() {
    let (signer, other) = (Signer::new(), Signer::new());
    let guarded = Guarded::start(&signer);
    let leader = signer.sign("one", &claims("team/leader"));
    assert_eq!(guarded.post(&leader, "acquire", acquire(1)).await.0, 200);
    let wrong = other.sign("one", &claims("team/leader"));
    let mut statuses = Vec::new();
    for _ in 0..200 {
        statuses.push(guarded.whoami(&wrong).await.0);
        let renewed = guarded.post(&leader, "renew", json!({"lease_id": id(1)}));
        assert_eq!(renewed.await.0, 200);
    }
    let refused = statuses.iter().filter(|status| **status == 401).count();
    let limited = statuses.iter().filter(|status| **status == 429).count();
    assert!((10..=20).contains(&refused), "{refused} times 401");
    assert_eq!(refused + limited, 200);
    // The store accepts the successor of the leader's token, although wrong tokens continue.
    let next = claims("team/leader");
    let next = signer.sign("one", &signer::with(next, "jti", json!("next")));
    let start = Instant::now();
    while guarded.whoami(&next).await.0 != 200 {
        assert!(start.elapsed() < SOON);
        guarded.whoami(&wrong).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let renewed = guarded.post(&next, "renew", json!({"lease_id": id(1)}));
    assert_eq!(renewed.await.0, 200, "both are of one owner");
}

#[tokio::test]
async fn many_tokens_of_one_address_are_let_in_and_known_ones_stay_in_force() {
    let signer = Signer::new();
    let guarded = Guarded::start(&signer);
    let leader = signer.sign("one", &claims("team/leader"));
    assert_eq!(guarded.post(&leader, "acquire", acquire(1)).await.0, 200);
    for number in 0..500 {
        let token = signer.sign("one", &claims(&format!("team/{number}")));
        assert_eq!(guarded.whoami(&token).await.0, 200);
    }
    // If keys can't be fetched or are wrong, the previous keys stay in force.
    let issuer = guarded.access.issuers().remove(0);
    for wrong in ["", "{}", "<html>503</html>"] {
        guarded
            .access
            .replace_keys(&issuer, wrong, None)
            .unwrap_err();
        let renewed = guarded.post(&leader, "renew", json!({"lease_id": id(1)}));
        assert_eq!(renewed.await.0, 200);
        let fresh = signer.sign("one", &claims(&format!("team/fresh-{}", wrong.len())));
        assert_eq!(guarded.whoami(&fresh).await.0, 200);
    }
}

#[tokio::test]
async fn a_lease_id_of_another_identity_is_a_wrong_one() {
    let signer = Signer::new();
    let guarded = Guarded::start(&signer);
    let leader = signer.sign("one", &claims("team/leader"));
    let thief = signer.sign("one", &claims("team/thief"));
    let (status, granted) = guarded.post(&leader, "acquire", acquire(1)).await;
    assert_eq!(status, 200);
    assert_eq!(granted["owner"], "ci:team/leader", "{granted}");
    for verb in ["renew", "release"] {
        let stolen = guarded.post(&thief, verb, json!({"lease_id": id(1)})).await;
        let wrong = guarded.post(&thief, verb, json!({"lease_id": id(2)})).await;
        assert_eq!(stolen.0, 409, "{stolen:?}");
        assert_eq!(stolen, wrong);
    }
    let elsewhere = signer.sign("one", &claims("other"));
    assert_eq!(guarded.post(&elsewhere, "acquire", acquire(3)).await.0, 403);
}

#[tokio::test]
async fn a_waiting_request_of_an_identity_ends_when_it_is_denied_or_its_token_expires() {
    let signer = Signer::new();
    let guarded = Guarded::start(&signer);
    let leader = signer.sign("one", &claims("team/leader"));
    assert_eq!(guarded.post(&leader, "acquire", acquire(1)).await.0, 200);
    let waiting = |subject: &str, lives_secs: u64, number: u32| {
        let exp = json!(signer::now_secs() + lives_secs);
        let token = signer.sign("one", &signer::with(claims(subject), "exp", exp));
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
        let (status, problem) = common::outcome(ended).await;
        assert_eq!(status, 403, "{problem}");
        assert_eq!(problem["code"], "forbidden");
    }
    assert_eq!(view().await["holder"], "c1");
}
