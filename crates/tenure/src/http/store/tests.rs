//! Requests to a store with several servers, of which one is active.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use tenure_core::lease::State;
use tenure_core::lease::candidate::{Timings, TimingsOptions};
use tenure_core::wire::{Code, LeaseView, OWNERSHIP_HEADER, Problem, STORE_HEADER};
use tokio::net::TcpListener;

use super::client::CheckStore;
use super::{Endpoint, StoreClient, StoreError};
use crate::{Candidate, Config};

/// What a server answers.
#[derive(Clone, Debug, PartialEq)]
enum Mode {
    Active,
    /// It names this URL as that of the active server.
    Standby(Option<String>),
    /// A standby that does not know the id of the store.
    NewStandby,
    /// It takes the request and never answers.
    Hang,
    Refuse(Code),
}

/// Servers of one store, and their requests in the order of their arrival.
struct Servers {
    endpoints: Vec<Endpoint>,
    modes: Arc<Mutex<Vec<Mode>>>,
    asked: Arc<Mutex<Vec<usize>>>,
}

impl Servers {
    async fn start(modes: &[Mode]) -> Self {
        let mut servers = Self {
            endpoints: Vec::new(),
            modes: Arc::new(Mutex::new(modes.to_vec())),
            asked: Arc::default(),
        };
        for index in 0..modes.len() {
            let (modes, asked) = (Arc::clone(&servers.modes), Arc::clone(&servers.asked));
            let routes = Router::new().fallback(move |request: Request| {
                asked.lock().unwrap().push(index);
                let mode = modes.lock().unwrap()[index].clone();
                async move { answer(mode, request.uri().path()).await }
            });
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move { axum::serve(listener, routes).await });
            let endpoint = format!("http://{address}");
            servers.endpoints.push(endpoint.parse().unwrap());
        }
        servers
    }

    fn client(&self) -> StoreClient {
        StoreClient::new(&self.endpoints).unwrap()
    }

    fn set(&self, index: usize, mode: Mode) {
        self.modes.lock().unwrap()[index] = mode;
    }

    fn url(&self, index: usize) -> Option<String> {
        Some(self.endpoints[index].to_string())
    }

    /// Returns the servers that got requests since the last call.
    fn asked(&self) -> Vec<usize> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn answer(mode: Mode, path: &str) -> Response {
    let refusal = |problem: Problem| {
        let status = StatusCode::from_u16(problem.status).unwrap();
        (status, serde_json::to_vec(&problem).unwrap()).into_response()
    };
    let mut response = match mode.clone() {
        Mode::Hang => pending().await,
        _ if path == "/livez" => StatusCode::OK.into_response(),
        Mode::Active if path == "/active" => StatusCode::OK.into_response(),
        Mode::Active => {
            let mut view = LeaseView::new("tests", "job", State::Leased);
            view.epoch = Some(7);
            serde_json::to_vec(&view).unwrap().into_response()
        }
        Mode::Standby(active) => refusal(Problem {
            active: active.map(Into::into),
            ..Problem::new(Code::NotActive, "this server is a standby")
        }),
        Mode::NewStandby => refusal(Problem::new(Code::NotActive, "this server is a standby")),
        Mode::Refuse(code) => refusal(Problem::new(code, "no")),
    };
    let headers = response.headers_mut();
    headers.insert(OWNERSHIP_HEADER, 3_000.into());
    if mode != Mode::NewStandby {
        headers.insert(STORE_HEADER, "0123".parse().unwrap());
    }
    response
}

fn job() -> tenure_core::ElectionName {
    "tests/job".parse().unwrap()
}

#[tokio::test]
async fn each_address_is_asked_once_until_the_active_server_answers_and_that_one_first_then() {
    let standby = || Mode::Standby(None);
    let servers = Servers::start(&[standby(), standby(), Mode::Active]).await;
    let client = servers.client();
    assert!(client.lease(&job()).await.unwrap().is_some());
    assert_eq!(servers.asked(), [0, 1, 2]);
    assert!(client.lease(&job()).await.unwrap().is_some());
    assert_eq!(servers.asked(), [2]);
    // No server is active.
    servers.set(2, standby());
    let error = client.lease(&job()).await.unwrap_err();
    assert!(error.of_standby().is_some(), "{error}");
    assert_eq!(servers.asked(), [2, 0, 1]);
}

#[tokio::test]
async fn the_address_that_a_standby_names_is_next_if_it_is_one_of_the_clients_own() {
    let servers = Servers::start(&[Mode::Active, Mode::Active, Mode::Active, Mode::Active]).await;
    servers.set(0, Mode::Standby(servers.url(2)));
    let client = StoreClient::new(&servers.endpoints[..3]).unwrap();
    client.lease(&job()).await.unwrap();
    assert_eq!(servers.asked(), [0, 2]);
    // A server that is not among the addresses of the client never gets a request.
    servers.set(2, Mode::Standby(servers.url(3)));
    client.lease(&job()).await.unwrap();
    assert_eq!(servers.asked(), [2, 0, 1]);
}

#[tokio::test]
async fn an_answer_about_the_request_ends_the_round() {
    for (code, asked) in [
        (Code::Forbidden, &[0][..]),
        (Code::OverLimit, &[0]),
        (Code::HomeUnavailable, &[0, 1]),
        (Code::Stopping, &[0, 1]),
    ] {
        let servers = Servers::start(&[Mode::Refuse(code), Mode::Standby(None)]).await;
        let client = servers.client();
        // A standby only says that it is one, so the other answer is the reason.
        match client.lease(&job()).await.unwrap_err() {
            StoreError::Problem(problem) => assert_eq!(problem.code, code),
            error => panic!("{error}"),
        }
        assert_eq!(servers.asked(), asked, "{code:?}");
    }
}

#[derive(Debug, Default)]
struct Known(Mutex<Vec<Option<String>>>);

impl CheckStore for Known {
    fn is_known(&self) -> bool {
        true
    }

    fn check<'a>(&'a self, id: Option<&'a str>) -> BoxFuture<'a, Result<(), String>> {
        self.0.lock().unwrap().push(id.map(Into::into));
        let known = id == Some("0123");
        Box::pin(async move { known.then_some(()).ok_or_else(|| "another store".into()) })
    }
}

#[tokio::test]
async fn a_standby_without_the_id_of_the_store_is_not_taken_for_another_store() {
    let servers = Servers::start(&[Mode::NewStandby, Mode::Active]).await;
    let known = Arc::new(Known::default());
    let client = servers.client().with_check(Some(known.clone()));
    assert_eq!(client.ownership(), None);
    client.lease(&job()).await.unwrap();
    assert_eq!(servers.asked(), [0, 1]);
    assert_eq!(*known.0.lock().unwrap(), [Some("0123".to_owned())]);
    assert_eq!(client.ownership(), Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn a_request_for_a_promise_passes_over_a_standby_that_does_not_know_the_id_of_its_store() {
    let servers = Servers::start(&[Mode::NewStandby, Mode::Active]).await;
    let known = Arc::new(Known::default());
    let client = servers.client().with_check(Some(known.clone()));
    let call = super::Call {
        is_promise: true,
        ..super::Call::get(super::path(&job(), ""))
    };
    client.ask_once::<LeaseView>(&call).await.unwrap();
    assert_eq!(servers.asked(), [0, 1, 1]);
    let checked = known.0.lock().unwrap();
    assert!(
        checked.iter().all(|id| id.as_deref() == Some("0123")),
        "{checked:?}"
    );
}

#[tokio::test]
async fn a_request_for_a_promise_is_sent_to_no_server_before_its_store_is_confirmed() {
    let servers = Servers::start(&[Mode::Active, Mode::Active]).await;
    let client = servers
        .client()
        .with_check(Some(Arc::new(Known::default())));
    let call = super::Call {
        is_promise: true,
        ..super::Call::get(super::path(&job(), ""))
    };
    let ask = async || client.ask_once::<LeaseView>(&call).await.unwrap();
    ask().await;
    assert_eq!(
        servers.asked(),
        [0, 0],
        "a question for the id, and the request"
    );
    ask().await;
    assert_eq!(servers.asked(), [0]);
    // Another server of the list must be of the same store, too.
    servers.set(0, Mode::Standby(None));
    ask().await;
    assert_eq!(servers.asked(), [0, 1, 1]);
}

/// The first server is active, then stops to answer, as a machine that is gone. Much later another
/// one is active.
#[tokio::test]
async fn a_leader_keeps_its_term_while_another_server_takes_over() {
    let servers = Servers::start(&[Mode::Active, Mode::Standby(None), Mode::Standby(None)]).await;
    let mut options = TimingsOptions::default();
    options.lease_duration = Some(Duration::from_secs(32));
    options.renew_interval = Some(Duration::from_millis(500));
    options.renew_deadline = Some(Duration::from_secs(20));
    options.stop_grace = Some(Duration::from_secs(1));
    let config = Config::new(job())
        .with_servers(servers.endpoints.clone())
        .with_timings(Timings::new(&options).unwrap());
    let candidate = Candidate::start(config).await.unwrap();
    let guard = candidate.campaign().await.unwrap();
    servers.set(0, Mode::Hang);
    guard.at_risk().await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    servers.set(2, Mode::Active);
    while guard.is_at_risk() {
        assert!(guard.is_valid());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    servers.asked();
    // The next renewals go to the active server at once.
    let mut asked = Vec::new();
    while asked.len() < 2 {
        assert!(guard.is_valid());
        tokio::time::sleep(Duration::from_millis(20)).await;
        asked.extend(servers.asked());
    }
    assert!(asked.iter().all(|&server| server == 2), "{asked:?}");
}
