//! Tests of the routes that show many leases at once.

use std::time::Duration;

use crate::common::{
    Answer, Api, Running, SOON, answer, assert_ok, assert_refused, id, in_memory, minute, served,
};
use reqwest::Method;
use serde_json::{Value, json};
use tenure_server::access::Access;
use tenure_server::{MetricsConfig, Server, Store, StoreConfig};
use tokio::time::{Instant, sleep};

/// Acquires `namespace/lease` for this holder.
async fn acquire(api: &Api, name: &str, number: u32, more: Value) -> Value {
    let (namespace, lease) = name.split_once('/').unwrap();
    let mut body = minute(number);
    for (field, value) in more.as_object().unwrap() {
        body[field] = value.clone();
    }
    let path = format!("/v1/namespaces/{namespace}/leases/{lease}/acquire");
    let request = api.request(Method::POST, &path).json(&body);
    let acquired = answer(request.send().await.unwrap()).await;
    assert_ok(&acquired);
    acquired.1
}

async fn get(api: &Api, path: &str) -> Answer {
    answer(api.request(Method::GET, path).send().await.unwrap()).await
}

/// Returns an overview that satisfies the condition.
async fn overview(api: &Api, query: &str, mut is_it: impl FnMut(&Value) -> bool) -> Value {
    let until = Instant::now() + SOON;
    loop {
        let seen = get(api, &format!("/v1/overview{query}")).await;
        assert_ok(&seen);
        if is_it(&seen.1) {
            return seen.1;
        }
        assert!(Instant::now() < until, "{}", seen.1);
        sleep(Duration::from_millis(20)).await;
    }
}

fn names(overview: &Value) -> Vec<String> {
    let rows = overview["elections"].as_array().unwrap().iter();
    rows.map(|row| {
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        format!("{}/{}", text("namespace"), text("lease"))
    })
    .collect()
}

fn row<'a>(overview: &'a Value, lease: &str) -> &'a Value {
    let mut rows = overview["elections"].as_array().unwrap().iter();
    rows.find(|row| row["lease"] == lease).unwrap()
}

/// Starts a store with some leases in several states.
async fn with_leases() -> Running {
    let running = in_memory();
    let api = &running.api;
    acquire(api, "ns/held", 1, json!({"duration_ms": 3_600_000})).await;
    acquire(api, "ns/infinite", 2, json!({"duration_ms": "infinite"})).await;
    acquire(api, "ns/released", 3, json!({})).await;
    assert_ok(&api.release("released", 3).await);
    acquire(api, "ns/z-broken", 4, json!({})).await;
    assert_ok(
        &api.post("z-broken", "break", json!({"break_period_ms": 0}))
            .await,
    );
    acquire(api, "ns/z-breaking", 5, json!({"holder": "Worker-9"})).await;
    assert_ok(&api.post("z-breaking", "break", json!({})).await);
    acquire(api, "ns-2/a", 6, json!({})).await;
    running
}

#[tokio::test]
async fn an_overview_has_a_row_for_each_lease_and_those_that_need_a_look_first() {
    let running = with_leases().await;
    let api = &running.api;
    let seen = overview(api, "", |_| true).await;
    let expected = [
        "ns/z-breaking",
        "ns/held",
        "ns/infinite",
        "ns/released",
        "ns/z-broken",
        "ns-2/a",
    ];
    assert_eq!(names(&seen), expected);
    let counts = json!({"available": 1, "leased": 3, "breaking": 1, "broken": 1, "expired": 0});
    assert_eq!(seen["states"], counts);
    let numbers = ["leases", "matching", "needs_look"].map(|field| seen[field].as_u64().unwrap());
    assert_eq!((numbers, &seen["too_many"]), ([6, 6, 1], &json!(false)));
    assert!(seen["age_ms"].as_u64().unwrap() < 60_000, "{seen}");
    assert!(seen["at"].as_str().unwrap().ends_with('Z'), "{seen}");

    let held = row(&seen, "held");
    let view = api.get("held").await.1;
    for field in [
        "namespace",
        "lease",
        "state",
        "holder",
        "epoch",
        "duration_ms",
        "granted_at",
    ] {
        assert_eq!(held[field], view[field], "{field}");
    }
    let left = held["remaining_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    let rest = [
        &held["ended_at"],
        &held["waiters"],
        &held["recent_terms"],
        &held["look"],
    ];
    assert_eq!(rest, [&Value::Null, &json!(0), &json!(1), &json!([])]);
    assert!(held.get("owner").is_none(), "{held}");

    let infinite = row(&seen, "infinite");
    assert_eq!(infinite["duration_ms"], "infinite");
    assert_eq!(infinite["remaining_ms"], Value::Null);
    for lease in ["released", "z-broken"] {
        let free = row(&seen, lease);
        for field in ["holder", "duration_ms", "remaining_ms", "granted_at"] {
            assert_eq!(free[field], Value::Null, "{free}");
        }
        assert!(
            free["ended_at"].is_string() && free["epoch"].is_u64(),
            "{free}"
        );
    }
    assert_eq!(row(&seen, "z-breaking")["look"], json!(["breaking"]));
}

#[tokio::test]
async fn an_overview_is_filtered_and_its_counts_are_not() {
    let running = with_leases().await;
    for (query, expected) in [
        ("?q=HELD", vec!["ns/held"]),
        ("?q=worker-9", vec!["ns/z-breaking"]),
        ("?q=ns/z", vec!["ns/z-breaking", "ns/z-broken"]),
        ("?q=none", vec![]),
        ("?namespace=ns-2", vec!["ns-2/a"]),
        ("?namespace=other", vec![]),
        ("?state=broken", vec!["ns/z-broken"]),
        ("?look=true", vec!["ns/z-breaking"]),
        ("?limit=2", vec!["ns/z-breaking", "ns/held"]),
        ("?q=z&state=leased", vec![]),
    ] {
        let seen = overview(&running.api, query, |_| true).await;
        assert_eq!(names(&seen), expected, "{query}");
        assert_eq!(
            (&seen["leases"], &seen["needs_look"]),
            (&json!(6), &json!(1))
        );
        let matching = if query == "?limit=2" {
            6
        } else {
            expected.len()
        };
        assert_eq!(seen["matching"], json!(matching), "{query}");
    }
    for (query, status, code) in [
        ("?limit=0", 422, "out_of_range"),
        ("?limit=201", 422, "out_of_range"),
        ("?limit=x", 400, "malformed"),
        ("?look=yes", 400, "malformed"),
        ("?state=held", 400, "malformed"),
        ("?namespace=a%2Fb", 400, "invalid_name"),
        ("?q=a&q=b", 400, "malformed"),
        ("?order=name", 400, "unknown_field"),
    ] {
        let refused = get(&running.api, &format!("/v1/overview{query}")).await;
        assert_refused(&refused, status, code);
    }
}

#[tokio::test]
async fn waiters_are_listed_in_the_order_in_which_they_are_granted_the_lease() {
    let running = in_memory();
    let api = &running.api;
    assert_ok(&api.acquire("job", 1).await);
    let path = "/v1/namespaces/ns/leases/job/waiters";
    assert_eq!(get(api, path).await, (200, json!({"waiters": []})));
    let mut waiting = Vec::new();
    for (count, number, priority) in [(1, 2, 200), (2, 3, 100), (3, 4, 200)] {
        waiting.push(api.waiting("job", number, &json!({"priority": priority})));
        api.queue_of("job", count).await;
    }
    let (status, seen) = get(api, path).await;
    assert_eq!(status, 200, "{seen}");
    let waiters = seen["waiters"].as_array().unwrap().iter();
    let short = waiters.map(|waiter| {
        let number = |field: &str| waiter[field].as_u64().unwrap();
        assert!(number("waiting_ms") < 60_000 && waiter.get("owner").is_none());
        assert!(waiter["waiting_since"].as_str().unwrap().ends_with('Z'));
        (
            number("position"),
            waiter["holder"].as_str().unwrap(),
            number("priority"),
        )
    });
    let expected = [(1, "c3", 100), (2, "c2", 200), (3, "c4", 200)];
    assert_eq!(short.collect::<Vec<_>>(), expected);
    for number in 1..=4 {
        assert!(!seen.to_string().contains(&id(number)), "{seen}");
    }
    let missing = get(api, "/v1/namespaces/ns/leases/none/waiters").await;
    assert_refused(&missing, 404, "unknown_lease");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_lease_that_the_metrics_expect_needs_a_look_until_it_is_held() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let metrics = MetricsConfig::default().with_expected(["ns/job"]).unwrap();
    let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
    let running = served(
        server
            .with_access(Access::anonymous())
            .with_metrics(metrics),
    );
    let api = &running.api;
    let seen = overview(api, "", |seen| seen["leases"] == 1).await;
    assert_eq!(seen["elections"][0]["look"], json!(["expected"]), "{seen}");
    acquire(api, "ns/job", 1, json!({})).await;
    overview(api, "", |seen| seen["needs_look"] == 0).await;
}
