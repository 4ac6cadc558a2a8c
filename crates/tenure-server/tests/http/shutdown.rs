//! Graceful shutdowns: no client hangs, and no change is lost.

use std::time::Duration;

use crate::common::{assert_ok, assert_refused, id, in_memory, outcome, start};
use serde_json::json;
use tenure_server::StoreConfig;
use tokio::time::Instant;

#[tokio::test]
async fn waiters_get_a_response_at_once_and_the_server_ends() {
    let server = in_memory();
    let api = server.api.clone();
    let (_, held) = api.acquire("job", 1).await;
    let waiting = api.waiting("job", 2, &json!({}));
    api.queue_of("job", 1).await;
    let poll = {
        let after = &held["revision"];
        let url = format!("{}?after={after}&wait_ms=60000", api.url("job", ""));
        let request = api.http.get(url).send();
        tokio::spawn(async move { request.await.unwrap() })
    };
    // No event shows that the poll waits. For this test it is enough that the request was sent.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let begun = Instant::now();
    let ended = server.begin_stop();
    assert_refused(&outcome(waiting).await.0, 503, "stopping");
    let polled = outcome(poll).await;
    assert_eq!(polled.status(), 503);
    assert!(polled.headers().contains_key("retry-after"));
    outcome(ended).await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn acknowledged_changes_survive_a_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let (_, granted) = server.api.acquire("job", 1).await;
    server.stop().await.unwrap();

    let server = start(StoreConfig::folder(folder.path()));
    let (_, view) = server.api.get("job").await;
    assert_eq!(view["epoch"], granted["epoch"]);
    let renewed = server
        .api
        .post("job", "renew", json!({"lease_id": id(1)}))
        .await;
    assert_ok(&renewed);
    server.stop().await.unwrap();
}
