//! The metrics of leases, and their limit.

use super::*;

#[tokio::test]
async fn a_lease_has_series_that_follow_it() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let running = served(bind(&store));
    let api = &running.api;
    assert_ok(&api.acquire("held", 1).await);
    assert_ok(&api.acquire("free", 2).await);
    assert_ok(&api.release("free", 2).await);
    assert_ok(&api.acquire("free", 3).await);
    assert_ok(&api.release("free", 3).await);
    let waiting = api.waiting("held", 4, &json!({}));
    api.queue_of("held", 1).await;
    let breaking = json!({"break_period_ms": 30_000});
    assert_ok(&api.acquire("breaking", 5).await);
    assert_ok(&api.post("breaking", "break", breaking).await);
    let short = json!({"holder": "c6", "duration_ms": 1_000, "lease_id": id(6)});
    let (_, view) = api.post("gone", "acquire", short).await;
    sleep(Duration::from_millis(1_100)).await;

    let metrics = scrape_with(&store, MetricsConfig::default()).await;
    for (state, count) in [
        ("available", 1.0),
        ("leased", 1.0),
        ("breaking", 1.0),
        ("expired", 1.0),
        ("broken", 0.0),
    ] {
        metrics.assert(&format!("tenure_leases{{state=\"{state}\"}}"), count);
    }
    let series = |metric: &str, lease: &str| {
        format!("tenure_lease_{metric}{{namespace=\"ns\",lease=\"{lease}\"}}")
    };
    for (lease, held, waiters, terms) in [
        ("held", 1.0, 1.0, 1.0),
        ("free", 0.0, 0.0, 2.0),
        ("breaking", 1.0, 0.0, 1.0),
        ("gone", 0.0, 0.0, 1.0),
    ] {
        metrics.assert(&series("held", lease), held);
        metrics.assert(&series("waiters", lease), waiters);
        metrics.assert(&series("terms_total", lease), terms);
        metrics.assert(&series("expected", lease), 0.0);
        let granted_at = metrics.find(&series("granted_timestamp_seconds", lease));
        assert_eq!(granted_at.is_some(), held == 1.0, "{lease}");
    }
    let epoch = view["epoch"].as_f64().unwrap();
    metrics.assert(&series("epoch", "gone"), epoch);
    let age = metrics.get(&series("renewal_age_ratio", "held"));
    assert!(age > 1.0 / 60.0 && age < 1.0, "{age}");
    assert_eq!(metrics.find(&series("renewal_age_ratio", "breaking")), None);
    metrics.assert("tenure_lease_series_left_out", 0.0);
    metrics.assert("tenure_epoch_ahead_seconds", 0.0);
    waiting.abort();
}

#[tokio::test]
async fn over_the_maximum_no_lease_has_series_except_expected_ones() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let api = served(bind(&store)).api;
    let mut leases: Vec<String> = (0..200).map(|number| format!("lease-{number}")).collect();
    for (number, lease) in (1..).zip(&leases) {
        assert_ok(&api.acquire(lease, number).await);
    }
    let metrics = scrape_with(&store, MetricsConfig::default()).await;
    assert_eq!(metrics.count("tenure_lease_held{"), 200);
    metrics.assert("tenure_lease_series_left_out", 0.0);

    leases.push("lease-200".into());
    assert_ok(&api.acquire("lease-200", 201).await);
    let metrics = scrape_with(&store, MetricsConfig::default()).await;
    assert_eq!(metrics.count("tenure_lease_"), 1);
    metrics.assert("tenure_lease_series_left_out", 201.0);
    metrics.assert("tenure_leases{state=\"leased\"}", 201.0);

    let expected = ["ns/lease-7", "ns/missing"];
    let config = MetricsConfig::default().with_expected(expected).unwrap();
    let metrics = scrape_with(&store, config.clone()).await;
    assert_eq!(metrics.count("tenure_lease_held{"), 200 + 2);
    let fewer = config.clone().with_max_leases(199);
    let metrics = scrape_with(&store, fewer).await;
    metrics.assert("tenure_lease_series_left_out", 200.0);
    assert_eq!(metrics.count("tenure_lease_held{"), 2);
    for (lease, held, terms) in [("lease-7", 1.0, 1.0), ("missing", 0.0, 0.0)] {
        let labels = format!("{{namespace=\"ns\",lease=\"{lease}\"}}");
        metrics.assert(&format!("tenure_lease_held{labels}"), held);
        metrics.assert(&format!("tenure_lease_expected{labels}"), 1.0);
        metrics.assert(&format!("tenure_lease_terms_total{labels}"), terms);
        metrics.assert(&format!("tenure_lease_waiters{labels}"), 0.0);
    }
    let ten = config.with_leases(["ns/lease-11*"]).unwrap();
    let metrics = scrape_with(&store, ten.with_max_leases(11)).await;
    assert_eq!(metrics.count("tenure_lease_held{"), 11 + 2);
}

#[tokio::test]
async fn leases_are_not_walked_over_again_within_ten_seconds() {
    let running = common::in_memory();
    let began = Instant::now();
    let leased = "tenure_leases{state=\"leased\"}";
    Metrics::of(&running.api).await.assert(leased, 0.0);
    assert_ok(&running.api.acquire("a", 1).await);
    let again = Metrics::of(&running.api).await;
    if began.elapsed() < Duration::from_secs(10) {
        again.assert(leased, 0.0);
    }
    sleep(Duration::from_secs(10)).await;
    Metrics::of(&running.api).await.assert(leased, 1.0);
}
