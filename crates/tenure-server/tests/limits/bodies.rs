//! The limits on bodies.

use super::*;

#[tokio::test]
async fn a_body_is_accepted_up_to_its_limit() {
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

/// Returns a request whose body is sent in chunks, so that its length is unknown.
fn chunked(body: &str) -> String {
    let chunks = body.as_bytes().chunks(100).map(|chunk| {
        let text = String::from_utf8_lossy(chunk);
        format!("{:x}\r\n{text}\r\n", chunk.len())
    });
    head("POST", ACQUIRE, "transfer-encoding: chunked\r\n")
        + &chunks.collect::<String>()
        + "0\r\n\r\n"
}

/// Returns a request whose response does not depend on its body.
fn refused_before_its_body(length: usize) -> String {
    head("POST", "/v1/none", &format!("content-length: {length}\r\n"))
}

#[tokio::test]
async fn a_client_that_sends_a_whole_refused_body_first_gets_the_response() {
    let api = limited(|_| {}).api;
    let body = vec![b' '; 8 << 20];
    let mut wire = Wire::connect(&api).await;
    // All requests are on one connection, which serves the next one after the whole body was
    // received.
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
async fn the_rest_of_a_refused_body_is_read_until_the_time_limit_of_a_body() {
    let time = Duration::from_millis(300);
    let api = limited(|limits| limits.request_time = time).api;
    let mut wire = Wire::connect(&api).await;
    let began = Instant::now();
    wire.send(refused_before_its_body(1000)).await.unwrap();
    wire.send(" ").await.unwrap();
    // The response is sent before the body is complete.
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
async fn a_refused_request_gets_no_100_continue() {
    let api = limited(|_| {}).api;
    let mut wire = Wire::connect(&api).await;
    let head =
        refused_before_its_body(1000).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    wire.send(head).await.unwrap();
    // The first response is the refusal, not "100 Continue".
    assert_refused(&wire.reply().await.unwrap().answer, 404, "unknown_route");
    assert!(wire.closes_within(SOON).await);
}

#[tokio::test]
async fn a_body_of_unknown_length_is_accepted_up_to_its_limit() {
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
    // A malformed body that is not too large is refused as malformed.
    let mut wire = Wire::connect(&api).await;
    let broken = head("POST", ACQUIRE, "transfer-encoding: chunked\r\n") + "zz\r\n";
    wire.send(broken).await.unwrap();
    if let Some(refused) = wire.reply().await {
        assert_problem(&refused, 400, "malformed", &[]);
    }
}

#[tokio::test]
async fn a_slow_body_is_cut_off() {
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
    // The following bytes could be the rest of that body, so the connection is closed.
    assert!(wire.closes_within(SOON).await);
    assert_ok(&api.acquire("job", 1).await);
}
