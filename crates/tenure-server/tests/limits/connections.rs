//! The limits on connections.

use super::*;

#[tokio::test]
async fn connections_are_accepted_up_to_their_limit() {
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
    // Earlier connections continue, and nothing was changed.
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
        assert!(Instant::now() < until, "the permit was never free again");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_leader_that_reconnects_to_a_full_store_renews() {
    let api = limited(|limits| limits.max_connections = 1).api;
    let mut only = Wire::connect(&api).await;
    assert_ok(&only.post(ACQUIRE, &minute(1)).await.answer);
    let one = json!({"lease_id": id(1)});
    let many = json!({"leases": [{"lease": "job", "lease_id": id(1)}]});
    for (path, body) in [(RENEW, one), ("/v1/namespaces/ns/renew", many)] {
        let mut back = Wire::connect(&api).await;
        let renewed = back.post(path, &body).await;
        assert_ok(&renewed.answer);
        // The connection is closed, so that its permit is free for the next one.
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
async fn a_client_that_reads_no_responses_loses_its_connection() {
    let change = |limits: &mut Limits| {
        limits.max_connections = 1;
        limits.header_time = Duration::from_millis(500);
    };
    let api = limited(change).api;
    let mut deaf = Wire::connect(&api).await;
    let requests = head("GET", "/v1/limits", "").repeat(1_000);
    // The client sends until responses fill all buffers, so that the store reads no more requests.
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
    timeout(SOON * 3, seated).await.expect("a free connection");
}

#[tokio::test]
async fn a_connection_far_over_the_limit_replaces_the_oldest_silent_one() {
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
async fn a_leader_renews_over_a_new_connection_while_silent_ones_fill_the_limit() {
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
    // Connections within the limit stay.
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
        // A request that has begun may get the reason why its connection is closed.
        if let Some(refused) = wire.reply().await {
            assert_problem(&refused, 400, "malformed", &[]);
        }
        assert!(wire.closes_within(SOON).await);
    }
    let took = began.elapsed();
    assert!((2.0..4.0).contains(&took.as_secs_f64()), "{took:?}");
    // The connection within the limit has more time.
    assert_ok(&only.post(RENEW, &json!({"lease_id": id(1)})).await.answer);
}

#[tokio::test]
async fn one_address_has_so_many_connections_and_keeps_its_leases_beyond() {
    let api = limited(|limits| limits.max_connections_per_address = 2).api;
    let mut leader = Wire::connect(&api).await;
    assert_ok(&leader.post(ACQUIRE, &minute(1)).await.answer);
    let mut second = Wire::connect(&api).await;
    assert_eq!(second.get("/readyz").await.answer.0, 200);
    let mut third = Wire::connect(&api).await;
    let refused = third.get("/v1/limits").await;
    let parts = ["this address", "more than 2", "at most 2"];
    assert_problem(&refused, 429, "over_limit", &parts);
    assert!(third.closes_within(SOON).await);
    let renewal = json!({"lease_id": id(1)});
    let mut back = Wire::connect(&api).await;
    assert_ok(&back.post(RENEW, &renewal).await.answer);
    // The limit does not affect another address.
    let mut other = Wire::connect_from(&api, "127.0.0.2").await;
    assert_eq!(other.get("/v1/limits").await.answer.0, 200);

    drop(second);
    let until = Instant::now() + SOON;
    while Wire::connect(&api).await.get("/v1/limits").await.answer.0 != 200 {
        assert!(Instant::now() < until, "the place was never free again");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_takes_all_it_can_keeps_no_other_out() {
    const EACH: usize = 20;
    const ALL: usize = 100;
    let api = limited(|limits| {
        limits.max_connections = ALL;
        limits.max_connections_per_address = EACH;
    })
    .api;
    let mut leader = Wire::connect(&api).await;
    assert_ok(&leader.post(ACQUIRE, &minute(1)).await.answer);
    drop(leader);
    // The address connects repeatedly, silently or after a request.
    let greedy = (0..3 * EACH).map(|number| {
        let api = api.clone();
        tokio::spawn(async move {
            loop {
                let mut wire = Wire::connect(&api).await;
                if number % 2 == 0 && wire.send(head("GET", "/livez", "")).await.is_ok() {
                    let _ = wire.reply().await;
                }
                wire.closes_within(SOON).await;
            }
        })
    });
    let greedy: Vec<_> = greedy.collect();
    let until = Instant::now() + SOON;
    while Wire::connect(&api).await.get_or_closed("/v1/limits").await != Some(429) {
        assert!(
            Instant::now() < until,
            "the address never reached its limit"
        );
    }
    let renewal = json!({"lease_id": id(1)});
    let mut others = Vec::new();
    for number in 0..40 {
        // The leader of that address renews over a new connection. If the connection is closed
        // because very many came after it, the leader tries again, as candidates do.
        let until = Instant::now() + SOON;
        loop {
            let mut back = Wire::connect(&api).await;
            match back.post_or_closed(RENEW, &renewal).await {
                Some(reply) => break assert_ok(&reply.answer),
                None => assert!(Instant::now() < until, "no renewal is served"),
            }
        }
        // Other addresses connect up to their limits until the store is full.
        let mut other = Wire::connect_from(&api, &format!("127.0.0.{}", 2 + number / EACH)).await;
        assert_eq!(other.get("/v1/limits").await.answer.0, 200);
        others.push(other);
    }
    for task in greedy {
        task.abort();
    }
}

#[tokio::test]
async fn the_limits_of_an_address_and_of_the_store_are_counted_apart() {
    const EACH: usize = 5;
    let api = limited(|limits| {
        limits.max_connections = 3 * EACH;
        limits.max_connections_per_address = EACH;
    })
    .api;
    let mut open = Vec::new();
    for address in 1..=3 {
        let address = format!("127.0.0.{address}");
        for _ in 0..EACH {
            let mut wire = Wire::connect_from(&api, &address).await;
            assert_eq!(wire.get("/v1/limits").await.answer.0, 200);
            open.push(wire);
        }
        let mut over = Wire::connect_from(&api, &address).await;
        let refused = over.get("/v1/limits").await;
        assert_problem(&refused, 429, "over_limit", &["this address", "at most 5"]);
    }
    let mut over = Wire::connect_from(&api, "127.0.0.4").await;
    let refused = over.get("/v1/limits").await;
    assert_problem(&refused, 429, "over_limit", &["the store", "at most 15"]);
    // A freed connection is available to any address that is within its own limit.
    open.pop();
    let until = Instant::now() + SOON;
    loop {
        let mut next = Wire::connect_from(&api, "127.0.0.4").await;
        if next.get("/v1/limits").await.answer.0 == 200 {
            break;
        }
        assert!(Instant::now() < until, "the place was never free again");
        sleep(Duration::from_millis(5)).await;
    }
    let mut over = Wire::connect(&api).await;
    let refused = over.get("/v1/limits").await;
    assert_problem(&refused, 429, "over_limit", &["this address", "at most 5"]);
}
