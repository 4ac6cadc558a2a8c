//! Tests of grants at the same moment at which a right is withdrawn.

use super::*;

/// Withdraws the right of `worker` while it acquires leases, in many rounds. After each round it
/// holds exactly the leases whose grants it received in answers.
async fn race(config: StoreConfig, rounds: u32, waits: bool) {
    const LEASES: u32 = 16;
    let grants = grant("candidate", "a", "");
    let guarded = Guarded::start_with(config, &[("holder", &grants), ("worker", &grants)]);
    let lease = |number: u32| format!("/v1/namespaces/a/leases/job-{number}");
    let holder_of = async |number| guarded.get("holder", &lease(number)).await.1["owner"].clone();
    let [mut granted, mut refused, mut given_back] = [0; 3];
    for round in 0..rounds {
        let lease_id = |number: u32, of: u32| id(2 * (round * LEASES + number) + of);
        let send = async |name: &str, number: u32, verb: &str, body: Value| {
            let path = format!("{}/{verb}", lease(number));
            guarded.post(name, &path, body).await
        };
        guarded.change(&[("holder", &grants), ("worker", &grants)]);
        if waits {
            let acquires = (0..LEASES).map(|number| {
                send(
                    "holder",
                    number,
                    "acquire",
                    body_of("acquire", &lease_id(number, 0)),
                )
            });
            for (status, answer) in join_all(acquires).await {
                assert_eq!(status, 200, "{answer}");
            }
        }
        let acquires = join_all((0..LEASES).map(|number| {
            let mut body = body_of("acquire", &lease_id(number, 1));
            body["wait_ms"] = json!(if waits { 60_000 } else { 0 });
            send("worker", number, "acquire", body)
        }));
        let race = async {
            if waits {
                for number in 0..LEASES {
                    until("a waiter", async || {
                        guarded.get("holder", &lease(number)).await.1["waiters"] == 1
                    })
                    .await;
                }
                let releases = join_all((0..LEASES).map(|number| {
                    let body = json!({"lease_id": lease_id(number, 0)});
                    send("holder", number, "release", body)
                }));
                tokio::join!(releases, revoke(&guarded, &grants, round));
            } else {
                revoke(&guarded, &grants, round).await;
            }
        };
        let (answers, ()) = tokio::join!(acquires, race);
        for (number, (status, answer)) in (0..).zip(answers) {
            let owner = holder_of(number).await;
            if status == 200 {
                granted += 1;
                assert_eq!(owner, "worker", "{answer}");
                continue;
            }
            refused += 1;
            assert_eq!(status, 403, "{answer}");
            assert_eq!(owner, Value::Null, "a refused acquire holds the lease");
            let history = guarded
                .get("holder", &format!("{}/history", lease(number)))
                .await
                .1;
            given_back += u32::from(waits && history["terms"][0]["owner"] == "worker");
        }
        guarded.change(&[("holder", &grants), ("worker", &grants)]);
        for number in 0..LEASES {
            let release = json!({"lease_id": lease_id(number, 1)});
            let _held = send("worker", number, "release", release).await;
            assert_eq!(holder_of(number).await, Value::Null);
        }
    }
    println!("{granted} granted, {refused} refused, {given_back} of these given back");
    assert_eq!(granted + refused, rounds * LEASES);
}

/// Withdraws the right, a little later in each round.
async fn revoke(guarded: &Guarded, grants: &str, round: u32) {
    for _ in 0..round % 40 {
        tokio::task::yield_now().await;
    }
    let wait = Duration::from_micros(u64::from(round % 10) * 300);
    tokio::time::sleep(wait).await;
    guarded.change(&[("holder", grants), ("worker", "")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_acquire_that_is_refused_holds_no_lease() {
    race(StoreConfig::memory(), 40, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_acquire_that_is_refused_holds_no_lease_on_disk() {
    let data = TempDir::new().unwrap();
    race(StoreConfig::folder(data.path().join("data")), 40, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_refused_while_its_grant_is_written_holds_no_lease() {
    let data = TempDir::new().unwrap();
    race(StoreConfig::folder(data.path().join("data")), 60, false).await;
}
