//! The limits on heads of requests.

use super::*;

#[tokio::test]
async fn a_head_is_accepted_up_to_its_limit() {
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
    // A long path counts too, and the connection serves the next request.
    let path = format!("/{}", "x".repeat(LIMIT));
    let mut wire = Wire::connect(&api).await;
    let refused = wire.get(&path).await;
    assert_problem(&refused, 431, "too_large", &["at most 10000"]);
    let at = head_of(LIMIT, "POST", ACQUIRE, &length) + &body;
    wire.send(at).await.unwrap();
    assert_ok(&wire.reply().await.unwrap().answer);
}

#[tokio::test]
async fn a_head_that_fits_into_no_buffer_is_refused_and_cut_off() {
    let api = limited(|limits| limits.max_header_bytes = 8192).api;
    let mut wire = Wire::connect(&api).await;
    let _ = wire.send(head_of(100_000, "GET", ACQUIRE, "")).await;
    // The unread rest of the head may prevent the response from arriving.
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
            assert!(sent < 100_000_000, "the server never stops reading");
        }
    };
    timeout(SOON, stream).await.expect("an end");
}

#[tokio::test]
async fn up_to_64_headers_are_accepted() {
    let api = common::in_memory().api;
    let headers = |count: usize| {
        // The header Host also counts.
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
async fn a_slow_head_and_a_silent_connection_are_cut_off() {
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
async fn the_time_limits_do_not_end_a_wait() {
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

#[tokio::test]
async fn a_head_has_a_time_limit_of_its_own_and_an_idle_connection_has_not() {
    let limit = Duration::from_millis(500);
    let api = limited(|limits| limits.head_time = limit).api;
    let mut idle = Wire::connect(&api).await;
    assert_ok(&idle.post(ACQUIRE, &minute(1)).await.answer);
    let began = Instant::now();
    let mut silent = Wire::connect(&api).await;
    let mut half = Wire::connect(&api).await;
    half.send("GET /livez HTTP/1.1\r\n").await.unwrap();
    let mut later = Wire::connect(&api).await;
    assert_eq!(later.get("/livez").await.answer.0, 200);
    later.send("G").await.unwrap();
    let mut drips = Wire::connect(&api).await;
    let drip = async {
        while drips.send("x").await.is_ok() {
            if drips.closes_within(Duration::from_millis(50)).await {
                return;
            }
        }
    };
    timeout(SOON, drip).await.expect("an end");
    for wire in [&mut silent, &mut half, &mut later] {
        assert!(wire.closes_within(SOON).await);
    }
    assert!(began.elapsed() >= limit);
    // A client that renews once a minute keeps its connection.
    sleep(limit * 2).await;
    let renewal = json!({"lease_id": id(1)});
    assert_ok(&idle.post(RENEW, &renewal).await.answer);
}

#[tokio::test]
async fn the_rest_of_a_body_that_was_refused_is_no_head() {
    let limit = Duration::from_millis(300);
    let api = limited(|limits| limits.head_time = limit).api;
    let mut wire = Wire::connect(&api).await;
    for path in [RENEW, ACQUIRE] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
             content-length: 10\r\n\r\n"
        );
        wire.send(head).await.unwrap();
        assert_refused(&wire.reply().await.unwrap().answer, 415, "not_json");
        wire.send("0123456789").await.unwrap();
        // The connection is idle now, and may stay idle for much longer.
        sleep(limit * 4).await;
        assert_eq!(wire.get("/readyz").await.answer.0, 200);
    }
}
