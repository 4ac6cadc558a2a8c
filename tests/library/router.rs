//! The routes of a candidate over real sockets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tenure::fence::EPOCH_HEADER;
use tenure::router::{ADDRESS, LEADER_HEADER};
use tenure::{Candidate, Config, Guarantee, OnOverrun};
use tenure_tests::proxy::{Proxy, ProxyMode};
use tenure_tests::store::{self, LocalStore};
use tenure_tests::wait_until;

const HOME: &str = "http://10.0.0.7:8080";

/// The routes of a candidate on a server.
struct Routes {
    address: SocketAddr,
    http: Client,
}

struct Answer {
    status: StatusCode,
    epoch: Option<String>,
    leader: Option<String>,
    body: String,
}

impl Routes {
    async fn serve(candidate: &Candidate) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let router: Router = candidate.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let http = tenure_tests::client::plain_http()
            .build()
            .expect("a client");
        Self { address, http }
    }

    async fn ask(&self, method: Method, path: &str) -> Answer {
        let url = format!("http://{}{path}", self.address);
        let request = self.http.request(method, url);
        let answer = request.timeout(Duration::from_secs(10)).send().await;
        let answer = answer.expect("an answer");
        let header = |name| {
            let value = answer.headers().get(name)?;
            Some(value.to_str().expect("text").to_owned())
        };
        Answer {
            status: answer.status(),
            epoch: header(EPOCH_HEADER),
            leader: header(LEADER_HEADER),
            body: answer.text().await.expect("a body"),
        }
    }

    async fn leader(&self) -> (Answer, Value) {
        let answer = self.ask(Method::GET, "/leader").await;
        let body = serde_json::from_str(&answer.body).expect("JSON");
        (answer, body)
    }

    /// Waits until `/leader` names this candidate, or none.
    async fn names(&self, leader: Option<&str>) -> (Answer, Value) {
        wait_until("the expected answer of /leader", async || {
            let (answer, body) = self.leader().await;
            (body["leader"]["candidate"].as_str() == leader).then_some((answer, body))
        })
        .await
    }

    async fn status(&self, path: &str) -> StatusCode {
        self.ask(Method::GET, path).await.status
    }
}

fn config(store: SocketAddr, name: &str) -> Config {
    Config::new("web/coordinator".parse().expect("a name"))
        .with_candidate(name.parse().expect("an id"))
        .with_servers([store::endpoint(store)])
        .with_metadata(BTreeMap::from([(ADDRESS.into(), HOME.into())]))
        // The tests keep guards of lost terms.
        .with_on_overrun(OnOverrun::Report)
}

fn quick(config: Config) -> Config {
    let second = Some(Duration::from_secs(1));
    let config = config.with_adjusted_timings(|timings| timings.lease_duration = second);
    config.expect("timings")
}

async fn connect(config: Config) -> Candidate {
    Candidate::start(config).await.expect("a candidate")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_answers_200_and_the_others_answer_with_its_address() {
    let store = LocalStore::start();
    let leader = connect(config(store.address(), "worker-1")).await;
    let other = connect(config(store.address(), "worker-2")).await;
    let (here, there) = (Routes::serve(&leader).await, Routes::serve(&other).await);
    for routes in [&here, &there] {
        let (answer, body) = routes.names(None).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!((answer.epoch, answer.leader), (None, None));
        assert_eq!(
            (&body["leading"], &body["leader"]),
            (&json!(false), &json!(null))
        );
    }

    let term = leader.campaign().await.expect("a term");
    let epoch = term.epoch().get();
    let whole = json!({
        "candidate": "worker-1", "epoch": epoch, "address": HOME, "metadata": {"address": HOME},
    });
    // At once, without waiting for the store.
    let (answer, body) = here.leader().await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.epoch, Some(epoch.to_string()));
    assert_eq!(answer.leader.as_deref(), Some(HOME));
    let expected = json!({
        "election": "web/coordinator", "candidate": "worker-1", "leading": true, "leader": whole,
    });
    assert_eq!(body, expected);
    let head = here.ask(Method::HEAD, "/leader").await;
    assert_eq!((head.status, head.body.as_str()), (StatusCode::OK, ""));
    assert_eq!(head.epoch, Some(epoch.to_string()));
    assert_eq!(head.leader.as_deref(), Some(HOME));

    let (answer, body) = there.names(Some("worker-1")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.leader.as_deref(), Some(HOME));
    assert_eq!(answer.epoch, Some(epoch.to_string()));
    let expected = json!({
        "election": "web/coordinator", "candidate": "worker-2", "leading": false, "leader": whole,
    });
    assert_eq!(body, expected);
    let head = there.ask(Method::HEAD, "/leader").await;
    assert_eq!(head.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(head.leader.as_deref(), Some(HOME));
    assert_eq!(head.epoch, Some(epoch.to_string()));

    // A process is alive and ready, whether or not it leads.
    for routes in [&here, &there] {
        assert_eq!(routes.status("/livez").await, StatusCode::OK);
        assert_eq!(routes.status("/readyz").await, StatusCode::OK);
    }

    term.resign().await;
    let (answer, body) = here.leader().await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body["leading"], false);
    there.names(None).await;
}

/// Safety: no answer with status 200 comes after the term.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_answers_by_its_own_clock() {
    let store = LocalStore::start();
    let proxy = Proxy::start(store.address()).await.unwrap();
    let candidate = connect(quick(config(proxy.address(), "worker-1"))).await;
    let routes = Routes::serve(&candidate).await;
    let term = candidate.campaign().await.expect("a term");
    assert_eq!(routes.status("/leader").await, StatusCode::OK);

    proxy.set(ProxyMode::Hang);
    wait_until("the end of the term", async || {
        (!term.is_valid()).then_some(())
    })
    .await;
    assert!(candidate.leadership().is_none());
    let (answer, body) = routes.leader().await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.epoch, None);
    // The last answer of the store names this candidate, and must not be used.
    assert_eq!(
        (&body["leading"], &body["leader"]),
        (&json!(false), &json!(null))
    );
    assert_eq!(answer.leader, None);
    assert_eq!(routes.status("/readyz").await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_do_not_keep_a_candidate_and_are_not_ready_without_it() {
    let store = LocalStore::start();
    let candidate = connect(config(store.address(), "worker-1")).await;
    let other = connect(config(store.address(), "worker-2")).await;
    let routes = Routes::serve(&candidate).await;
    let term = candidate.campaign().await.expect("a term");
    assert_eq!(routes.status("/leader").await, StatusCode::OK);
    drop(term);
    drop(candidate);
    wait_until("the end of readiness", async || {
        (routes.status("/readyz").await == StatusCode::SERVICE_UNAVAILABLE).then_some(())
    })
    .await;
    assert_eq!(routes.status("/livez").await, StatusCode::OK);
    assert_eq!(
        routes.status("/leader").await,
        StatusCode::SERVICE_UNAVAILABLE
    );
    // The lease is free, too.
    let _next = other.campaign().await.expect("a term");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_not_a_valid_header_is_only_in_the_body() {
    let store = LocalStore::start();
    let forged = "http://10.0.0.7\r\nset-cookie: a=b";
    let forger = config(store.address(), "worker-1")
        .with_metadata(BTreeMap::from([(ADDRESS.into(), forged.into())]));
    let (forger, other) = (
        connect(forger).await,
        connect(config(store.address(), "worker-2")).await,
    );
    let routes = Routes::serve(&other).await;
    let _term = forger.campaign().await.expect("a term");
    let (answer, body) = routes.names(Some("worker-1")).await;
    assert_eq!(answer.leader, None);
    assert!(answer.epoch.is_some());
    assert_eq!(body["leader"]["address"], forged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_knows_its_own_term_and_its_guarantee() {
    let store = LocalStore::start();
    let candidate = connect(config(store.address(), "worker-1")).await;
    assert_eq!(candidate.guarantee(), Guarantee::FencedLease);
    assert!(candidate.leadership().is_none());
    let term = candidate.campaign().await.expect("a term");
    let seen = candidate.leadership().expect("a running term");
    assert_eq!(seen.epoch(), term.epoch());
    term.resign().await;
    assert!(candidate.leadership().is_none() && !seen.is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_routes_show_the_proclaimed_metadata() {
    let store = LocalStore::start();
    let leader = connect(config(store.address(), "worker-1")).await;
    let other = connect(config(store.address(), "worker-2")).await;
    let (here, there) = (Routes::serve(&leader).await, Routes::serve(&other).await);
    let leadership = leader.campaign().await.expect("a term");
    let moved = BTreeMap::from([(ADDRESS.to_owned(), "http://10.0.0.8:80".to_owned())]);
    leadership
        .proclaim(moved)
        .await
        .expect("the store accepts it");
    for routes in [&here, &there] {
        wait_until("the new address", async || {
            let (_, body) = routes.leader().await;
            (body["leader"]["address"] == "http://10.0.0.8:80").then_some(())
        })
        .await;
    }
}
