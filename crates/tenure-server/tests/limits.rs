//! Limits, over real sockets: what is at one is taken, what is over it is refused clearly and changes
//! nothing, and when there is room again it is taken.

mod common;

use std::time::Duration;

use common::wire::{Reply, Wire, head, head_of};
use common::{Answer, Api, Running, SOON, answer, assert_ok, assert_refused, id, minute, outcome};
use serde_json::{Value, json};
use tenure_server::{Config, Limits, OpenError, Store};
use tokio::time::{Instant, sleep, timeout};

const ACQUIRE: &str = "/v1/namespaces/ns/leases/job/acquire";
const RENEW: &str = "/v1/namespaces/ns/leases/job/renew";

fn limited(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    common::start(Config::memory().with_limits(limits))
}

#[track_caller]
fn assert_told(refused: &Answer, status: u16, code: &str, parts: &[&str]) {
    assert_refused(refused, status, code);
    assert_eq!(refused.1["status"], status, "{refused:?}");
    let detail = refused.1["detail"].as_str().unwrap();
    for part in parts {
        assert!(detail.contains(part), "{part}: {detail}");
    }
}

/// A problem as it goes over the wire.
#[track_caller]
fn assert_problem(reply: &Reply, status: u16, code: &str, parts: &[&str]) {
    assert_told(&reply.answer, status, code, parts);
    assert!(
        reply.has("content-type: application/problem+json"),
        "{reply:?}"
    );
    let is_transient = matches!(status, 429 | 503 | 507);
    assert_eq!(reply.has("retry-after: 1"), is_transient, "{reply:?}");
}

async fn assert_unknown(api: &Api, lease: &str) {
    assert_refused(&api.get(lease).await, 404, "unknown_lease");
}

// Bodies

#[tokio::test]
async fn a_body_is_taken_up_to_its_limit() {
    let api = limited(|limits| limits.max_body_bytes = 1024).api;
    let padded = |lease: &str, bytes: usize| {
        let body = minute(1).to_string();
        let body = " ".repeat(bytes - body.len()) + &body;
        let request = api.http.post(api.url(lease, "acquire"));
        request
            .header("content-type", "application/json")
            .body(body)
    };
    let send = async |lease: &str, bytes| answer(padded(lease, bytes).send().await.unwrap()).await;
    let refused = send("over", 1025).await;
    assert_told(&refused, 413, "too_large", &["1025 bytes", "at most 1024"]);
    assert_unknown(&api, "over").await;
    assert_ok(&send("at", 1024).await);
}

/// A body in chunks: nothing says beforehand how large it is.
fn chunked(body: &str) -> String {
    let chunks = body.as_bytes().chunks(100).map(|chunk| {
        let text = String::from_utf8_lossy(chunk);
        format!("{:x}\r\n{text}\r\n", chunk.len())
    });
    head("POST", ACQUIRE, "transfer-encoding: chunked\r\n")
        + &chunks.collect::<String>()
        + "0\r\n\r\n"
}

/// A request whose answer does not depend on its body.
fn refused_before_its_body(length: usize) -> String {
    head("POST", "/v1/none", &format!("content-length: {length}\r\n"))
}

#[tokio::test]
async fn a_client_that_sends_all_of_a_refused_body_first_reads_the_answer() {
    let api = limited(|_| {}).api;
    let body = vec![b' '; 8 << 20];
    let mut wire = Wire::connect(&api).await;
    // On one connection: it is as good as before when all of the body has come.
    for _ in 0..3 {
        for (path, status, code) in [
            (ACQUIRE, 413, "too_large"),
            ("/v1/none", 404, "unknown_route"),
        ] {
            let head = head("POST", path, &format!("content-length: {}\r\n", body.len()));
            wire.send(head).await.unwrap();
            wire.send(&body).await.unwrap();
            let refused = wire.reply().await.expect("an answer");
            assert_problem(&refused, status, code, &[]);
        }
    }
}

#[tokio::test]
async fn the_rest_of_a_refused_body_is_awaited_as_long_as_a_body_may_take() {
    let time = Duration::from_millis(300);
    let api = limited(|limits| limits.request_time = time).api;
    let mut wire = Wire::connect(&api).await;
    let began = Instant::now();
    wire.send(refused_before_its_body(1000)).await.unwrap();
    wire.send(" ").await.unwrap();
    // The answer does not wait for the body.
    assert_refused(&wire.reply().await.unwrap().answer, 404, "unknown_route");
    assert!(wire.closes_within(SOON).await);
    assert!(began.elapsed() >= time, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_refused_body_over_64_mib_is_not_read() {
    let api = limited(|_| {}).api;
    let mut wire = Wire::connect(&api).await;
    let began = Instant::now();
    wire.send(refused_before_its_body((64 << 20) + 1))
        .await
        .unwrap();
    assert_refused(&wire.reply().await.unwrap().answer, 404, "unknown_route");
    assert!(wire.closes_within(SOON).await);
    assert!(began.elapsed() < Limits::default().request_time / 2);
}

#[tokio::test]
async fn a_client_is_not_asked_for_a_body_that_is_refused() {
    let api = limited(|_| {}).api;
    let mut wire = Wire::connect(&api).await;
    let head =
        refused_before_its_body(1000).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    wire.send(head).await.unwrap();
    // The first answer is the refusal, and no "100 Continue".
    assert_refused(&wire.reply().await.unwrap().answer, 404, "unknown_route");
    assert!(wire.closes_within(SOON).await);
}

#[tokio::test]
async fn a_body_of_unknown_length_is_taken_up_to_its_limit() {
    let api = limited(|limits| limits.max_body_bytes = 1024).api;
    let body = |bytes: usize| {
        let body = minute(1).to_string();
        chunked(&(" ".repeat(bytes - body.len()) + &body))
    };
    let mut wire = Wire::connect(&api).await;
    wire.send(body(1025)).await.unwrap();
    let refused = wire.reply().await.unwrap();
    assert_problem(
        &refused,
        413,
        "too_large",
        &["more than 1024", "at most 1024"],
    );
    assert_unknown(&api, "job").await;

    let mut wire = Wire::connect(&api).await;
    wire.send(body(1024)).await.unwrap();
    assert_ok(&wire.reply().await.unwrap().answer);
    // What is broken, and not too large, is told as that.
    let mut wire = Wire::connect(&api).await;
    let broken = head("POST", ACQUIRE, "transfer-encoding: chunked\r\n") + "zz\r\n";
    wire.send(broken).await.unwrap();
    if let Some(refused) = wire.reply().await {
        assert_problem(&refused, 400, "malformed", &[]);
    }
}

#[tokio::test]
async fn a_body_that_drips_is_cut_off() {
    let limit = Duration::from_millis(300);
    let api = limited(|limits| limits.request_time = limit).api;
    let body = minute(1).to_string();
    let length = format!("content-length: {}\r\n", body.len());
    let mut wire = Wire::connect(&api).await;
    let began = Instant::now();
    wire.send(head("POST", ACQUIRE, &length)).await.unwrap();
    let drip = async {
        for byte in body.bytes() {
            wire.send([byte]).await.unwrap();
            if let Ok(reply) = timeout(Duration::from_millis(50), wire.reply()).await {
                return reply.expect("an answer");
            }
        }
        panic!("the whole body was taken, after {:?}", began.elapsed());
    };
    let refused = drip.await;
    assert_problem(&refused, 408, "request_timeout", &["300ms"]);
    assert!(began.elapsed() >= limit);
    assert_unknown(&api, "job").await;
    // Whatever comes now could be the rest of it.
    assert!(wire.closes_within(SOON).await);
    assert_ok(&api.acquire("job", 1).await);
}

// Heads

#[tokio::test]
async fn a_head_is_taken_up_to_its_limit() {
    const LIMIT: usize = 10_000;
    let api = limited(|limits| limits.max_header_bytes = LIMIT).api;
    let body = minute(1).to_string();
    let length = format!("content-length: {}\r\n", body.len());
    let mut wire = Wire::connect(&api).await;
    let over = head_of(LIMIT + 1, "POST", ACQUIRE, &length) + &body;
    wire.send(over).await.unwrap();
    let refused = wire.reply().await.unwrap();
    let parts = ["10001 bytes", "at most 10000"];
    assert_problem(&refused, 431, "too_large", &parts);
    assert_unknown(&api, "job").await;
    // A long path counts as much, and the connection is still of use.
    let path = format!("/{}", "x".repeat(LIMIT));
    let mut wire = Wire::connect(&api).await;
    let refused = wire.get(&path).await;
    assert_problem(&refused, 431, "too_large", &["at most 10000"]);
    let at = head_of(LIMIT, "POST", ACQUIRE, &length) + &body;
    wire.send(at).await.unwrap();
    assert_ok(&wire.reply().await.unwrap().answer);
}

#[tokio::test]
async fn a_head_that_fits_into_no_buffer_is_told_so_and_cut_off() {
    let api = limited(|limits| limits.max_header_bytes = 8192).api;
    let mut wire = Wire::connect(&api).await;
    let _ = wire.send(head_of(100_000, "GET", ACQUIRE, "")).await;
    // The rest of it may be in the way of the answer.
    if let Some(refused) = wire.reply().await {
        assert_eq!(refused.answer, (431, Value::Null));
    }
    assert!(wire.closes_within(SOON).await);
    let endless = Wire::connect(&api);
    let mut wire = endless.await;
    wire.send("GET / HTTP/1.1\r\nx: ").await.unwrap();
    let stream = async {
        let mut sent = 0;
        while wire.send([b'x'; 1024]).await.is_ok() {
            sent += 1024;
            assert!(sent < 100_000_000, "it is read for ever");
        }
    };
    timeout(SOON, stream).await.expect("an end");
}

#[tokio::test]
async fn headers_are_taken_up_to_64() {
    let api = common::in_memory().api;
    let headers = |count: usize| {
        // One is the host.
        let more: String = (1..count).map(|n| format!("x-{n}: 1\r\n")).collect();
        head("GET", "/readyz", &more)
    };
    let mut wire = Wire::connect(&api).await;
    wire.send(headers(65)).await.unwrap();
    let refused = wire.reply().await.unwrap();
    assert_problem(&refused, 431, "too_large", &["65 headers", "at most 64"]);
    wire.send(headers(64)).await.unwrap();
    assert_eq!(wire.reply().await.unwrap().answer.0, 200);
    wire.send(headers(1_000)).await.unwrap();
    assert_eq!(wire.reply().await.unwrap().answer, (431, Value::Null));
    assert!(wire.closes_within(SOON).await);
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off_and_so_is_a_connection_that_says_nothing() {
    let limit = Duration::from_millis(500);
    let api = limited(|limits| limits.header_time = limit).api;
    let began = Instant::now();
    let mut silent = Wire::connect(&api).await;
    let mut idle = Wire::connect(&api).await;
    assert_ok(&idle.post(ACQUIRE, &minute(1)).await.answer);
    let mut drips = Wire::connect(&api).await;
    let drip = async {
        loop {
            if drips.send("x").await.is_err() {
                return;
            }
            if drips.closes_within(Duration::from_millis(50)).await {
                return;
            }
        }
    };
    timeout(SOON, drip).await.expect("an end");
    assert!(silent.closes_within(SOON).await);
    assert!(idle.closes_within(SOON).await);
    assert!(began.elapsed() >= limit);
}

#[tokio::test]
async fn who_waits_is_not_cut_off_by_the_limits_of_time() {
    let limit = Duration::from_millis(200);
    let api = limited(|limits| {
        limits.header_time = limit;
        limits.request_time = limit;
    })
    .api;
    assert_ok(&api.acquire("job", 1).await);
    let began = Instant::now();
    let waiting = api.waiting("job", 2, &json!({"wait_ms": 1_000}));
    assert_refused(&outcome(waiting).await.0, 409, "lease_held");
    assert!(began.elapsed() >= Duration::from_secs(1));
}

// Names, leases, metadata

#[tokio::test]
async fn names_are_taken_up_to_their_limit() {
    let limits = Limits {
        max_name_bytes: 5,
        ..Limits::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let config = Config::embedded(folder.path());
    let long = common::start(config.clone());
    assert_ok(&long.api.acquire("long-one", 1).await);
    long.stop().await.unwrap();

    let api = common::start(config.with_limits(limits)).api;
    for (namespace, lease, what) in [
        ("ns", "sixsix", "lease sixsix"),
        ("sixsix", "five5", "namespace sixsix"),
    ] {
        let url = format!(
            "{}/v1/namespaces/{namespace}/leases/{lease}/acquire",
            api.origin
        );
        let refused = answer(api.http.post(url).json(&minute(1)).send().await.unwrap()).await;
        let parts = [what, "6 bytes", "at most 5"];
        assert_told(&refused, 400, "invalid_name", &parts);
    }
    assert_unknown(&api, "sixsix").await;
    assert_ok(&api.acquire("five5", 1).await);
    // A lease that is there goes on.
    assert_ok(&api.renew("long-one", 1).await);
    assert_ok(&api.release("long-one", 1).await);
    assert_ok(&api.acquire("long-one", 2).await);
}

#[tokio::test]
async fn leases_are_made_up_to_their_limit_and_go_on_above_it() {
    let api = limited(|limits| limits.max_leases_per_namespace = 2).api;
    assert_ok(&api.acquire("one", 1).await);
    assert_ok(&api.acquire("two", 2).await);
    let refused = api.acquire("three", 3).await;
    assert_told(&refused, 429, "over_limit", &["2 leases", "at most 2"]);
    assert_unknown(&api, "three").await;
    let elsewhere = format!("{}/v1/namespaces/other/leases/a/acquire", api.origin);
    let elsewhere = api.http.post(elsewhere).json(&minute(1));
    assert_ok(&answer(elsewhere.send().await.unwrap()).await);
    assert_ok(&api.renew("one", 1).await);
    assert_ok(&api.release("one", 1).await);
    assert_ok(&api.acquire("one", 4).await);
    assert_ok(&api.release("one", 4).await);
    assert_eq!(api.delete("one").await.0, 204);
    assert_ok(&api.acquire("three", 3).await);
}

#[tokio::test]
async fn namespaces_are_made_up_to_their_limit_and_those_there_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::embedded(folder.path());
    let in_namespace = |api: &Api, namespace: &str, lease: &str, what: &str, number: u32| {
        let (http, origin) = (api.http.clone(), &api.origin);
        let url = format!("{origin}/v1/namespaces/{namespace}/leases/{lease}/{what}");
        let body = match what {
            "acquire" => minute(number),
            _ => json!({"lease_id": id(number)}),
        };
        async move { answer(http.post(url).json(&body).send().await.unwrap()).await }
    };
    let store = common::start(config.clone());
    let first = [("one", 1), ("two", 2), ("three", 3)];
    for (namespace, number) in first {
        assert_ok(&in_namespace(&store.api, namespace, "a", "acquire", number).await);
    }
    store.stop().await.unwrap();

    // A limit that is lowered takes nothing from those who are there.
    let limits = Limits {
        max_namespaces: 2,
        ..Limits::default()
    };
    let api = common::start(config.with_limits(limits)).api;
    let refused = in_namespace(&api, "four", "a", "acquire", 9).await;
    let parts = ["3 namespaces", "at most 2", "four"];
    assert_told(&refused, 429, "over_limit", &parts);
    let url = format!("{}/v1/namespaces/four/leases/a", api.origin);
    let unknown = answer(api.http.get(url).send().await.unwrap()).await;
    assert_refused(&unknown, 404, "unknown_lease");
    assert_ok(&in_namespace(&api, "one", "a", "renew", 1).await);
    assert_ok(&in_namespace(&api, "one", "b", "acquire", 9).await);
    for (namespace, number, is_room) in [("two", 2, false), ("three", 3, true)] {
        assert_ok(&in_namespace(&api, namespace, "a", "release", number).await);
        let url = format!("{}/v1/namespaces/{namespace}/leases/a", api.origin);
        let deleted = api.http.delete(url).send().await.unwrap();
        assert_eq!(deleted.status(), 204);
        let acquired = in_namespace(&api, "four", "a", "acquire", 9).await;
        match is_room {
            true => assert_ok(&acquired),
            false => assert_refused(&acquired, 429, "over_limit"),
        }
    }
}

#[tokio::test]
async fn metadata_is_taken_up_to_its_limit() {
    for most in [0, 100, 4096] {
        let api = limited(|limits| limits.max_metadata_bytes = most).api;
        // Letters of two bytes: bytes count, of keys and values.
        let metadata = |bytes: usize| match bytes {
            0 => json!({}),
            bytes if bytes % 2 == 0 => json!({"kk": "ä".repeat((bytes - 2) / 2)}),
            bytes => json!({"k": "ä".repeat((bytes - 1) / 2)}),
        };
        let acquire = |bytes| {
            let mut body = minute(1);
            body["metadata"] = metadata(bytes);
            body
        };
        let (bytes, at_most) = (format!("{} bytes", most + 1), format!("at most {most} "));
        let parts = [bytes.as_str(), &at_most];
        let refused = api.post("job", "acquire", acquire(most + 1)).await;
        assert_told(&refused, 413, "too_large", &parts);
        assert_unknown(&api, "job").await;
        assert_ok(&api.post("job", "acquire", acquire(most)).await);

        let put = async |bytes| {
            let body = json!({"lease_id": id(1), "metadata": metadata(bytes)});
            let request = api.http.put(api.url("job", "metadata")).json(&body);
            answer(request.send().await.unwrap()).await
        };
        let before = api.get("job").await.1;
        assert_told(&put(most + 1).await, 413, "too_large", &parts);
        let after = api.get("job").await.1;
        assert_eq!(before["revision"], after["revision"]);
        assert_eq!(before["metadata"], after["metadata"]);
        assert_ok(&put(most).await);
    }
}

// Those who wait

/// Until a request that waits is taken, or refused with something else than a limit.
async fn until_taken(api: &Api, lease: &str, number: u32) {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        let waiting = api.waiting(lease, number, &json!({"wait_ms": 1}));
        if outcome(waiting).await.0.1["code"] == "lease_held" {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("there was no room again");
}

async fn assert_429(api: &Api, lease: &str, number: u32, parts: &[&str]) {
    let mut wire = Wire::connect(api).await;
    let mut body = minute(number);
    body["wait_ms"] = json!(60_000);
    let path = format!("/v1/namespaces/ns/leases/{lease}/acquire");
    let refused = wire.post(&path, &body).await;
    assert_problem(&refused, 429, "over_limit", parts);
    // The connection is still of use.
    assert_eq!(wire.get("/readyz").await.answer.0, 200);
}

#[tokio::test]
async fn a_lease_is_waited_for_up_to_its_limit() {
    let api = limited(|limits| limits.max_waiters_per_lease = 2).api;
    assert_ok(&api.acquire("job", 1).await);
    assert_ok(&api.acquire("other", 1).await);
    let first = api.waiting("job", 2, &json!({}));
    let second = api.waiting("job", 3, &json!({}));
    api.queue_of("job", 2).await;
    let before = api.get("job").await.1["revision"].clone();
    let parts = ["the lease has 2 requests waiting", "at most 2"];
    assert_429(&api, "job", 4, &parts).await;
    assert_eq!(api.get("job").await.1["revision"], before);
    assert_eq!(api.get("job").await.1["waiters"], 2);
    // Who does not wait is told who holds the lease, the holder renews, and another lease has room.
    assert_refused(&api.acquire("job", 4).await, 409, "lease_held");
    assert_ok(&api.renew("job", 1).await);
    until_taken(&api, "other", 4).await;
    // Who waits already keeps the place.
    let again = api.waiting("job", 2, &json!({}));
    assert_refused(&outcome(first).await.0, 409, "lease_held");

    second.abort();
    until_taken(&api, "job", 4).await;
    assert_ok(&api.release("job", 1).await);
    assert_ok(&outcome(again).await.0);
}

#[tokio::test]
async fn requests_wait_up_to_the_limit_in_all() {
    let api = limited(|limits| limits.max_waiting = 2).api;
    for lease in ["one", "two", "three"] {
        assert_ok(&api.acquire(lease, 1).await);
    }
    let first = api.waiting("one", 2, &json!({}));
    api.queue_of("one", 1).await;
    // A long poll counts as well.
    let mut poll = Wire::connect(&api).await;
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
    // Who waits already keeps the place.
    let again = api.waiting("one", 2, &json!({}));
    assert_refused(&outcome(first).await.0, 409, "lease_held");

    drop(poll);
    until_taken(&api, "three", 3).await;
    assert_ok(&api.release("one", 1).await);
    assert_ok(&outcome(again).await.0);
}

#[tokio::test]
async fn a_long_poll_that_need_not_wait_takes_no_place() {
    let api = limited(|limits| limits.max_waiting = 0).api;
    assert_ok(&api.acquire("job", 1).await);
    let mut wire = Wire::connect(&api).await;
    let mut poll = async |lease: &str, query: &str| {
        let path = format!("/v1/namespaces/ns/leases/{lease}?{query}");
        wire.get(&path).await
    };
    // It has changed already; it is not to be waited for; there is nothing to wait for.
    assert_ok(&poll("job", "after=0&wait_ms=60000").await.answer);
    assert_ok(&poll("job", "after=9007199254740991&wait_ms=0").await.answer);
    let unknown = poll("unknown", "after=0&wait_ms=60000").await;
    assert_refused(&unknown.answer, 404, "unknown_lease");
    let waits = poll("job", "after=9007199254740991&wait_ms=60000").await;
    let parts = ["the store has 0 requests waiting", "at most 0"];
    assert_problem(&waits, 429, "over_limit", &parts);
}

// Connections

#[tokio::test]
async fn connections_are_taken_up_to_their_limit() {
    let api = limited(|limits| limits.max_connections = 2).api;
    let mut leader = Wire::connect(&api).await;
    assert_ok(&leader.post(ACQUIRE, &minute(1)).await.answer);
    let mut second = Wire::connect(&api).await;
    assert_eq!(second.get("/readyz").await.answer.0, 200);

    let mut third = Wire::connect(&api).await;
    let other = ACQUIRE.replace("job", "other");
    let refused = third.post(&other, &minute(3)).await;
    assert_problem(&refused, 429, "over_limit", &["more than 2", "at most 2"]);
    assert!(refused.has("connection: close"), "{refused:?}");
    assert!(third.closes_within(SOON).await);
    // Those who were there before go on, and nothing was changed.
    let renewal = json!({"lease_id": id(1)});
    assert_ok(&leader.post(RENEW, &renewal).await.answer);
    let view = other.replace("/acquire", "");
    assert_refused(&second.get(&view).await.answer, 404, "unknown_lease");

    drop(second);
    let until = Instant::now() + SOON;
    loop {
        let mut next = Wire::connect(&api).await;
        let reply = next.post(&other, &minute(3)).await;
        if reply.answer.0 == 200 {
            break;
        }
        assert_refused(&reply.answer, 429, "over_limit");
        assert!(Instant::now() < until, "the place was never free again");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_leader_that_comes_back_to_a_full_store_renews() {
    let api = limited(|limits| limits.max_connections = 1).api;
    let mut only = Wire::connect(&api).await;
    assert_ok(&only.post(ACQUIRE, &minute(1)).await.answer);
    let one = json!({"lease_id": id(1)});
    let many = json!({"leases": [{"lease": "job", "lease_id": id(1)}]});
    for (path, body) in [(RENEW, one), ("/v1/namespaces/ns/renew", many)] {
        let mut back = Wire::connect(&api).await;
        let renewed = back.post(path, &body).await;
        assert_ok(&renewed.answer);
        // Its place is for the next one.
        assert!(back.closes_within(SOON).await);
    }
    for path in ["/livez", "/readyz"] {
        let mut probe = Wire::connect(&api).await;
        assert_eq!(probe.get(path).await.answer.0, 200);
        assert!(probe.closes_within(SOON).await);
    }
    assert_ok(&only.get("/v1/namespaces/ns/leases/job").await.answer);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_takes_no_answers_gives_its_seat_back() {
    let change = |limits: &mut Limits| {
        limits.max_connections = 1;
        limits.header_time = Duration::from_millis(500);
    };
    let api = limited(change).api;
    let mut deaf = Wire::connect(&api).await;
    let requests = head("GET", "/v1/limits", "").repeat(1_000);
    // Until the answers fill all buffers, so that the store takes no more requests.
    while let Ok(sent) = timeout(Duration::from_secs(1), deaf.send(&requests)).await {
        if sent.is_err() {
            break;
        }
    }
    let seated = async {
        while Wire::connect(&api).await.get("/v1/limits").await.answer.0 == 429 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON * 3, seated).await.expect("a free seat");
}

#[tokio::test]
async fn a_connection_that_is_far_too_many_takes_the_place_of_the_oldest_silent_one() {
    let api = limited(|limits| limits.max_connections = 1).api;
    let mut only = Wire::connect(&api).await;
    assert_ok(&only.post(ACQUIRE, &minute(1)).await.answer);
    let mut over = Vec::new();
    for _ in 0..17 {
        over.push(Wire::connect(&api).await);
    }
    assert!(over[0].closes_within(Duration::from_secs(1)).await);
    for wire in &mut over[1..] {
        let refused = wire.get("/v1/namespaces/ns/leases").await;
        assert_problem(&refused, 429, "over_limit", &[]);
    }
    let renewal = json!({"lease_id": id(1)});
    assert_ok(&only.post(RENEW, &renewal).await.answer);
}

#[tokio::test]
async fn a_leader_renews_over_a_new_connection_while_silent_ones_take_all_places() {
    let api = limited(|limits| limits.max_connections = 50).api;
    let mut leader = Wire::connect(&api).await;
    assert_ok(&leader.post(ACQUIRE, &minute(1)).await.answer);
    drop(leader);
    let mut silent = Vec::new();
    for _ in 0..74 {
        silent.push(Wire::connect(&api).await);
    }
    let renewal = json!({"lease_id": id(1)});
    for _ in 0..20 {
        let began = Instant::now();
        let mut back = Wire::connect(&api).await;
        assert_ok(&back.post(RENEW, &renewal).await.answer);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    // Those within the limit stay.
    assert!(!silent[0].closes_within(Duration::from_millis(10)).await);
}

#[tokio::test]
async fn a_connection_over_the_limit_is_closed_without_a_request_after_two_seconds() {
    let api = limited(|limits| limits.max_connections = 1).api;
    let mut only = Wire::connect(&api).await;
    assert_ok(&only.post(ACQUIRE, &minute(1)).await.answer);
    let began = Instant::now();
    let renewal = head("POST", RENEW, "content-length: 100\r\n");
    let mut over = Vec::new();
    for sent in ["", "POST ", &renewal, &(renewal.clone() + "{")] {
        let mut wire = Wire::connect(&api).await;
        wire.send(sent).await.unwrap();
        over.push(wire);
    }
    for mut wire in over {
        // What has begun may be told why it ends.
        if let Some(refused) = wire.reply().await {
            assert_problem(&refused, 400, "malformed", &[]);
        }
        assert!(wire.closes_within(SOON).await);
    }
    let took = began.elapsed();
    assert!((2.0..4.0).contains(&took.as_secs_f64()), "{took:?}");
    // The one within the limit is not hurried.
    assert_ok(&only.post(RENEW, &json!({"lease_id": id(1)})).await.answer);
}

// Settings

#[test]
fn a_limit_out_of_its_range_opens_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let limits = Limits {
        max_header_bytes: 8191,
        ..Limits::default()
    };
    let config = Config::embedded(&data_dir).with_limits(limits);
    let error = Store::open(config).unwrap_err();
    assert!(matches!(error, OpenError::Limit(_)));
    assert_eq!(
        error.to_string(),
        "max_header_bytes is 8191 and must be from 8192 to 65536"
    );
    assert!(!data_dir.exists());
}
