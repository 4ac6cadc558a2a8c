//! The limits on waiters.

use super::*;

/// Repeats a waiting request until no limit refuses it.
async fn until_taken(api: &Api, lease: &str, number: u32) {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        let waiting = api.waiting(lease, number, &json!({"wait_ms": 1}));
        if outcome(waiting).await.0.1["code"] == "lease_held" {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("no permit was free again");
}

async fn assert_429(api: &Api, lease: &str, number: u32, parts: &[&str]) {
    let mut wire = Wire::connect(api).await;
    let mut body = minute(number);
    body["wait_ms"] = json!(60_000);
    let path = format!("/v1/namespaces/ns/leases/{lease}/acquire");
    let refused = wire.post(&path, &body).await;
    assert_problem(&refused, 429, "over_limit", parts);
    // The connection serves the next request.
    assert_eq!(wire.get("/readyz").await.answer.0, 200);
}

#[tokio::test]
async fn a_lease_has_waiters_up_to_the_limit() {
    let api = limited(|limits| limits.max_waiters_per_lease = 2).api;
    assert_ok(&api.acquire("job", 1).await);
    assert_ok(&api.acquire("other", 1).await);
    let first = api.waiting("job", 2, &json!({}));
    api.queue_of("job", 1).await;
    let parts = [
        "this address has 1 requests waiting for the lease",
        "the rest of the 2",
    ];
    assert_429(&api, "job", 4, &parts).await;
    let second = api.from("127.0.0.2").waiting("job", 3, &json!({}));
    api.queue_of("job", 2).await;
    let before = api.get("job").await.1["revision"].clone();
    let parts = ["the lease has 2 requests waiting", "at most 2"];
    assert_429(&api, "job", 4, &parts).await;
    assert_eq!(api.get("job").await.1["revision"], before);
    assert_eq!(api.get("job").await.1["waiters"], 2);
    // A request that does not wait still gets the holder, the holder can renew, and another lease
    // accepts waiters.
    assert_refused(&api.acquire("job", 4).await, 409, "lease_held");
    assert_ok(&api.renew("job", 1).await);
    until_taken(&api, "other", 4).await;
    // An earlier waiter keeps its position.
    let again = api.waiting("job", 2, &json!({}));
    assert_refused(&outcome(first).await.0, 409, "lease_held");

    second.abort();
    until_taken(&api.from("127.0.0.3"), "job", 4).await;
    assert_ok(&api.release("job", 1).await);
    assert_ok(&outcome(again).await.0);
}

#[tokio::test]
async fn all_leases_have_waiters_up_to_the_limit() {
    let api = limited(|limits| limits.max_waiting = 2).api;
    for lease in ["one", "two", "three"] {
        assert_ok(&api.acquire(lease, 1).await);
    }
    let first = api.waiting("one", 2, &json!({}));
    api.queue_of("one", 1).await;
    // A long poll counts too.
    let mut poll = Wire::connect_from(&api, "127.0.0.2").await;
    let path = "/v1/namespaces/ns/leases/two?after=9007199254740991&wait_ms=60000";
    poll.send(head("GET", path, "")).await.unwrap();
    let parts = ["the store has 2 requests waiting", "at most 2"];
    let until = Instant::now() + SOON;
    loop {
        let mut wire = Wire::connect(&api).await;
        let path = "/v1/namespaces/ns/leases/two?after=9007199254740991&wait_ms=1";
        let refused = wire.get(path).await;
        if refused.answer.0 == 429 {
            assert_problem(&refused, 429, "over_limit", &parts);
            break;
        }
        assert!(Instant::now() < until, "the poll was never counted");
        sleep(Duration::from_millis(5)).await;
    }
    assert_429(&api, "three", 3, &parts).await;
    assert_eq!(api.get("three").await.1["waiters"], 0);
    assert_ok(&api.renew("one", 1).await);
    // An earlier waiter keeps its position.
    let again = api.waiting("one", 2, &json!({}));
    assert_refused(&outcome(first).await.0, 409, "lease_held");

    drop(poll);
    // The first address has its share.
    until_taken(&api.from("127.0.0.3"), "three", 3).await;
    assert_ok(&api.release("one", 1).await);
    assert_ok(&outcome(again).await.0);
}

#[tokio::test]
async fn a_long_poll_that_need_not_wait_does_not_count() {
    let api = limited(|limits| limits.max_waiting = 0).api;
    assert_ok(&api.acquire("job", 1).await);
    let mut wire = Wire::connect(&api).await;
    let mut poll = async |lease: &str, query: &str| {
        let path = format!("/v1/namespaces/ns/leases/{lease}?{query}");
        wire.get(&path).await
    };
    // These polls do not wait: the lease has changed already, the wait is zero, or the lease is
    // unknown.
    assert_ok(&poll("job", "after=0&wait_ms=60000").await.answer);
    assert_ok(&poll("job", "after=9007199254740991&wait_ms=0").await.answer);
    let unknown = poll("unknown", "after=0&wait_ms=60000").await;
    assert_refused(&unknown.answer, 404, "unknown_lease");
    let waits = poll("job", "after=9007199254740991&wait_ms=60000").await;
    let parts = ["the store has 0 requests waiting", "at most 0"];
    assert_problem(&waits, 429, "over_limit", &parts);
}
