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

#[tokio::test]
async fn no_route_acts_on_a_body_that_comes_after_the_right_is_gone() {
    let admin = grant("admin", "*", "");
    let guarded = Guarded::start(&candidates(&admin));
    let acquire = format!("{LEASE}/acquire");
    let held = guarded
        .post("worker", &acquire, body_of("acquire", &id(1)))
        .await;
    assert_eq!(held.0, 200);
    let before = guarded.get("holder", LEASE).await.1;
    let mut late = Vec::new();
    for route in routes().iter().filter(|route| route.has_body()) {
        // Both spell the same name.
        let leases = ["job", "%6aob"].into_iter();
        for (lease, name) in leases.flat_map(|lease| [(lease, "worker"), (lease, "ci:worker")]) {
            let body = match route.label {
                "renew_many" => json!({"leases": [{"lease": "job", "lease_id": id(1)}]}),
                label => body_of(label, &id(1)),
            };
            let body = body.to_string();
            let path = path_of(route, "a", lease);
            let more = format!(
                "content-length: {}\r\nexpect: 100-continue\r\n{}",
                body.len(),
                guarded.header(name)
            );
            let mut wire = Wire::connect(&guarded.running.api).await;
            let head = crate::common::wire::head(route.method.as_str(), &path, &more);
            wire.send(head).await.unwrap();
            // The store has accepted the head, and reads the body.
            assert_eq!(wire.reply().await.unwrap().answer.0, 100, "{path}");
            let (first, last) = body.split_at(body.len() - 1);
            wire.send(first).await.unwrap();
            late.push((format!("{path} by {name}"), wire, last.to_owned()));
        }
    }
    assert!(late.len() > 40, "{}", late.len());
    guarded.change(&[("holder", &admin)]);
    let issuer = &guarded.access.issuers()[0];
    let keys = Signer::new().key_set("one");
    guarded.access.replace_keys(issuer, &keys, None).unwrap();
    for (request, mut wire, last) in late {
        wire.send(last).await.unwrap();
        let reply = wire.reply().await.expect("an answer");
        // The store would refuse a head with 401 if it read the head after the change.
        assert_eq!(reply.answer.0, 403, "{request}: {}", reply.answer.1);
        assert_refused(&reply.answer, 403, "forbidden");
        assert_eq!(
            guarded.get("holder", LEASE).await.1["revision"],
            before["revision"],
            "{request}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_waits_and_codes_of_a_web_token_end_with_its_key() {
    let grants = grant("candidate", "a", "");
    let mut guarded = Guarded::start(&candidates(&grants));
    guarded.sign_in("ci:worker").await;
    let (status, code) = guarded
        .post("ci:worker", "/v1/session/code", json!({}))
        .await;
    assert_eq!(status, 200, "{code}");
    let acquire = format!("{LEASE}/acquire");
    let held = guarded.post("holder", &acquire, body_of("acquire", &id(1)));
    let (status, held) = held.await;
    assert_eq!(status, 200, "{held}");
    let poll = format!("{LEASE}?after={}&wait_ms=60000", held["revision"]);
    let callers = ["ci:worker", "session:ci:worker"];
    let streams = callers.map(|name| guarded.stream(name, "/v1/events"));
    let streams = join_all(streams).await;
    let infinite = |lease_id| {
        let mut body = waiting(lease_id);
        body["duration_ms"] = json!("infinite");
        body
    };
    let open = async {
        let acquires = (2..).zip(callers);
        let acquires =
            acquires.map(|(number, name)| guarded.post(name, &acquire, infinite(number)));
        let polls = callers.map(|name| guarded.get(name, &poll));
        let streams = join_all(streams.into_iter().map(ended));
        tokio::join!(join_all(acquires), join_all(polls), streams)
    };
    let change = async {
        wait_for_waiters(&guarded, 2).await;
        let issuer = &guarded.access.issuers()[0];
        let keys = Signer::new().key_set("one");
        assert!(guarded.access.replace_keys(issuer, &keys, None).unwrap());
    };
    let both = async { tokio::join!(open, change).0 };
    let in_time = tokio::time::timeout(SOON * 3, both).await;
    let (acquires, polls, _) = in_time.expect("all end");
    for refused in acquires.iter().chain(&polls) {
        // A poll is not counted, so a late one may have come after the change.
        assert!(matches!(refused.0, 401 | 403), "{refused:?}");
    }
    let used = guarded.post("", "/v1/session", json!({"code": code["code"]}));
    assert_refused(&used.await, 401, "unauthenticated");
    let released = guarded
        .post(
            "holder",
            &format!("{LEASE}/release"),
            json!({"lease_id": id(1)}),
        )
        .await;
    assert_eq!(released.0, 200);
    let view = guarded.get("holder", LEASE).await.1;
    assert_eq!(
        (&view["waiters"], &view["holder"]),
        (&json!(0), &Value::Null)
    );
}
