//! Streams of events: each change arrives once, in order, and without secrets.

mod all;
mod limits;
mod resume;
mod stream;

use std::time::Duration;

use crate::common::{
    Answer, Api, Running, SOON, answer, assert_ok, assert_refused, id, in_memory, minute, start,
};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use stream::Stream;
use tenure_server::{Limits, StoreConfig};
use tokio::time::{Instant, sleep, timeout};

fn lease(api: &Api, lease: &str) -> RequestBuilder {
    asking(api, lease, "")
}

fn asking(api: &Api, lease: &str, query: &str) -> RequestBuilder {
    api.http.get(api.url(lease, "events") + query)
}

fn namespace(api: &Api, namespace: &str) -> RequestBuilder {
    let path = format!("{}/v1/namespaces/{namespace}/leases/events", api.origin);
    api.http.get(path).header("accept", "text/event-stream")
}

fn after(request: RequestBuilder, id: u64) -> RequestBuilder {
    request.header("last-event-id", id)
}

async fn refusal(request: RequestBuilder) -> Answer {
    answer(request.send().await.unwrap()).await
}

async fn set_metadata(api: &Api, lease: &str, text: &str) {
    let body = json!({"lease_id": id(1), "metadata": {"key": text}});
    let request = api.http.put(api.url(lease, "metadata")).json(&body);
    assert_ok(&answer(request.send().await.unwrap()).await);
}

/// Returns the current revision of the store.
async fn revision(api: &Api) -> u64 {
    let mut stream = Stream::open(namespace(api, "unused")).await;
    stream.expect("reset").await.0.unwrap()
}

fn with_limits(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    start(StoreConfig::memory().with_limits(limits))
}

#[tokio::test]
async fn an_event_has_the_revision_of_its_change_and_no_lease_id() {
    let api = in_memory().api;
    let begun = revision(&api).await;
    let mut stream = Stream::open(lease(&api, "job")).await;
    assert_eq!(
        stream.expect("reset").await,
        (Some(begun), "reset".into(), json!({"revision": begun}))
    );

    let granted = api.acquire("job", 1).await.1;
    let (event_id, _, data) = stream.expect("granted").await;
    let mut view = api.get("job").await.1;
    // Only the remaining time differs.
    view["remaining_ms"] = data["remaining_ms"].clone();
    assert_eq!((event_id, &data), (Some(begun + 1), &view));
    assert_eq!(
        (&data["epoch"], &data["holder"]),
        (&granted["epoch"], &json!("c1"))
    );

    set_metadata(&api, "job", "value").await;
    let (event_id, _, data) = stream.expect("metadata").await;
    assert_eq!(
        (event_id, &data["metadata"]),
        (Some(begun + 2), &json!({"key": "value"}))
    );

    let change = json!({"lease_id": id(1), "proposed_lease_id": id(2)});
    assert_ok(&api.post("job", "change", change).await);
    assert_eq!(stream.expect("changed").await.0, Some(begun + 3));

    assert_eq!(data["term"], Value::Null);

    let release = json!({"lease_id": id(2), "reason": "done for today"});
    assert_ok(&api.post("job", "release", release).await);
    let (event_id, _, data) = stream.expect("released").await;
    assert_eq!(
        (event_id, &data["reason"]),
        (Some(begun + 4), &json!("done for today"))
    );
    assert_eq!(
        (&data["state"], &data["holder"]),
        (&json!("available"), &Value::Null)
    );
    // This is the term that ended.
    let of_c1 = json!({"epoch": granted["epoch"], "holder": "c1"});
    assert_eq!(data["term"], of_c1);

    assert_ok(&api.acquire("job", 3).await);
    stream.expect("granted").await;
    let hand_over = json!({"lease_id": id(3), "to": "c4", "within_ms": 100, "force": true});
    assert_ok(&api.post("job", "handover", hand_over).await);
    assert_eq!(stream.expect("released").await.2["reason"], "handed over");

    let mut heir = minute(4);
    heir["holder"] = json!("c4");
    assert_ok(&api.post("job", "acquire", heir).await);
    let granted = stream.expect("granted").await.2;
    let breaking = json!({"break_period_ms": 1_000, "reason": "it hangs"});
    assert_ok(&api.post("job", "break", breaking).await);
    let data = stream.expect("breaking").await.2;
    assert_eq!(
        (&data["remaining_ms"], &data["reason"]),
        (&json!(1_000), &json!("it hangs"))
    );
    // Without a request the timer ends the term.
    let data = stream.expect("broken").await.2;
    assert_eq!(data["state"], "broken");
    let of_c4 = json!({"epoch": granted["epoch"], "holder": "c4"});
    assert_eq!(data["term"], of_c4);

    assert_eq!(api.delete("job").await.0, 204);
    let (event_id, _, data) = stream.expect("deleted").await;
    assert_eq!(
        (event_id, &data["lease"], &data["holder"]),
        (Some(begun + 10), &json!("job"), &Value::Null)
    );
    stream.expect_nothing().await;

    let mut again = Stream::open(after(lease(&api, "job"), begun)).await;
    for _ in 0..10 {
        again.next().await;
    }
    assert!(again.all.matches("data: ").count() >= 10);
    for number in 1..=4 {
        assert!(!stream.all.contains(&id(number)) && !again.all.contains(&id(number)));
    }
}

#[tokio::test]
async fn a_watched_lease_expires_in_the_stream_without_a_request() {
    let api = in_memory().api;
    let short = |number| json!({"holder": "c", "duration_ms": 1_000, "lease_id": id(number)});
    // One lease is held before the streams open, one is acquired afterwards, and one is renewed
    // meanwhile.
    assert_ok(&api.post("before", "acquire", short(1)).await);
    assert_ok(&api.post("renewed", "acquire", short(1)).await);
    let mut one = Stream::open(lease(&api, "before")).await;
    let mut all = Stream::open(namespace(&api, "ns")).await;
    let mut second = Stream::open(namespace(&api, "ns")).await;
    for stream in [&mut one, &mut all, &mut second] {
        stream.expect("reset").await;
    }
    sleep(Duration::from_millis(500)).await;
    let asked = Instant::now();
    assert_ok(&api.renew("renewed", 1).await);
    assert_ok(&api.post("after", "acquire", short(2)).await);
    for stream in [&mut all, &mut second] {
        assert_eq!(stream.expect("granted").await.2["lease"], "after");
        assert_eq!(stream.expect("expired").await.2["lease"], "before");
        let mut both = [
            stream.expect("expired").await,
            stream.expect("expired").await,
        ]
        .map(|event| event.2["lease"].as_str().unwrap().to_owned());
        both.sort_unstable();
        assert_eq!(both, ["after", "renewed"]);
    }
    assert!(asked.elapsed() >= Duration::from_secs(1), "not early");
    let data = one.expect("expired").await.2;
    assert_eq!(
        (&data["state"], &data["reason"]),
        (&json!("expired"), &json!("not renewed in time"))
    );
    one.expect_nothing().await;
}

#[tokio::test]
async fn a_lease_with_the_name_events_and_the_stream_of_its_namespace_are_both_available() {
    let api = in_memory().api;
    let begun = revision(&api).await;
    let path = api.url("events", "");
    let asked = api.http.get(&path).header("accept", "application/json");
    assert_refused(&refusal(asked).await, 404, "unknown_lease");
    // A client that accepts any type gets the stream while there is no lease of this name.
    let mut any = Stream::open(api.http.get(&path)).await;
    any.expect("reset").await;
    let accept = "application/json, Text/Event-Stream; q=0.5";
    let request = api.http.get(api.url("events", "")).header("accept", accept);
    let mut all = Stream::open(request).await;
    let mut one = Stream::open(lease(&api, "events")).await;
    assert_ok(&api.acquire("job", 1).await);
    assert_ok(&api.acquire("events", 1).await);
    assert_eq!(any.expect("granted").await.2["lease"], "job");
    assert_eq!(api.get("events").await.1["holder"], "c1");
    for (stream, names) in [(&mut all, &["job", "events"][..]), (&mut one, &["events"])] {
        stream.expect("reset").await;
        for name in names {
            assert_eq!(stream.expect("granted").await.2["lease"], *name);
        }
    }
    let polled = format!("{}?after=0&wait_ms=0", api.url("events", ""));
    assert_eq!(refusal(api.http.get(polled)).await.1["revision"], begun + 2);
    assert_ok(&api.release("events", 1).await);
    assert_eq!(api.delete("events").await.0, 204);
}

#[tokio::test]
async fn a_stream_has_renewals_on_request_and_resumes_without_them() {
    let api = in_memory().api;
    let begun = revision(&api).await;
    assert_ok(&api.acquire("job", 1).await);
    let mut plain = Stream::open(after(lease(&api, "job"), begun + 1)).await;
    let mut with = Stream::open(after(asking(&api, "job", "?renewed=true"), begun + 1)).await;
    let all = api.url("events?renewed=true", "");
    let all = api.http.get(all).header("accept", "text/event-stream");
    let mut all = Stream::open(after(all, begun + 1)).await;
    assert_ok(&api.renew("job", 1).await);
    // A renewal that changes the duration is durable: it has a revision.
    let longer = json!({"lease_id": id(1), "duration_ms": 70_000});
    assert_ok(&api.post("job", "renew", longer).await);
    assert_ok(&api.release("job", 1).await);
    for stream in [&mut with, &mut all] {
        let (event_id, _, data) = stream.expect("renewed").await;
        assert_eq!((event_id, &data["revision"]), (None, &json!(begun + 1)));
        let (event_id, _, data) = stream.expect("renewed").await;
        assert_eq!(
            (event_id, &data["duration_ms"]),
            (Some(begun + 2), &json!(70_000))
        );
        assert_eq!(stream.expect("released").await.0, Some(begun + 3));
    }
    assert_eq!(plain.expect("released").await.0, Some(begun + 3));
    let mut replayed = Stream::open(after(lease(&api, "job"), begun + 1)).await;
    assert_eq!(replayed.expect("released").await.0, Some(begun + 3));
}

#[tokio::test]
async fn a_stream_with_a_wrong_parameter_is_refused() {
    let api = in_memory().api;
    for (wrong, status, code) in [
        ("abc", 400, "malformed"),
        ("1.5", 400, "malformed"),
        ("1,2", 400, "malformed"),
        ("-1", 422, "out_of_range"),
        ("18446744073709551616", 422, "out_of_range"),
    ] {
        for request in [lease(&api, "job"), namespace(&api, "ns")] {
            let refused = refusal(request.header("last-event-id", wrong)).await;
            assert_refused(&refused, status, code);
            let detail = refused.1["detail"].as_str().unwrap();
            assert!(detail.starts_with("Last-Event-ID is"), "{detail}");
        }
    }
    let twice = after(after(lease(&api, "job"), 1), 2);
    assert_refused(&refusal(twice).await, 400, "malformed");
    let renewed = asking(&api, "job", "?renewed=1");
    assert_refused(&refusal(renewed).await, 400, "malformed");
    let unknown = asking(&api, "job", "?after=1");
    assert_refused(&refusal(unknown).await, 400, "unknown_field");
    assert_refused(&refusal(lease(&api, "a%20b")).await, 400, "invalid_name");
    let post = api.http.post(api.url("job", "events"));
    assert_refused(&refusal(post).await, 405, "method_not_allowed");
}

#[tokio::test]
async fn a_shutdown_ends_all_streams_at_once() {
    let server = in_memory();
    let api = server.api.clone();
    assert_ok(&api.acquire("job", 1).await);
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(Stream::open(lease(&api, "job")).await);
        streams.push(Stream::open(namespace(&api, "ns")).await);
    }
    let begun = Instant::now();
    timeout(SOON, server.stop()).await.unwrap().unwrap();
    // Connections that stay idle are only closed after five seconds.
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    for mut stream in streams {
        while stream.next_or_end().await.is_some() {}
    }
}

#[tokio::test]
async fn watchers_learn_that_an_expired_term_continues() {
    let api = in_memory().api;
    let mut stream = Stream::open(lease(&api, "job")).await;
    stream.expect("reset").await;
    let body = json!({"holder": "c1", "lease_id": id(1), "duration_ms": 1_000});
    assert_ok(&api.post("job", "acquire", body).await);
    let epoch = stream.expect("granted").await.2["epoch"].clone();
    stream.expect("expired").await;
    let mut body = minute(1);
    body["resume"] = json!({"epoch": epoch, "without_store_ms": 500});
    assert_ok(&api.post("job", "acquire", body).await);
    let (event_id, _, data) = stream.expect("resumed").await;
    let mut view = api.get("job").await.1;
    // Only the remaining time differs.
    view["remaining_ms"] = data["remaining_ms"].clone();
    assert_eq!(data, view);
    assert_eq!(event_id, view["revision"].as_u64());
    assert_eq!((&data["holder"], &data["epoch"]), (&json!("c1"), &epoch));
    assert_eq!(data["without_store"]["total_ms"], 500);
}
