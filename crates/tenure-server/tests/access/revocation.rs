//! Tests of the requests and streams that end when a right is withdrawn.

use super::*;

const LEASES: &str = "/v1/namespaces/a/leases";

fn waiting(lease_id: u32) -> Value {
    json!({"holder": "c1", "duration_ms": 3_600_000, "lease_id": id(lease_id), "wait_ms": 60_000})
}

async fn ended(mut stream: Response) {
    while let Ok(Some(_)) = stream.chunk().await {}
}

/// Returns three candidates of namespace `a`.
fn candidates(grants: &str) -> [(&str, &str); 3] {
    ["holder", "worker", "other"].map(|name| (name, grants))
}

async fn wait_for_waiters(guarded: &Guarded, expected: u64) {
    until("the number of waiters", async || {
        guarded.get("holder", LEASE).await.1["waiters"] == expected
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_right_ends_all_streams_and_waits_of_its_principal_and_no_others() {
    const EACH: u32 = 100;
    let grants = grant("candidate", "a", "");
    let guarded = Guarded::start(&candidates(&grants));
    let acquire = format!("{LEASE}/acquire");
    let (status, held) = guarded
        .post("holder", &acquire, body_of("acquire", &id(1)))
        .await;
    assert_eq!(status, 200, "{held}");
    let poll = format!("{LEASE}?after={}&wait_ms=60000", held["revision"]);

    let streams = async |name: &str| {
        let paths = [format!("{LEASE}/events"), format!("{LEASES}/events")];
        let streams = (0..EACH as usize).map(|number| guarded.stream(name, &paths[number % 2]));
        join_all(streams).await
    };
    let (lost, kept) = (streams("worker").await, streams("other").await);
    let mut kept_streams = Box::pin(join_all(kept.into_iter().map(ended)));
    let mut kept_wait = Box::pin(guarded.post("other", &acquire, waiting(2)));
    let lost = async {
        let acquires =
            (0..EACH).map(|number| guarded.post("worker", &acquire, waiting(10 + number)));
        let polls = (0..EACH).map(|_| guarded.get("worker", &poll));
        let streams = join_all(lost.into_iter().map(ended));
        tokio::join!(join_all(acquires), join_all(polls), streams)
    };
    let revoke = async {
        wait_for_waiters(&guarded, u64::from(EACH) + 1).await;
        guarded.change(&[("holder", &grants), ("other", &grants)]);
    };
    let both = async { tokio::join!(lost, revoke).0 };
    let (acquires, polls, _) = tokio::select! {
        lost = tokio::time::timeout(SOON * 3, both) => lost.expect("all end"),
        _ = &mut kept_streams => panic!("the streams of another principal end"),
        _ = &mut kept_wait => panic!("the wait of another principal ends"),
    };
    assert_eq!(
        (acquires.len(), polls.len()),
        (EACH as usize, EACH as usize)
    );
    for refused in &acquires {
        assert_refused(refused, 403, "forbidden");
    }
    for refused in &polls {
        // The store does not count polls, so a late one may have come after the change.
        match refused.0 {
            401 => assert_refused(refused, 401, "unauthenticated"),
            _ => assert_refused(refused, 403, "forbidden"),
        }
    }
    // The store grants the lease to none of them.
    wait_for_waiters(&guarded, 1).await;
    let path = format!("{LEASE}/release");
    let released = guarded
        .post("holder", &path, json!({"lease_id": id(1)}))
        .await;
    assert_eq!(released.0, 200);
    let (status, granted) = kept_wait.await;
    assert_eq!(
        (status, &granted["owner"]),
        (200, &json!("other")),
        "{granted}"
    );
    let still_open = tokio::time::timeout(Duration::from_millis(50), kept_streams).await;
    assert!(
        still_open.is_err(),
        "the streams of another principal ended"
    );
    assert_eq!(guarded.get("worker", LEASE).await.0, 401);
}

#[tokio::test]
async fn every_way_to_lose_a_right_ends_a_wait() {
    let grants = grant("candidate", "a", "");
    for (name, less) in [
        ("worker", String::new()),
        ("worker", grant("candidate", "a", "x")),
        ("worker", grant("read", "a", "")),
        ("worker", grant("candidate", "b", "")),
        ("ci:worker", grant("operator", "a", "")),
    ] {
        let guarded = Guarded::start(&candidates(&grants));
        let acquire = format!("{LEASE}/acquire");
        let held = guarded
            .post("holder", &acquire, body_of("acquire", &id(1)))
            .await;
        assert_eq!(held.0, 200);
        let revoke = async {
            wait_for_waiters(&guarded, 1).await;
            // A change of the rights of other principals.
            guarded.change(&[("holder", &grants), ("worker", &grants)]);
            tokio::time::sleep(Duration::from_millis(20)).await;
            wait_for_waiters(&guarded, 1).await;
            guarded.change(&[("holder", &grants), ("worker", &less)]);
        };
        let (refused, ()) = tokio::join!(guarded.post(name, &acquire, waiting(2)), revoke);
        assert_refused(&refused, 403, "forbidden");
        wait_for_waiters(&guarded, 0).await;
    }
}

/// Returns the requests with a body, by a worker that holds `job` with the first lease id.
fn with_body() -> [(&'static str, String, Value); 9] {
    let of_lease = |label| (format!("{LEASE}/{label}"), body_of(label, &id(1)));
    let with = |method, label| {
        let (path, body) = of_lease(label);
        (method, path, body)
    };
    let many = json!({"leases": [{"lease": "job", "lease_id": id(1)}]});
    [
        with("POST", "renew"),
        ("POST", "/v1/namespaces/a/renew".into(), many),
        (
            "POST",
            format!("{LEASE}-2/acquire"),
            body_of("acquire", &id(2)),
        ),
        with("POST", "verify"),
        with("POST", "change"),
        with("PUT", "metadata"),
        with("POST", "handover"),
        with("POST", "break"),
        with("POST", "release"),
    ]
}

#[tokio::test]
async fn a_request_whose_body_comes_after_the_right_is_gone_is_refused() {
    let admin = grant("admin", "*", "");
    let guarded = Guarded::start(&candidates(&admin));
    let acquire = format!("{LEASE}/acquire");
    let held = guarded
        .post("worker", &acquire, body_of("acquire", &id(1)))
        .await;
    assert_eq!(held.0, 200);
    let before = guarded.get("holder", LEASE).await.1;
    let mut late = Vec::new();
    for (method, path, body) in with_body() {
        let body = body.to_string();
        let more = format!(
            "content-length: {}\r\n{}",
            body.len(),
            guarded.header("worker")
        );
        let mut wire = Wire::connect(&guarded.running.api).await;
        let (first, last) = body.split_at(body.len() - 1);
        wire.send(common::wire::head(method, &path, &more) + first)
            .await
            .unwrap();
        late.push((path, wire, last.to_owned()));
    }
    // The store has received the heads, because it answers later requests.
    assert_eq!(guarded.get("holder", LEASE).await.0, 200);
    tokio::time::sleep(Duration::from_millis(100)).await;
    guarded.change(&[("holder", &admin)]);
    for (path, mut wire, last) in late {
        wire.send(last).await.unwrap();
        let reply = wire.reply().await.expect("an answer");
        // The store would refuse a head with 401 if it read the head after the change.
        assert_refused(&reply.answer, 403, "forbidden");
        assert_eq!(
            guarded.get("holder", LEASE).await.1["revision"],
            before["revision"],
            "{path}"
        );
    }
    assert_eq!(guarded.get("holder", &format!("{LEASE}-2")).await.0, 404);
}
