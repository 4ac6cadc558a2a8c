//! Leases that are held again for a term that has run without the store.

use std::time::Duration;

use crate::common::{Answer, Api, SOON, assert_ok, assert_refused, id, in_memory, killed, start};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::{Existing, StoreConfig, backup, restore};
use tokio::time::{Instant, sleep};

/// Returns a store in memory and a store on disk.
fn both() -> [(crate::common::Running, Option<TempDir>); 2] {
    let folder = tempfile::tempdir().unwrap();
    let embedded = start(StoreConfig::folder(folder.path()));
    [(in_memory(), None), (embedded, Some(folder))]
}

/// Returns the body of a resume of this term, which has run without the store for this time.
fn of_term(number: u32, epoch: u64, without_store_ms: u64) -> Value {
    json!({
        "holder": format!("c{number}"), "duration_ms": 60_000, "lease_id": id(number),
        "resume": {"epoch": epoch, "without_store_ms": without_store_ms},
    })
}

async fn resume(api: &Api, number: u32, epoch: u64, without_store_ms: u64) -> Answer {
    api.post("job", "acquire", of_term(number, epoch, without_store_ms))
        .await
}

/// Acquires the lease for a second, lets it expire, and returns its epoch.
async fn expired(api: &Api) -> u64 {
    let body = json!({"holder": "c1", "lease_id": id(1), "duration_ms": 1_000});
    let granted = api.post("job", "acquire", body).await;
    assert_ok(&granted);
    let until = Instant::now() + SOON;
    while api.get("job").await.1["state"] != "expired" {
        assert!(Instant::now() < until);
        sleep(Duration::from_millis(20)).await;
    }
    granted.1["epoch"].as_u64().unwrap()
}

async fn terms(api: &Api) -> Vec<Value> {
    let (status, body) = api.history("job").await;
    assert_eq!(status, 200, "{body}");
    body["terms"].as_array().unwrap().clone()
}

fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().expect("a time").parse().unwrap()
}

#[tokio::test]
async fn a_term_continues_under_its_epoch_after_its_lease_expired() {
    for (server, folder) in both() {
        let api = &server.api;
        let epoch = expired(api).await;
        let before = terms(api).await;
        assert_eq!(before[0]["end"], "expired");
        let resumed = resume(api, 1, epoch, 700).await;
        assert_ok(&resumed);
        assert_eq!(resumed.1["epoch"], epoch);
        assert_eq!(resumed.1["lease_id"], id(1));

        let (_, lease) = api.get("job").await;
        assert_eq!(
            (&lease["state"], &lease["holder"]),
            (&json!("leased"), &json!("c1"))
        );
        assert_eq!(lease["granted_at"], before[0]["began_at"]);
        let period = lease["without_store"].clone();
        assert_eq!(
            (&period["periods"], &period["total_ms"]),
            (&json!(1), &json!(700))
        );
        let lasted = time(&period["to"]) - time(&period["from"]);
        assert_eq!(lasted.num_milliseconds(), 700);
        let verified = api.post("job", "verify", json!({"epoch": epoch})).await;
        assert_eq!(verified.1["current"], true);

        // The history has one term, which has not ended.
        let history = terms(api).await;
        assert_eq!(history.len(), 1);
        assert!(history[0]["end"].is_null() && history[0]["ended_at"].is_null());
        assert_eq!(history[0]["began_at"], before[0]["began_at"]);
        assert_eq!(history[0]["without_store"], period);

        // The lease id holds the lease as before.
        assert_ok(&api.renew("job", 1).await);
        assert_ok(&api.release("job", 1).await);
        let history = terms(api).await;
        assert_eq!((history.len(), &history[0]["end"]), (1, &json!("released")));
        assert_eq!(history[0]["without_store"], period);
        assert_ok(&api.acquire("job", 2).await);
        let history = terms(api).await;
        assert_eq!(history[0].get("without_store"), None);
        assert_eq!(history[1]["without_store"], period);
        server.stop().await.unwrap();
        if let Some(folder) = folder {
            let again = start(StoreConfig::folder(folder.path()));
            assert_eq!(terms(&again.api).await, history);
        }
    }
}

#[tokio::test]
async fn a_resumed_term_survives_a_stop_a_kill_and_a_restore() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let api = &server.api;
    let epoch = expired(api).await;
    assert_ok(&resume(api, 1, epoch, 700).await);
    let history = terms(api).await;
    assert!(history[0]["end"].is_null() && !history[0]["without_store"].is_null());

    let place = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().to_owned(), place.path().join("backup.db"));
    let restored = place.path().join("restored");
    let (from, to) = (file.clone(), restored.clone());
    let copy = move || {
        backup(&store, &file, Existing::Keep).unwrap();
        restore(&from, &to).unwrap();
    };
    tokio::task::spawn_blocking(copy).await.unwrap();
    let copy = killed(folder.path());
    server.stop().await.unwrap();
    for folder in [copy.path(), folder.path(), &restored] {
        let server = start(StoreConfig::folder(folder));
        assert_eq!(terms(&server.api).await, history);
        let (_, lease) = server.api.get("job").await;
        assert_eq!(
            (&lease["state"], &lease["epoch"]),
            (&json!("leased"), &json!(epoch))
        );
        assert_eq!(lease["without_store"], history[0]["without_store"]);
        assert_ok(&server.api.renew("job", 1).await);
        assert_ok(&server.api.release("job", 1).await);
        let ended = terms(&server.api).await;
        assert_eq!((ended.len(), &ended[0]["end"]), (1, &json!("released")));
        assert_eq!(ended[0]["without_store"], history[0]["without_store"]);
    }
}

#[tokio::test]
async fn a_resume_does_not_go_before_requests_that_wait() {
    let server = in_memory();
    let api = &server.api;
    let body = json!({"holder": "c1", "lease_id": id(1), "duration_ms": 1_000});
    let (_, granted) = api.post("job", "acquire", body).await;
    let epoch = granted["epoch"].as_u64().unwrap();
    let waiting = api.waiting("job", 2, &json!({}));
    api.queue_of("job", 1).await;
    let (second, _) = crate::common::outcome(waiting).await;
    assert_ok(&second);
    assert_refused(&resume(api, 1, epoch, 0).await, 409, "lease_held");
}

#[tokio::test]
async fn a_wrong_resume_is_refused_with_its_field() {
    let server = in_memory();
    let refused = [
        (
            json!({"wait_ms": 5_000}),
            422,
            "out_of_range",
            "wait_ms is 5000 and must be 0",
        ),
        (
            json!({"lease_id": null}),
            422,
            "out_of_range",
            "lease_id is missing",
        ),
        (
            json!({"min_epoch": 7}),
            422,
            "out_of_range",
            "min_epoch must be absent",
        ),
        (
            json!({"resume": {"epoch": 7}}),
            400,
            "malformed",
            "without_store_ms",
        ),
        (
            json!({"resume": {"without_store_ms": 7}}),
            400,
            "malformed",
            "epoch",
        ),
        (json!({"resume": [7, 7]}), 400, "malformed", "a JSON object"),
        (
            json!({"resume": {"epoch": 7, "without_store_ms": 7, "wait": 1}}),
            400,
            "unknown_field",
            "wait",
        ),
        (
            json!({"resume": {"epoch": -1, "without_store_ms": 7}}),
            422,
            "out_of_range",
            "resume.epoch is -1 and must be 0 to 9007199254740991",
        ),
        (
            json!({"resume": {"epoch": 7, "without_store_ms": -1}}),
            422,
            "out_of_range",
            "resume.without_store_ms is -1 and must be 0 to 9007199254740991",
        ),
        (
            json!({"resume": {"epoch": 9_007_199_254_740_991_u64, "without_store_ms": 7}}),
            422,
            "out_of_range",
            "the requested epoch is 9007199254740991 and must be at most",
        ),
    ];
    for (fields, status, code, detail) in refused {
        let mut body = of_term(1, 7, 7);
        for (field, value) in fields.as_object().unwrap() {
            body[field] = value.clone();
        }
        let answer = server.api.post("job", "acquire", body.clone()).await;
        assert_refused(&answer, status, code);
        let told = answer.1["detail"].as_str().unwrap();
        assert!(told.contains(detail), "{body}: {told}");
    }
    let mut body = of_term(1, 7, 7);
    body["resume"] = Value::Null;
    assert_ok(&server.api.post("job", "acquire", body).await);
}

#[tokio::test]
async fn a_term_continues_after_a_restart_although_a_greater_epoch_was_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let epoch = expired(&server.api).await;
    let ahead = json!({"holder": "c2", "lease_id": id(2), "duration_ms": 1_000, "min_epoch": epoch + 86_400_000});
    assert_ok(&server.api.post("gone", "acquire", ahead).await);
    assert_ok(&server.api.release("gone", 2).await);
    assert_eq!(server.api.delete("gone").await.0, 204);
    server.stop().await.unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let resumed = resume(&server.api, 1, epoch, 700).await;
    assert_ok(&resumed);
    assert_eq!(resumed.1["epoch"], epoch);
    server.stop().await.unwrap();
}
