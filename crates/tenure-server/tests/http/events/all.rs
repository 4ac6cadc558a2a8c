//! The stream of the events of all namespaces.

use super::*;

fn all(api: &Api) -> RequestBuilder {
    api.http.get(format!("{}/v1/events", api.origin))
}

async fn acquire(api: &Api, namespace: &str, body: Value) -> Value {
    let path = format!("/v1/namespaces/{namespace}/leases/job/acquire");
    let request = api.request(reqwest::Method::POST, &path).json(&body);
    let acquired = answer(request.send().await.unwrap()).await;
    assert_ok(&acquired);
    acquired.1
}

#[tokio::test]
async fn a_stream_of_all_namespaces_has_the_events_of_each_of_them_in_order() {
    let api = in_memory().api;
    let mut stream = Stream::open(all(&api)).await;
    let begun = stream.expect("reset").await.0.unwrap();
    let mut of_one = Stream::open(namespace(&api, "two")).await;
    of_one.expect("reset").await;
    for (number, name) in (1..).zip(["one", "two", "one-more"]) {
        let granted = acquire(&api, name, minute(number)).await;
        let (id, _, data) = stream.expect("granted").await;
        assert_eq!(id, Some(begun + u64::from(number)));
        assert_eq!(
            (&data["namespace"], &data["revision"]),
            (&json!(name), &granted["revision"])
        );
    }
    assert_eq!(of_one.expect("granted").await.2["namespace"], "two");
    of_one.expect_nothing().await;
    stream.expect_nothing().await;
    // A client that was disconnected goes on after the last event that it has received.
    let mut resumed = Stream::open(after(all(&api), begun + 1)).await;
    for name in ["two", "one-more"] {
        assert_eq!(resumed.expect("granted").await.2["namespace"], name);
    }
    resumed.expect_nothing().await;
    // A revision of another store.
    let mut reset = Stream::open(after(all(&api), begun + 1_000)).await;
    reset.expect("reset").await;
    assert!(!stream.all.contains(&id(1)), "{}", stream.all);
}

#[tokio::test]
async fn a_lease_that_nobody_asks_for_expires_in_the_stream_of_all_namespaces() {
    let api = in_memory().api;
    let body = |number, millis: u32| {
        let mut body = minute(number);
        body["duration_ms"] = json!(millis);
        body
    };
    // One lease is there before the stream, and one comes after its beginning.
    acquire(&api, "before", body(1, 1_000)).await;
    let mut stream = Stream::open(all(&api)).await;
    stream.expect("reset").await;
    acquire(&api, "later", body(2, 1_000)).await;
    stream.expect("granted").await;
    let mut expired = Vec::new();
    for _ in 0..2 {
        let data = stream.expect("expired").await.2;
        expired.push(data["namespace"].as_str().unwrap().to_owned());
    }
    expired.sort_unstable();
    assert_eq!(expired, ["before", "later"]);
}
