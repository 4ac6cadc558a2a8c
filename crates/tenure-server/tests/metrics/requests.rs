//! The metrics of requests.

use super::*;
use reqwest::Method;

#[tokio::test]
async fn requests_are_counted_by_route_and_status() {
    let running = common::in_memory();
    let api = &running.api;
    assert_ok(&api.acquire("a", 1).await);
    assert_refused(&api.acquire("a", 2).await, 409, "lease_held");
    assert_ok(&api.renew("a", 1).await);
    assert_refused(&api.renew("b", 1).await, 404, "unknown_lease");
    for (method, path) in [
        (Method::GET, "/livez"),
        (Method::HEAD, "/livez"),
        (Method::GET, "/nowhere"),
        (Method::PATCH, "/livez"),
    ] {
        api.request(method, path).send().await.unwrap();
    }
    Metrics::of(api).await;
    let metrics = Metrics::of(api).await;
    for (route, status, count) in [
        ("acquire", 200, 1.0),
        ("acquire", 409, 1.0),
        ("renew", 200, 1.0),
        ("renew", 404, 1.0),
        ("livez", 200, 2.0),
        ("other", 404, 1.0),
        ("other", 405, 1.0),
        ("metrics", 200, 1.0),
    ] {
        let series = format!("tenure_http_requests_total{{route=\"{route}\",status=\"{status}\"}}");
        metrics.assert(&series, count);
    }
    let durations = "tenure_http_request_duration_seconds";
    metrics.assert(&format!("{durations}_count{{route=\"renew\"}}"), 2.0);
    assert!(metrics.get(&format!("{durations}_sum{{route=\"renew\"}}")) > 0.0);
    assert_eq!(
        metrics.count(&format!("{durations}_bucket{{route=\"renew\"")),
        13
    );
}

#[tokio::test]
async fn the_time_that_a_request_asks_to_wait_is_not_its_duration() {
    const WAIT: Duration = Duration::from_secs(5);
    let running = common::in_memory();
    let api = &running.api;
    assert_ok(&api.acquire("a", 1).await);
    let wait_ms = json!({"wait_ms": WAIT.as_millis() as u64});
    let acquire = api.waiting("a", 2, &wait_ms);
    api.queue_of("a", 1).await;
    let after = api.get("a").await.1["revision"].as_u64().unwrap();
    let url = format!(
        "{}?after={after}&wait_ms={}",
        api.url("a", ""),
        WAIT.as_millis()
    );
    let began = Instant::now();
    let polled = api.http.get(url).send().await.unwrap();
    assert_eq!(polled.status(), 200);
    assert!(began.elapsed() >= WAIT);
    assert_refused(&common::outcome(acquire).await.0, 409, "lease_held");
    let metrics = Metrics::of(api).await;
    for route in ["view", "acquire"] {
        let sum = format!("tenure_http_request_duration_seconds_sum{{route=\"{route}\"}}");
        let seconds = metrics.find(&sum).unwrap();
        assert!(seconds < WAIT.as_secs_f64(), "{route}: {seconds}");
    }
}
