//! Answers that no lease store should give.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tenure::store::{StoreClient, StoreError};
use tenure::{Candidate, EndReason, RunError};
use tenure_tests::store::endpoint;
use tenure_tests::wait_until;
use tokio::net::TcpListener;

use crate::world::{ELECTION, World, long, never, stop_when_lost};

/// A server that gives this answer to every request, and counts the requests.
async fn bad_server(answer: fn() -> Response) -> (SocketAddr, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let routes = Router::new().fallback(async move || {
        count.fetch_add(1, Ordering::SeqCst);
        answer()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, asked)
}

fn problem(status: u16, code: &str) -> Response {
    let body = format!(
        r#"{{"type": "about:blank", "title": "No", "status": {status},
            "detail": "the key of team-a opens no leases of team-b", "code": "{code}"}}"#
    );
    let status = StatusCode::from_u16(status).unwrap();
    let kind = [("content-type", "application/problem+json")];
    (status, kind, body).into_response()
}

fn endless() -> Response {
    struct Endless;
    impl futures_core::Stream for Endless {
        type Item = Result<Vec<u8>, std::convert::Infallible>;

        fn poll_next(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Ready(Some(Ok(vec![b' '; 64 * 1024])))
        }
    }
    Body::from_stream(Endless).into_response()
}

/// Answers of other servers at the store's address, or of a proxy before it.
const INVALID: [fn() -> Response; 9] = [
    || "<html>Welcome to nginx!</html>".into_response(),
    || (StatusCode::NOT_FOUND, "<html>Not found</html>").into_response(),
    || (StatusCode::FORBIDDEN, "<html>Forbidden</html>").into_response(),
    || StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    || (StatusCode::FOUND, [("location", "/elsewhere")]).into_response(),
    || "{\"epoch\": \"x\"}".into_response(),
    || (StatusCode::BAD_REQUEST, "[]").into_response(),
    || problem(503, "a_code_of_the_future"),
    endless,
];

#[tokio::test]
async fn a_permanent_refusal_ends_the_run_with_its_message() {
    let (address, asked) = bad_server(|| problem(400, "malformed")).await;
    let world = World::start();
    let config = world.config("a").with_servers([endpoint(address)]);
    let candidate = Candidate::start(config).await.unwrap();
    let refused = [
        candidate.run_while_leader(pending(), stop_when_lost).await,
        candidate
            .run_one_term(pending(), stop_when_lost)
            .await
            .map(|_| ()),
        candidate.campaign().await.map(drop),
    ];
    for refused in refused {
        let Err(RunError::Refused(why)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(
            why,
            "the key of team-a opens no leases of team-b (malformed)"
        );
    }
    // One request each time: a permanent error is not retried.
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_candidate_that_is_never_let_in_says_where_its_token_would_come_from() {
    let (address, asked) = bad_server(|| problem(403, "forbidden")).await;
    let world = World::start();
    let config = world.config("a").with_servers([endpoint(address)]);
    let candidate = Candidate::start(config).await.unwrap();
    let denied = candidate.run_while_leader(pending(), stop_when_lost).await;
    let Err(RunError::Denied(why)) = denied else {
        panic!("{denied:?}");
    };
    assert!(why.contains("team-b (forbidden)"), "{why}");
    assert!(why.contains("TENURE_TOKEN_FILE"), "{why}");
    // The store may not have read the candidate's right yet.
    assert!(asked.load(Ordering::SeqCst) > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_retries_after_invalid_answers() {
    for answer in INVALID {
        let (address, asked) = bad_server(answer).await;
        let world = World::start();
        let config = world.config("a").with_servers([endpoint(address)]);
        let candidate = Candidate::start(config).await.unwrap();
        tokio::select! {
            ended = candidate.run_while_leader(pending(), never) => panic!("{ended:?}"),
            () = wait_until("tries", async || (asked.load(Ordering::SeqCst) >= 3).then_some(())) => {}
        }
        let client = StoreClient::new(&[endpoint(address)]).unwrap();
        let error = client.lease(&ELECTION.parse().unwrap()).await.unwrap_err();
        assert!(
            matches!(error, StoreError::NotAStore { .. } | StoreError::Problem(_)),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_skips_an_address_with_invalid_answers() {
    for answer in INVALID {
        let (address, _) = bad_server(answer).await;
        let world = World::start();
        let config = world.config("a").with_timings(long());
        let config = config.with_servers([endpoint(address), world.store.endpoint()]);
        let candidate = Candidate::start(config).await.unwrap();
        let guard = candidate.campaign().await.unwrap();
        assert_eq!(world.held_by("a").await, guard.epoch().get());
        assert_eq!(guard.resign().await, EndReason::Resigned);
        // A tool does the same.
        let client = StoreClient::new(&[endpoint(address), world.store.endpoint()]).unwrap();
        let lease = client.lease(&ELECTION.parse().unwrap()).await.unwrap();
        assert_eq!(lease.unwrap().holder, None);
    }
}
