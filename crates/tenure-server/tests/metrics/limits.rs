//! The metrics of connections, waiters and watchers, with their limits.

use super::*;
use common::wire::Wire;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn waiters_long_polls_and_watchers_are_counted_while_they_are_there() {
    let running = limited(|limits| {
        limits.max_waiting = 77;
        limits.max_watchers = 88;
    });
    let api = &running.api;
    assert_ok(&api.acquire("a", 1).await);
    let revision = api.get("a").await.1["revision"].as_u64().unwrap();
    let waiting = api.waiting("a", 2, &json!({}));
    until(api, "tenure_waiting", 1.0).await;
    let after = api.get("a").await.1["revision"]
        .as_u64()
        .unwrap()
        .max(revision);
    let url = format!("{}?after={after}&wait_ms=60000", api.url("a", ""));
    let poll = tokio::spawn(api.http.get(url).send());
    until(api, "tenure_long_polls", 1.0).await;
    let url = format!("{}/v1/namespaces/ns/leases/a/events", api.origin);
    let stream = api.http.get(url).send().await.unwrap();
    let metrics = Metrics::of(api).await;
    for (series, value) in [
        ("tenure_waiting", 2.0),
        ("tenure_waiting_limit", 77.0),
        ("tenure_long_polls", 1.0),
        ("tenure_long_polls_limit", 77.0),
        ("tenure_watchers", 1.0),
        ("tenure_watchers_limit", 88.0),
    ] {
        metrics.assert(series, value);
    }
    drop(stream);
    waiting.abort();
    poll.abort();
    for series in ["tenure_waiting", "tenure_long_polls", "tenure_watchers"] {
        until(api, series, 0.0).await;
    }
}

#[tokio::test]
async fn connections_are_counted_by_their_places_and_refusals() {
    let running = limited(|limits| limits.max_connections = 2);
    let api = &running.api;
    let mut leader = Wire::connect(api).await;
    let acquire = "/v1/namespaces/ns/leases/job/acquire";
    assert_ok(&leader.post(acquire, &minute(1)).await.answer);
    let mut second = Wire::connect(api).await;
    let refused = second.get("/v1/limits").await;
    assert_eq!(refused.answer.0, 200);
    let mut over = Wire::connect(api).await;
    assert_eq!(over.get("/v1/limits").await.answer.0, 429);
    assert!(over.closes_within(SOON).await);
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(Wire::connect(api).await);
    }
    drop(second);
    drop(silent);
    // One place is free, which the scrapes use.
    let end = Instant::now() + SOON;
    while api
        .http
        .get(format!("{}/metrics", api.origin))
        .send()
        .await
        .unwrap()
        .status()
        != 200
    {
        assert!(Instant::now() < end, "no free connection");
        sleep(Duration::from_millis(10)).await;
    }
    until(api, "tenure_connections{place=\"standing\"}", 0.0).await;
    let metrics = Metrics::of(api).await;
    metrics.assert("tenure_connections{place=\"seat\"}", 2.0);
    metrics.assert("tenure_connections_limit{place=\"seat\"}", 2.0);
    assert!(metrics.get("tenure_connections_limit{place=\"standing\"}") >= 1.0);
    assert!(metrics.get("tenure_connections_refused_total{why=\"store\"}") >= 1.0);
    assert!(metrics.get("tenure_refusals_total{code=\"over_limit\"}") >= 1.0);
    let limits = "tenure_http_requests_total{route=\"limits\",status=\"429\"}";
    assert!(metrics.get(limits) >= 1.0, "{}", metrics.0);
}

#[tokio::test]
async fn failed_handshakes_are_counted() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let [certificate, key] = ["c.pem", "k.pem"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = tenure_server::Tls::open(certificate, key).unwrap();
    let store = Store::open(StoreConfig::memory()).unwrap();
    let running = served(bind(&store).with_tls(tls));
    let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([root]);
    let api = Api {
        origin: running.api.origin.replace("http:", "https:"),
        http: client.build().unwrap(),
    };
    let failures = "tenure_tls_handshake_failures_total";
    Metrics::of(&api).await.assert(failures, 0.0);
    let address = running.api.origin.strip_prefix("http://").unwrap();
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    until(&api, failures, 1.0).await;
}

#[tokio::test]
async fn a_watcher_that_missed_events_is_counted_and_a_new_one_is_not() {
    let running = common::in_memory();
    let api = &running.api;
    assert_ok(&api.acquire("a", 1).await);
    let resets = "tenure_event_resets_total";
    for (last_event_id, expected) in [(None, 0.0), (Some("1"), 1.0)] {
        let url = format!("{}/v1/namespaces/ns/leases/a/events", api.origin);
        let request = api.http.get(url);
        let request = match last_event_id {
            Some(id) => request.header("last-event-id", id),
            None => request,
        };
        let mut stream = request.send().await.unwrap();
        let first = stream.chunk().await.unwrap().unwrap();
        assert!(first.starts_with(b"event: reset"), "{first:?}");
        Metrics::of(api).await.assert(resets, expected);
    }
}
