//! The limits on names, leases and metadata.

use super::*;

#[tokio::test]
async fn names_are_accepted_up_to_their_limit() {
    let limits = Limits {
        max_name_bytes: 5,
        ..Limits::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let config = StoreConfig::folder(folder.path());
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
    // An existing lease with a longer name continues.
    assert_ok(&api.renew("long-one", 1).await);
    assert_ok(&api.release("long-one", 1).await);
    assert_ok(&api.acquire("long-one", 2).await);
}

#[tokio::test]
async fn leases_are_created_up_to_their_limit_and_existing_ones_continue() {
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
async fn namespaces_are_created_up_to_their_limit_and_existing_ones_continue() {
    let folder = tempfile::tempdir().unwrap();
    let config = StoreConfig::folder(folder.path());
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

    // A lower limit does not affect existing leases.
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
async fn metadata_is_accepted_up_to_its_limit() {
    for most in [0, 100, 4096] {
        let api = limited(|limits| limits.max_metadata_bytes = most).api;
        // The letters have two bytes each, because the limit counts the bytes of keys and values.
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

#[tokio::test]
async fn longer_lock_delays_and_reservations_than_ten_minutes_need_a_limit_that_allows_them() {
    let hour = 60 * 60 * 1_000;
    let acquire = |lock_delay: u64| {
        let mut body = minute(1);
        body["lock_delay_ms"] = json!(lock_delay);
        body
    };
    let to =
        |within: u64| json!({"lease_id": id(1), "to": "c2", "within_ms": within, "force": true});
    let usual = limited(|_| {});
    let refused = usual.api.post("job", "acquire", acquire(600_001)).await;
    let parts = ["lock_delay_ms is 600001", "600000", "max_lock_delay"];
    assert_told(&refused, 422, "out_of_range", &parts);
    assert_unknown(&usual.api, "job").await;
    assert_ok(&usual.api.post("job", "acquire", acquire(600_000)).await);
    for lease_id in [json!(null), json!(id(1))] {
        let mut longer = to(600_001);
        longer["lease_id"] = lease_id;
        let refused = usual.api.post("job", "handover", longer).await;
        let parts = ["within_ms is 600001", "600000", "max_hand_over"];
        assert_told(&refused, 422, "out_of_range", &parts);
    }
    assert_eq!(usual.api.get("job").await.1["state"], "leased");
    assert_ok(&usual.api.post("job", "handover", to(600_000)).await);

    let wide = limited(|limits| {
        limits.max_lock_delay = Duration::from_secs(3_600);
        limits.max_hand_over = Duration::from_secs(3_600);
    });
    assert_ok(&wide.api.post("job", "acquire", acquire(hour)).await);
    assert_ok(&wide.api.post("job", "handover", to(hour)).await);
}
