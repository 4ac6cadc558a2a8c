//! One lease through both protocols, and the extensions of the store.

use serde_json::json;

use crate::client::{ACCOUNT, Az, in_memory};
use crate::common::{Api, Running, answer, assert_refused, id, minute};

const MINUTE: (&str, &str) = ("x-ms-lease-duration", "60");

async fn with_blob() -> (Running, Az) {
    let (running, az) = in_memory();
    az.put("/leases?restype=container", &[]).await.assert(201);
    az.put_block("/leases/leader", &[], b"").await.assert(201);
    (running, az)
}

fn native(api: &Api, path: &str) -> String {
    format!("{}/v1/namespaces/{ACCOUNT}{path}", api.origin)
}

async fn acquire(az: &Az, target: &str, number: u32) -> crate::client::Answer {
    let headers = [
        ("x-ms-lease-action", "acquire"),
        MINUTE,
        ("x-ms-proposed-lease-id", &id(number)),
        ("x-ms-client-request-id", "my-request"),
    ];
    az.put(target, &headers).await
}

async fn with_id(az: &Az, target: &str, action: &str, number: u32) -> crate::client::Answer {
    let headers = [
        ("x-ms-lease-action", action),
        ("x-ms-lease-id", &id(number)),
        ("x-ms-client-request-id", "my-end"),
    ];
    az.put(target, &headers).await
}

#[tokio::test]
async fn a_lease_acquired_through_one_protocol_is_held_for_both() {
    let (running, az) = with_blob().await;
    let api = &running.api;
    let cases = [
        ("/leases/leader?comp=lease", ".leases/leases/leader"),
        ("/leases?restype=container&comp=lease", "/leases/leases"),
    ];
    for (target, lease) in cases {
        let url = |verb: &str| native(api, &format!("{lease}{verb}"));
        let post = async |verb: &str, body| {
            answer(api.http.post(url(verb)).json(&body).send().await.unwrap()).await
        };
        // The first holder acquires the lease through the Azure protocol.
        let granted = acquire(&az, target, 1).await;
        let epoch: u64 = granted.assert(201).header("tenure-epoch").parse().unwrap();
        let refused = post("/acquire", minute(2)).await;
        assert_refused(&refused, 409, "lease_held");
        assert_eq!(refused.1["epoch"], epoch);
        let seen = answer(api.http.get(url("")).send().await.unwrap()).await.1;
        assert_eq!(seen["holder"], "azure/my-request");
        assert_eq!(
            (&seen["epoch"], &seen["state"]),
            (&json!(epoch), &json!("leased"))
        );
        with_id(&az, target, "release", 1).await.assert(200);
        // The second holder acquires the lease through the native API.
        assert_eq!(post("/acquire", minute(3)).await.0, 200);
        acquire(&az, target, 4)
            .await
            .assert_refused(409, "LeaseAlreadyPresent");
        with_id(&az, target, "renew", 3).await.assert(200);
        let history = answer(api.http.get(url("/history")).send().await.unwrap())
            .await
            .1;
        let first = &history["terms"][1];
        assert_eq!(first["holder"], "azure/my-request");
        assert_eq!(first["reason"], "client request id my-end");
        assert_eq!(first["end"], "released");
    }
    // A blob with a native holder can't be written without its lease id.
    az.put_block("/leases/leader", &[], b"x")
        .await
        .assert_refused(412, "LeaseIdMissing");
    let with = id(3);
    let lease = [("x-ms-lease-id", &*with)];
    az.put_block("/leases/leader", &lease, b"x")
        .await
        .assert(201);
}

#[tokio::test]
async fn a_native_waiter_is_granted_the_lease_of_a_blob_when_it_is_released() {
    let (running, az) = with_blob().await;
    let target = "/leases/leader?comp=lease";
    acquire(&az, target, 1).await.assert(201);
    let api = running.api.clone();
    let url = native(&api, ".leases/leases/leader");
    let mut body = minute(2);
    body["wait_ms"] = json!(60_000);
    let waiting = tokio::spawn({
        let request = api.http.post(format!("{url}/acquire")).json(&body);
        async move { answer(request.send().await.unwrap()).await }
    });
    let until = tokio::time::Instant::now() + crate::common::SOON;
    while answer(api.http.get(&url).send().await.unwrap()).await.1["waiters"] != 1 {
        assert!(tokio::time::Instant::now() < until);
        tokio::task::yield_now().await;
    }
    with_id(&az, target, "release", 1).await.assert(200);
    let (status, view) = crate::common::outcome(waiting).await;
    assert_eq!((status, &view["holder"]), (200, &json!("c2")));
    acquire(&az, target, 3)
        .await
        .assert_refused(409, "LeaseAlreadyPresent");
}

#[tokio::test]
async fn deleting_a_blob_deletes_its_lease_and_epochs_still_grow() {
    let (running, az) = with_blob().await;
    let target = "/leases/leader?comp=lease";
    let first = acquire(&az, target, 1)
        .await
        .header("tenure-epoch")
        .to_owned();
    let held = id(1);
    az.delete("/leases/leader", &[("x-ms-lease-id", &held)])
        .await
        .assert(202);
    let url = native(&running.api, ".leases/leases/leader");
    let gone = answer(running.api.http.get(url).send().await.unwrap()).await;
    assert_refused(&gone, 404, "unknown_lease");
    az.put_block("/leases/leader", &[], b"").await.assert(201);
    with_id(&az, target, "renew", 1)
        .await
        .assert_refused(409, "LeaseIdMismatchWithLeaseOperation");
    let second = acquire(&az, target, 1)
        .await
        .header("tenure-epoch")
        .to_owned();
    assert!(second.parse::<u64>().unwrap() > first.parse::<u64>().unwrap());
}
