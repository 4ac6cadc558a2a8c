//! The term history of leases.

use std::time::Duration;

use crate::common::{Answer, Api, SOON, assert_ok, assert_refused, id, in_memory, killed, start};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::{Limits, StoreConfig};
use tokio::time::{Instant, sleep};

fn terms((status, body): &Answer) -> &Vec<Value> {
    assert_eq!(*status, 200, "{body}");
    body["terms"].as_array().unwrap()
}

/// Returns the holder, the end and the reason of each term, newest first.
async fn told(api: &Api, lease: &str) -> Vec<[Value; 3]> {
    let history = api.history(lease).await;
    let parts = |term: &Value| ["holder", "end", "reason"].map(|field| term[field].clone());
    terms(&history).iter().map(parts).collect()
}

fn row(holder: &str, end: impl Into<Value>, reason: impl Into<Value>) -> [Value; 3] {
    [holder.into(), end.into(), reason.into()]
}

async fn break_lease(api: &Api, lease: &str, period: u64, reason: &str) {
    let body = json!({"break_period_ms": period, "reason": reason});
    assert_ok(&api.post(lease, "break", body).await);
}

/// Waits until no candidate holds the lease.
async fn until_over(api: &Api, lease: &str) {
    let until = Instant::now() + SOON;
    while !api.get(lease).await.1["holder"].is_null() {
        assert!(Instant::now() < until);
        sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a store in memory and a store on disk.
fn both() -> [(crate::common::Running, Option<TempDir>); 2] {
    let folder = tempfile::tempdir().unwrap();
    let embedded = start(StoreConfig::folder(folder.path()));
    [(in_memory(), None), (embedded, Some(folder))]
}

#[tokio::test]
async fn a_history_is_read_page_by_page() {
    const TERMS: u32 = 450;
    let limits = Limits {
        max_history: 1_000,
        ..Limits::default()
    };
    let folder = tempfile::tempdir().unwrap();
    for config in [StoreConfig::memory(), StoreConfig::folder(folder.path())] {
        let server = start(config.with_limits(limits.clone()));
        let api = &server.api;
        let reason = "r".repeat(500);
        for number in 0..TERMS {
            assert_ok(&api.acquire("job", number).await);
            let body = json!({"lease_id": id(number), "reason": reason});
            assert_ok(&api.post("job", "release", body).await);
        }
        assert_ok(&api.acquire("job", TERMS).await);
        let (mut epochs, mut pages, mut query) = (Vec::new(), 0, String::new());
        loop {
            let url = api.url("job", "history") + &query;
            let page = crate::common::answer(api.http.get(url).send().await.unwrap()).await;
            assert!(page.1.to_string().len() <= 256 * 1024);
            epochs.extend(
                terms(&page)
                    .iter()
                    .map(|term| term["epoch"].as_u64().unwrap()),
            );
            pages += 1;
            let Some(next) = page.1["next"].as_u64() else {
                break;
            };
            query = format!("?before={next}");
        }
        assert_eq!((epochs.len(), pages), (451, 2));
        assert!(epochs.is_sorted_by(|newer, older| newer > older));
    }
}

#[tokio::test]
async fn a_history_has_each_end_of_a_term_with_its_reason_newest_first() {
    for (server, _folder) in both() {
        let api = &server.api;
        assert_refused(&api.history("job").await, 404, "unknown_lease");
        assert_ok(&api.acquire("job", 1).await);
        assert_eq!(
            told(api, "job").await,
            [row("c1", Value::Null, Value::Null)]
        );
        let release = json!({"lease_id": id(1), "reason": "done"});
        assert_ok(&api.post("job", "release", release).await);

        assert_ok(&api.acquire("job", 2).await);
        break_lease(api, "job", 0, "stuck").await;

        assert_ok(&api.acquire("job", 3).await);
        let hand_over = json!({"lease_id": id(3), "to": "c4", "within_ms": 60_000, "force": true});
        assert_ok(&api.post("job", "handover", hand_over).await);

        assert_ok(&api.acquire("job", 4).await);
        let switch_over = json!({"to": "c5", "within_ms": 50, "force": true, "reason": "repair"});
        assert_ok(&api.post("job", "handover", switch_over).await);
        until_over(api, "job").await;

        let second = json!({"holder": "c5", "lease_id": id(5), "duration_ms": 1_000});
        assert_ok(&api.post("job", "acquire", second).await);
        until_over(api, "job").await;
        // This release uses the old id of a term that has ended. The term does not end again.
        assert_ok(&api.release("job", 5).await);

        assert_ok(&api.acquire("job", 6).await);
        break_lease(api, "job", 60_000, "deploy").await;
        let running = row("c6", Value::Null, "deploy");
        let ended = [
            row("c5", "expired", Value::Null),
            row("c4", "handed_over", "repair"),
            row("c3", "handed_over", Value::Null),
            row("c2", "broken", "stuck"),
            row("c1", "released", "done"),
        ];
        let all = [[running].as_slice(), &ended].concat();
        assert_eq!(told(api, "job").await, all);

        // The holder releases the lease before the break period is over. The reason is that of the
        // break.
        let release = json!({"lease_id": id(6), "reason": "broken"});
        assert_ok(&api.post("job", "release", release).await);
        let all = [[row("c6", "broken", "deploy")].as_slice(), &ended].concat();
        assert_eq!(told(api, "job").await, all);
        let epochs: Vec<u64> = terms(&api.history("job").await)
            .iter()
            .map(|term| term["epoch"].as_u64().unwrap())
            .collect();
        assert!(epochs.is_sorted_by(|a, b| a > b), "{epochs:?}");
    }
}

#[tokio::test]
async fn only_the_last_terms_are_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_history: 3,
        ..Limits::default()
    };
    let embedded = || StoreConfig::folder(folder.path()).with_limits(limits.clone());
    for config in [
        StoreConfig::memory().with_limits(limits.clone()),
        embedded(),
    ] {
        let server = start(config);
        let api = &server.api;
        for number in 1..=2 {
            assert_ok(&api.acquire("job", number).await);
            assert_ok(&api.release("job", number).await);
        }
        assert_ok(&api.acquire("job", 3).await);
        let holders = async || {
            let told = told(api, "job").await;
            told.into_iter()
                .map(|[holder, ..]| holder)
                .collect::<Vec<_>>()
        };
        assert_eq!(holders().await, ["c3", "c2", "c1"]);
        assert_ok(&api.release("job", 3).await);
        assert_eq!(holders().await, ["c3", "c2", "c1"]);
        assert_ok(&api.acquire("job", 4).await);
        assert_eq!(holders().await, ["c4", "c3", "c2"]);
        server.stop().await.unwrap();
    }
    // A store with a lower limit forgets the older terms, and a higher limit does not bring them
    // back.
    let fewer = Limits {
        max_history: 2,
        ..limits.clone()
    };
    let server = start(StoreConfig::folder(folder.path()).with_limits(fewer));
    assert_eq!(told(&server.api, "job").await.len(), 2);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_history_survives_a_stop_and_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let api = &server.api;
    assert_ok(&api.acquire("job", 1).await);
    break_lease(api, "job", 0, "stuck").await;
    assert_ok(&api.acquire("job", 2).await);
    assert_ok(&api.acquire("breaking", 3).await);
    break_lease(api, "breaking", 100, "deploy").await;
    let job = api.history("job").await;
    assert_eq!(terms(&job).len(), 2);

    let copy = killed(folder.path());
    server.stop().await.unwrap();
    for folder in [copy.path(), folder.path()] {
        let server = start(StoreConfig::folder(folder));
        assert_eq!(server.api.history("job").await, job);
        // The break continues, and its reason is kept.
        until_over(&server.api, "breaking").await;
        let expected = [row("c3", "broken", "deploy")];
        assert_eq!(told(&server.api, "breaking").await, expected);
        assert_ok(&server.api.release("job", 2).await);
        assert_eq!(
            told(&server.api, "job").await,
            [
                row("c2", "released", Value::Null),
                row("c1", "broken", "stuck")
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_read_while_terms_end_has_each_term_once() {
    for (server, _folder) in both() {
        let api = server.api.clone();
        let ending = tokio::spawn(async move {
            for number in 1..=60 {
                assert_ok(&api.acquire("job", number).await);
                assert_ok(&api.release("job", number).await);
            }
        });
        let mut most = 0;
        while !ending.is_finished() {
            let answer = server.api.history("job").await;
            if answer.0 == 404 {
                continue;
            }
            let terms = terms(&answer);
            // The history has all terms from the newest to the first, and only the newest may still
            // run.
            for (term, number) in terms.iter().zip((1..=terms.len()).rev()) {
                assert_eq!(term["holder"], format!("c{number}"), "{terms:?}");
            }
            assert!(terms.iter().skip(1).all(|term| term["end"] == "released"));
            assert!(terms.len() >= most);
            most = terms.len();
        }
        ending.await.unwrap();
        assert_eq!(told(&server.api, "job").await.len(), 60);
    }
}
