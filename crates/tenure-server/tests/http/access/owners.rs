//! Tests that a lease id is valid only for its owner.

use super::*;

use tenure_server::{Existing, backup, restore};

/// Returns every request that needs a lease id, with this lease id. The last request is an acquire.
fn with_lease_id(lease_id: &str) -> [(Method, &'static str, Value); 6] {
    [
        (Method::POST, "renew", json!({"lease_id": lease_id})),
        (
            Method::POST,
            "change",
            json!({"lease_id": lease_id, "proposed_lease_id": id(9)}),
        ),
        (
            Method::PUT,
            "metadata",
            json!({"lease_id": lease_id, "metadata": {}}),
        ),
        (
            Method::POST,
            "handover",
            json!({"lease_id": lease_id, "to": "c2", "within_ms": 1_000, "force": true}),
        ),
        (Method::POST, "release", json!({"lease_id": lease_id})),
        (
            Method::POST,
            "acquire",
            json!({"lease_id": lease_id, "holder": "c1", "duration_ms": 60_000}),
        ),
    ]
}

/// Checks that a stolen lease id gets the same answers as a wrong one, and that the lease does not
/// change.
async fn assert_stolen_is_useless(guarded: &Guarded) {
    // An identity of another authority is another principal, even with the same name.
    for thief in ["thief", "ci:thief", "ci:worker"] {
        assert_stolen_is_useless_to(thief, guarded).await;
    }
}

async fn assert_stolen_is_useless_to(thief: &str, guarded: &Guarded) {
    let lease = "/v1/namespaces/a/leases/job";
    let before = guarded.get("worker", lease).await.1;
    assert_eq!(before["owner"], "worker", "{before}");
    let without_time = |mut problem: Value| {
        problem.as_object_mut().unwrap().remove("remaining_ms");
        problem
    };
    for (stolen, wrong) in with_lease_id(&id(1)).into_iter().zip(with_lease_id(&id(7))) {
        let mut answers = Vec::new();
        for (method, verb, body) in [stolen, wrong] {
            let path = format!("{lease}/{verb}");
            let answer = guarded.send(thief, method, &path, body).await;
            let (status, problem) = crate::common::answer(answer).await;
            assert_eq!(status, 409, "{verb}: {problem}");
            answers.push(without_time(problem));
        }
        assert_eq!(answers[0], answers[1]);
    }
    let many = json!({"leases": [{"lease": "job", "lease_id": id(1)}]});
    let (_, many) = guarded.post(thief, "/v1/namespaces/a/renew", many).await;
    assert_eq!(many["results"][0]["code"], "lease_id_mismatch", "{many}");
    let after = guarded.get("worker", lease).await.1;
    assert_eq!(
        (&after["epoch"], &after["revision"]),
        (&before["epoch"], &before["revision"])
    );
    let renew = guarded
        .post(
            "worker",
            &format!("{lease}/renew"),
            body_of("renew", &id(1)),
        )
        .await;
    assert_eq!(renew.0, 200, "{renew:?}");
}

#[tokio::test]
async fn a_stolen_lease_id_is_useless_also_after_a_restart_and_a_restore() {
    let principals = [
        ("worker", grant("candidate", "a", "")),
        ("thief", grant("candidate", "a", "")),
    ];
    let principals = principals
        .each_ref()
        .map(|(name, grants)| (*name, &**grants));
    let data = TempDir::new().unwrap();
    let config = || StoreConfig::folder(data.path().join("data"));
    let guarded = Guarded::start_with(config(), &principals);
    let path = "/v1/namespaces/a/leases/job/acquire";
    let (status, granted) = guarded
        .post("worker", path, body_of("acquire", &id(1)))
        .await;
    assert_eq!(
        (status, &granted["owner"]),
        (200, &json!("worker")),
        "{granted}"
    );
    assert_stolen_is_useless(&guarded).await;
    let guarded = guarded.restart(config()).await;
    assert_stolen_is_useless(&guarded).await;

    // The backup of a running store is restored in another directory.
    let (file, restored) = (data.path().join("backup"), data.path().join("restored"));
    let (from, to) = (data.path().join("data"), restored.clone());
    let make = move || {
        backup(&from, &file, Existing::Keep).unwrap();
        restore(&file, &to).unwrap();
    };
    tokio::task::spawn_blocking(make).await.unwrap();
    let guarded = guarded.restart(StoreConfig::folder(&restored)).await;
    assert_stolen_is_useless(&guarded).await;
    let guarded = guarded.restart(config()).await;
    let history = guarded
        .get("worker", "/v1/namespaces/a/leases/job/history")
        .await
        .1;
    assert_eq!(history["terms"][0]["owner"], "worker", "{history}");

    // The next term belongs to its own principal. The history contains both terms, also after a
    // restart.
    let release = "/v1/namespaces/a/leases/job/release";
    assert_eq!(
        guarded
            .post("worker", release, body_of("release", &id(1)))
            .await
            .0,
        200
    );
    let acquire = json!({"lease_id": id(3), "holder": "c2", "duration_ms": 60_000});
    assert_eq!(guarded.post("thief", path, acquire).await.0, 200);
    let guarded = guarded.restart(config()).await;
    let history = guarded
        .get("worker", "/v1/namespaces/a/leases/job/history")
        .await
        .1;
    let owners = [0, 1].map(|index| history["terms"][index]["owner"].clone());
    assert_eq!(owners, ["thief", "worker"], "{history}");
}
