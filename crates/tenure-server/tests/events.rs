//! Streams of events: what happened, in order, nothing of it twice, and never a secret.

mod common;

use std::time::Duration;

use common::{
    Answer, Api, Running, SOON, answer, assert_ok, assert_refused, id, in_memory, minute, start,
};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use tenure_server::{Limits, StoreConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

/// Long enough to notice what should not come, if the machine is not very busy.
const A_MOMENT: Duration = Duration::from_millis(100);

/// One event: its id, its name and its data.
type Event = (Option<u64>, String, Value);

/// A stream that is read.
struct Stream {
    response: Response,
    text: String,
    /// Everything that came.
    all: String,
}

impl Stream {
    async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let (text, all) = (String::new(), String::new());
        Self {
            response,
            text,
            all,
        }
    }

    /// The next event, if there is one before the stream ends.
    async fn next_or_end(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let event = parse(block);
                self.text = rest.to_owned();
                if event.is_some() {
                    return event;
                }
                continue;
            }
            let chunk = timeout(SOON, self.response.chunk());
            let chunk = chunk.await.expect("an event or a heartbeat").ok()??;
            let chunk = std::str::from_utf8(&chunk).unwrap();
            self.text += chunk;
            self.all += chunk;
        }
    }

    async fn next(&mut self) -> Event {
        self.next_or_end().await.expect("an event")
    }

    /// The next event, which must be of this name.
    async fn expect(&mut self, name: &str) -> Event {
        let event = self.next().await;
        assert_eq!(event.1, name, "{event:?}");
        event
    }

    async fn expect_nothing(&mut self) {
        let next = timeout(A_MOMENT, self.next()).await;
        assert!(next.is_err(), "{next:?}");
    }
}

/// A block of lines; `None` if it is a comment.
fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let mut lines = block.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let data = serde_json::from_str(field("data")?).unwrap();
    let id = field("id").map(|id| id.parse().unwrap());
    Some((id, field("event")?.to_owned(), data))
}

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

/// The revision that the store is at.
async fn revision(api: &Api) -> u64 {
    let mut stream = Stream::open(namespace(api, "nobody")).await;
    stream.expect("reset").await.0.unwrap()
}

fn with_limits(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    start(StoreConfig::memory().with_limits(limits))
}

#[tokio::test]
async fn each_change_of_a_lease_is_told_with_its_revision_and_never_with_a_lease_id() {
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
    // Time goes on; everything else is as it was.
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
    // Whose term is over.
    let of_c1 = json!({"epoch": granted["epoch"], "holder": "c1"});
    assert_eq!(data["term"], of_c1);

    assert_ok(&api.acquire("job", 3).await);
    stream.expect("granted").await;
    let hand_over = json!({"lease_id": id(3), "to": "c4", "within_ms": 100});
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
    // Nobody asks; the store looks by itself.
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
async fn a_watched_lease_that_nobody_touches_expires_in_the_stream() {
    let api = in_memory().api;
    let short = |number| json!({"holder": "c", "duration_ms": 1_000, "lease_id": id(number)});
    // One is held before it is watched, one is acquired afterwards, one is renewed meanwhile.
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
async fn a_lease_that_is_watched_alone_expires_in_its_stream() {
    let api = in_memory().api;
    let begun = revision(&api).await;
    let short = json!({"holder": "c", "duration_ms": 1_000, "lease_id": id(1)});
    assert_ok(&api.post("job", "acquire", short).await);
    let mut stream = Stream::open(lease(&api, "job")).await;
    stream.expect("reset").await;
    assert_eq!(stream.expect("expired").await.0, Some(begun + 2));
    // Nobody watches it when it is granted and when it expires: who comes then is told at once.
    drop(stream);
    let short = json!({"holder": "c", "duration_ms": 1_000, "lease_id": id(2)});
    assert_ok(&api.post("job", "acquire", short).await);
    sleep(Duration::from_millis(1_200)).await;
    let mut stream = Stream::open(after(lease(&api, "job"), begun + 2)).await;
    stream.expect("granted").await;
    assert_eq!(stream.expect("expired").await.0, Some(begun + 4));
}

#[tokio::test]
async fn a_namespace_hears_of_its_own_leases_only() {
    let api = in_memory().api;
    let begun = revision(&api).await;
    let mut ours = Stream::open(namespace(&api, "ns")).await;
    let mut other = Stream::open(namespace(&api, "ns2")).await;
    for stream in [&mut ours, &mut other] {
        stream.expect("reset").await;
    }
    let path = "/v1/namespaces/ns2/leases/job/acquire";
    let request = api.request(reqwest::Method::POST, path).json(&minute(1));
    assert_ok(&answer(request.send().await.unwrap()).await);
    assert_ok(&api.acquire("first", 1).await);
    assert_ok(&api.acquire("second", 2).await);
    assert_eq!(other.expect("granted").await.2["namespace"], "ns2");
    let (event_id, _, data) = ours.expect("granted").await;
    assert_eq!(
        (event_id, &data["lease"]),
        (Some(begun + 2), &json!("first"))
    );
    assert_eq!(ours.expect("granted").await.2["lease"], "second");
    other.expect_nothing().await;
}

#[tokio::test]
async fn a_stream_of_a_namespace_and_a_lease_called_events_are_both_there() {
    let api = in_memory().api;
    let begun = revision(&api).await;
    let path = api.url("events", "");
    let asked = api.http.get(&path).header("accept", "application/json");
    assert_refused(&refusal(asked).await, 404, "unknown_lease");
    // Who takes anything gets the stream, as long as there is no such lease.
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
async fn renewals_are_told_on_request_and_are_nothing_to_resume_after() {
    let api = in_memory().api;
    let begun = revision(&api).await;
    assert_ok(&api.acquire("job", 1).await);
    let mut plain = Stream::open(after(lease(&api, "job"), begun + 1)).await;
    let mut with = Stream::open(after(asking(&api, "job", "?renewed=true"), begun + 1)).await;
    let all = api.url("events?renewed=true", "");
    let all = api.http.get(all).header("accept", "text/event-stream");
    let mut all = Stream::open(after(all, begun + 1)).await;
    assert_ok(&api.renew("job", 1).await);
    // One that changes the duration is written down: it has a revision.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_cut_again_and_again_loses_nothing_and_repeats_nothing() {
    const CHANGES: u64 = 600;
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    let api = server.api.clone();
    let start = Stream::open(namespace(&api, "ns"))
        .await
        .expect("reset")
        .await;
    let start = start.0.unwrap();
    // All leases change; each stream hears of its own part.
    let writers = [1, 2, 3].map(|number| {
        let api = api.clone();
        tokio::spawn(async move {
            let name = format!("job{number}");
            // An id whose term has ended is not granted again, also after a deletion.
            for number in (1..).take(CHANGES as usize / 6) {
                assert_ok(&api.acquire(&name, number).await);
                let release = json!({"lease_id": id(number)});
                assert_ok(&api.post(&name, "release", release).await);
                assert_eq!(api.delete(&name).await.0, 204);
            }
        })
    });
    let read = async |request: &(dyn Fn() -> RequestBuilder + Sync), count: u64| {
        let (mut last, mut heard) = (start, Vec::new());
        let mut cut_after = 1;
        while (heard.len() as u64) < count {
            let mut stream = Stream::open(after(request(), last)).await;
            for _ in 0..cut_after.min(count - heard.len() as u64) {
                let (event_id, name, data) = stream.next().await;
                assert_ne!(name, "reset", "{data} after {last}");
                last = event_id.unwrap();
                heard.push(last);
            }
            cut_after = cut_after % 40 + 7;
        }
        heard
    };
    let total = CHANGES / 6 * 3 * 3;
    let all = || namespace(&api, "ns");
    let one = || lease(&api, "job2");
    let (all, one) = tokio::join!(read(&all, total), read(&one, total / 3));
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(all, (start + 1..=start + total).collect::<Vec<_>>());
    assert!(one.is_sorted_by(|a, b| a < b));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn who_asks_for_what_is_not_known_any_more_is_told_to_look() {
    let api = in_memory().api;
    let begun = revision(&api).await;
    assert_ok(&api.acquire("job", 1).await);
    // One that is yet to come.
    let mut stream = Stream::open(after(lease(&api, "job"), begun + 7)).await;
    assert_eq!(
        stream.expect("reset").await.2,
        json!({"revision": begun + 1})
    );
    set_metadata(&api, "job", "after the reset").await;
    assert_eq!(stream.expect("metadata").await.0, Some(begun + 2));
    // More than the store remembers.
    overrun(&api).await;
    let mut stream = Stream::open(after(lease(&api, "job"), begun + 2)).await;
    let (event_id, _, data) = stream.expect("reset").await;
    let revision = api.get("job").await.1["revision"].clone();
    assert_eq!(
        (json!(event_id), &data["revision"]),
        (revision.clone(), &revision)
    );
    assert_ok(&api.release("job", 1).await);
    assert_eq!(
        stream.expect("released").await.0,
        Some(revision.as_u64().unwrap() + 1)
    );
}

/// Changes more than the store remembers: 8 MiB.
async fn overrun(api: &Api) {
    let text = "x".repeat(4_000);
    for _ in 0..2_200 {
        set_metadata(api, "job", &text).await;
    }
}

/// A stream of the lease's events that is not read yet, and for which there is little room.
async fn unread(api: &Api) -> TcpStream {
    let address = api.origin.strip_prefix("http://").unwrap().parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let request = "GET /v1/namespaces/ns/leases/job/events HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_is_told_to_look_and_then_goes_on() {
    // It pauses for longer than other requests may take.
    let request_time = Duration::from_secs(1);
    let server = with_limits(|limits| limits.request_time = request_time);
    let api = server.api.clone();
    assert_ok(&api.acquire("job", 1).await);
    let mut slow = unread(&api).await;
    let mut attentive = Stream::open(lease(&api, "job")).await;
    let first = attentive.expect("reset").await.0.unwrap();

    // What the connection takes, and then what the store remembers.
    let overruns = async {
        overrun(&api).await;
        overrun(&api).await;
        assert_ok(&api.release("job", 1).await);
    };
    let attention = async {
        let mut last = first;
        loop {
            let (event_id, name, _) = attentive.next().await;
            assert_eq!(event_id, Some(last + 1), "who reads misses nothing");
            last += 1;
            if name == "released" {
                return last - first;
            }
        }
    };
    let ((), told) = tokio::join!(overruns, attention);
    sleep(3 * request_time).await;

    let (mut names, mut text) = (Vec::new(), String::new());
    let mut buffer = vec![0; 64 * 1024];
    while names.last().is_none_or(|name| name != "released") {
        let read = timeout(SOON, slow.read(&mut buffer))
            .await
            .unwrap()
            .unwrap();
        assert!(read > 0);
        text += std::str::from_utf8(&buffer[..read]).unwrap();
        let ends = text.rfind("\n\n").map_or(0, |at| at + 2);
        let rest = text.split_off(ends);
        let fields = text.lines().filter_map(|line| line.strip_prefix("event: "));
        names.extend(fields.map(String::from));
        text = rest;
        // It asks for nothing again: the reset comes in the same stream.
        if names.last().is_some_and(|name| name == "reset") && names.len() > 1 {
            assert_ok(&api.acquire("job", 2).await);
            assert_ok(&api.release("job", 2).await);
        }
    }
    let resets = names.iter().filter(|name| *name == "reset").count();
    assert_eq!(resets, 2, "the first, and one for what was missed");
    assert!((names.len() as u64) < told, "{} of {told}", names.len());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_never_reads_again_gives_its_place_back() {
    let server = with_limits(|limits| {
        limits.max_watchers = 1;
        limits.header_time = Duration::from_secs(1);
    });
    let api = server.api.clone();
    assert_ok(&api.acquire("job", 1).await);
    let _deaf = unread(&api).await;
    overrun(&api).await;
    until_there_is_room(&api).await;
}

/// Until another one may watch.
async fn until_there_is_room(api: &Api) {
    let until = Instant::now() + SOON;
    while lease(api, "other").send().await.unwrap().status() != 200 {
        assert!(Instant::now() < until, "the place is not given back");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_stream_does_not_end_when_other_requests_would() {
    let server = with_limits(|limits| limits.request_time = Duration::from_millis(50));
    let api = server.api.clone();
    let mut stream = Stream::open(lease(&api, "job")).await;
    stream.expect("reset").await;
    sleep(Duration::from_millis(300)).await;
    assert_ok(&api.acquire("job", 1).await);
    stream.expect("granted").await;
}

#[tokio::test]
async fn a_stream_with_nothing_to_tell_shows_that_it_lives() {
    let api = in_memory().api;
    let mut stream = Stream::open(lease(&api, "job")).await;
    stream.expect("reset").await;
    // Clients take a stream that is silent for 40 s for dead.
    let sign = timeout(Duration::from_secs(40), stream.response.chunk());
    let sign = sign.await.expect("a heartbeat").unwrap().unwrap();
    assert!(sign.starts_with(b":"), "{sign:?}");
}

#[tokio::test]
async fn one_watcher_too_many_is_refused_until_another_one_has_gone() {
    let server = with_limits(|limits| limits.max_watchers = 2);
    let api = server.api.clone();
    let mut first = Stream::open(lease(&api, "job")).await;
    first.expect("reset").await;
    let second = Stream::open(namespace(&api, "ns")).await;
    let response = lease(&api, "job").send().await.unwrap();
    assert!(response.headers().contains_key("retry-after"));
    let refused = answer(response).await;
    assert_refused(&refused, 429, "over_limit");
    assert!(refused.1["detail"].as_str().unwrap().contains("at most 2"));
    // Nothing else is bound by it.
    assert_ok(&api.acquire("job", 1).await);
    first.expect("granted").await;
    drop(second);
    until_there_is_room(&api).await;
}

/// As a browser may send it, before it has heard of any event.
#[tokio::test]
async fn an_empty_id_is_none() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let request = lease(&api, "job").header("last-event-id", "");
    Stream::open(request).await.expect("reset").await;
}

#[tokio::test]
async fn what_can_not_be_asked_for_is_refused() {
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
    // Connections that are idle for long are cut only after five seconds.
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
async fn after_a_restart_everybody_is_told_to_look() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(StoreConfig::embedded(folder.path()));
    assert_ok(&server.api.acquire("job", 1).await);
    let revision = server.api.get("job").await.1["revision"].as_u64().unwrap();
    server.stop().await.unwrap();

    let server = start(StoreConfig::embedded(folder.path()));
    let api = server.api.clone();
    let mut stream = Stream::open(after(lease(&api, "job"), revision)).await;
    let reset = stream.expect("reset").await.0.unwrap();
    assert!(reset >= revision);
    assert_ok(&api.release("job", 1).await);
    assert_eq!(stream.expect("released").await.0, Some(reset + 1));
    drop(stream);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn revisions_of_a_store_that_was_here_before_are_never_taken_for_its_own() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let on_disk = [0, 1].map(|number: usize| StoreConfig::embedded(folders[number].path()));
    for [first, second] in [on_disk, [StoreConfig::memory(), StoreConfig::memory()]] {
        let server = start(first);
        for lease in ["a", "b", "c"] {
            assert_ok(&server.api.acquire(lease, 1).await);
        }
        let last = revision(&server.api).await;
        server.stop().await.unwrap();
        // Another store in its place does more than that one did.
        let server = start(second);
        for lease in ["d", "e", "f", "g", "h"] {
            assert_ok(&server.api.acquire(lease, 1).await);
        }
        for known in [last, last - 1] {
            let mut stream = Stream::open(after(namespace(&server.api, "ns"), known)).await;
            assert!(stream.expect("reset").await.0 > Some(last + 5));
        }
        server.stop().await.unwrap();
    }
}
