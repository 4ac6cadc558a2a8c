//! Acknowledged changes survive a kill.

use super::*;

#[tokio::test]
async fn a_holder_keeps_its_lease_and_epochs_go_on_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let body = json!({"holder": "c1", "duration_ms": 60_000, "lease_id": id(1),
        "metadata": {"k": "v"}, "lock_delay_ms": 5});
    let (_, held) = server.api.post("held", "acquire", body).await;
    let (_, released) = server.api.acquire("released", 2).await;
    assert_ok(&server.api.release("released", 2).await);
    assert_ok(&server.api.acquire("broken", 3).await);
    assert_ok(
        &server
            .api
            .post("broken", "break", json!({"break_period_ms": 0}))
            .await,
    );
    assert_ok(&server.api.acquire("changed", 4).await);
    let change = json!({"lease_id": id(4), "proposed_lease_id": id(5)});
    let (_, last) = server.api.post("changed", "change", change).await;

    let copy = killed(folder.path());
    let server = start(StoreConfig::folder(copy.path()));
    let (_, view) = server.api.get("held").await;
    for field in [
        "holder",
        "epoch",
        "duration_ms",
        "granted_at",
        "metadata",
        "revision",
    ] {
        assert_eq!(view[field], held[field], "{field}");
    }
    assert!(view["remaining_ms"].as_u64().unwrap() > 59_000);
    assert_ok(&server.api.renew("held", 1).await);
    assert_refused(&server.api.acquire("held", 9).await, 409, "lease_held");
    assert_eq!(server.api.get("released").await.1["state"], "available");
    assert_refused(
        &server.api.acquire("released", 2).await,
        409,
        "lease_id_retired",
    );
    assert_eq!(server.api.get("broken").await.1["state"], "broken");
    assert_refused(
        &server.api.renew("changed", 4).await,
        409,
        "lease_id_mismatch",
    );
    assert_ok(&server.api.renew("changed", 5).await);

    let (_, again) = server.api.acquire("released", 9).await;
    assert!(again["epoch"].as_u64() > released["epoch"].as_u64());
    assert!(again["revision"].as_u64() > last["revision"].as_u64());
}

#[tokio::test]
async fn an_expiry_that_a_client_saw_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let body = json!({"holder": "c1", "duration_ms": 1_000, "lease_id": id(1)});
    let (_, view) = server.api.post("job", "acquire", body).await;
    let polled = format!(
        "{}?after={}&wait_ms=60000",
        server.api.url("job", ""),
        view["revision"]
    );
    let seen: Value = {
        let response = server.api.http.get(polled).send().await.unwrap();
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
    };
    assert_eq!(seen["state"], "expired");
    let copy = killed(folder.path());
    let server = start(StoreConfig::folder(copy.path()));
    assert_eq!(server.api.get("job").await.1["state"], "expired");
}

#[tokio::test]
async fn a_deleted_lease_stays_deleted_and_its_epochs_are_not_granted_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    assert_ok(&server.api.acquire("job", 1).await);
    let mut last = 0;
    // These grants are faster than the clock's milliseconds, so that the epochs run ahead of the
    // clock.
    for number in 2..200 {
        assert_ok(
            &server
                .api
                .post("job", "break", json!({"break_period_ms": 0}))
                .await,
        );
        last = server.api.acquire("job", number).await.1["epoch"]
            .as_u64()
            .unwrap();
    }
    assert_ok(&server.api.release("job", 199).await);
    assert_eq!(server.api.delete("job").await.0, 204);

    let copy = killed(folder.path());
    let server = start(StoreConfig::folder(copy.path()));
    assert_refused(&server.api.get("job").await, 404, "unknown_lease");
    let (_, again) = server.api.acquire("job", 200).await;
    assert!(again["epoch"].as_u64().unwrap() > last);
}

#[tokio::test]
async fn retired_ids_of_deleted_leases_survive_stops_and_kills() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    for lease in ["gone", "made-again"] {
        assert_ok(&server.api.acquire(lease, 1).await);
        assert_ok(&server.api.release(lease, 1).await);
        assert_eq!(server.api.delete(lease).await.0, 204);
    }
    assert_ok(&server.api.acquire("made-again", 2).await);
    let killed_at_once = killed(folder.path());
    server.stop().await.unwrap();
    for folder in [folder, killed_at_once] {
        for _ in 0..2 {
            let server = start(StoreConfig::folder(folder.path()));
            let api = &server.api;
            assert_refused(&api.acquire("gone", 1).await, 409, "lease_id_retired");
            assert_refused(&api.get("gone").await, 404, "unknown_lease");
            assert_refused(&api.acquire("made-again", 1).await, 409, "lease_id_retired");
            server.stop().await.unwrap();
        }
        let server = start(StoreConfig::folder(folder.path()));
        let api = &server.api;
        assert_ok(&api.acquire("gone", 3).await);
        assert_ok(&api.renew("made-again", 2).await);
        assert_ok(&api.release("made-again", 2).await);
        assert_eq!(api.delete("made-again").await.0, 204);
        server.stop().await.unwrap();
        let server = start(StoreConfig::folder(folder.path()));
        let api = &server.api;
        for (lease, number) in [("made-again", 1), ("made-again", 2), ("gone", 1)] {
            let refused = api.acquire(lease, number).await;
            assert_refused(&refused, 409, "lease_id_retired");
        }
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn no_request_gets_an_epoch_that_leaves_none_for_other_leases() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let asking = |number, least: u64| {
        let mut body = minute(number);
        body["min_epoch"] = json!(least);
        body
    };
    let greatest = (1_u64 << 53) - 1;
    let asked = server.api.post("job", "acquire", asking(1, greatest)).await;
    assert_refused(&asked, 422, "out_of_range");
    let detail = asked.1["detail"].as_str().unwrap();
    assert!(detail.contains(&greatest.to_string()), "{detail}");

    // A deletion forgets the epoch of the lease, and later leases get greater epochs.
    let wall = u64::try_from(chrono::Utc::now().timestamp_millis()).unwrap();
    let ahead = wall + 99 * 365 * 24 * 60 * 60 * 1000;
    let asked = server.api.post("job", "acquire", asking(2, ahead)).await;
    assert_ok(&asked);
    assert_eq!(asked.1["epoch"], ahead);
    assert_ok(&server.api.release("job", 2).await);
    assert_eq!(server.api.delete("job").await.0, 204);
    assert_ok(&server.api.acquire("other", 3).await);
    // The epoch of the deleted lease does not allow requests for epochs that are even further
    // ahead.
    let further = server
        .api
        .post("job", "acquire", asking(4, ahead + ahead))
        .await;
    assert_refused(&further, 422, "out_of_range");

    let copy = killed(folder.path());
    let server = start(StoreConfig::folder(copy.path()));
    let (status, granted) = server.api.acquire("another", 5).await;
    assert_eq!((status, granted["epoch"].as_u64()), (200, Some(ahead + 1)));
}

#[tokio::test]
async fn all_acknowledged_changes_of_many_clients_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::folder(folder.path()));
    let mut clients = Vec::new();
    for client in 0..16 {
        let api = server.api.clone();
        clients.push(tokio::spawn(async move {
            let lease = format!("job-{client}");
            let mut last = Value::Null;
            for round in 0..10 {
                let number = client * 100 + round;
                assert_ok(&api.acquire(&lease, number).await);
                last = api.release(&lease, number).await.1;
            }
            last
        }));
    }
    let mut expected = Vec::new();
    for client in clients {
        expected.push(client.await.unwrap());
    }
    let copy = killed(folder.path());
    let server = start(StoreConfig::folder(copy.path()));
    for view in expected {
        let (_, found) = server.api.get(view["lease"].as_str().unwrap()).await;
        assert_eq!(
            (&found["revision"], &found["state"]),
            (&view["revision"], &view["state"])
        );
    }
}
