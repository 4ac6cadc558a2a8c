//! The metrics of grants, ends of terms, renewals and commits.

use super::*;

use tempfile::TempDir;

#[tokio::test]
async fn grants_and_ends_are_counted_by_their_kind_with_and_without_a_disk() {
    let folder = TempDir::new().unwrap();
    for config in [
        StoreConfig::memory(),
        StoreConfig::folder(folder.path().join("data")),
    ] {
        let running = common::start(config);
        grants_and_ends(&running.api).await;
    }
}

async fn grants_and_ends(api: &Api) {
    assert_ok(&api.acquire("a", 1).await);
    // A waiter gets the lease after a release.
    let waiting = api.waiting("a", 2, &json!({}));
    api.queue_of("a", 1).await;
    let release = json!({"lease_id": id(1), "reason": "shut_down"});
    assert_ok(&api.post("a", "release", release).await);
    assert_ok(&common::outcome(waiting).await.0);
    // The lease is handed over.
    let handover = json!({"lease_id": id(2), "to": "c3", "within_ms": 30_000, "force": true});
    assert_ok(&api.post("a", "handover", handover).await);
    assert_ok(&api.acquire("a", 3).await);
    // A break, and a reason that no candidate of this library gives.
    let mine = json!({"break_period_ms": 0, "reason": "bad release"});
    assert_ok(&api.post("a", "break", mine).await);
    // A waiter gets the lease after an expiry.
    let short = json!({"holder": "c4", "duration_ms": 1_000, "lease_id": id(4)});
    assert_ok(&api.post("b", "acquire", short).await);
    assert_ok(&common::outcome(api.waiting("b", 5, &json!({}))).await.0);

    // Changes are counted right after they are durable.
    let how = |how| format!("tenure_grants_total{{how=\"{how}\"}}");
    until(api, &how("waited"), 2.0).await;
    let ended =
        |end, reason| format!("tenure_terms_ended_total{{end=\"{end}\",reason=\"{reason}\"}}");
    until(api, &ended("expired", "none"), 1.0).await;
    let metrics = Metrics::of(api).await;
    metrics.assert(&how("at_once"), 2.0);
    metrics.assert(&how("handed_over"), 1.0);
    metrics.assert(&ended("released", "shut_down"), 1.0);
    metrics.assert(&ended("handed_over", "none"), 1.0);
    metrics.assert(&ended("broken", "other"), 1.0);
    metrics.assert("tenure_release_to_grant_seconds_count", 1.0);
    metrics.assert("tenure_expiry_to_grant_seconds_count", 1.0);
    assert_eq!(metrics.count("tenure_terms_ended_total{"), 4 * 13);
}

#[tokio::test]
async fn renewals_are_counted_by_their_requests() {
    let running = common::in_memory();
    let api = &running.api;
    assert_ok(&api.acquire("a", 1).await);
    assert_ok(&api.acquire("b", 2).await);
    for _ in 0..3 {
        assert_ok(&api.renew("a", 1).await);
    }
    assert_refused(&api.renew("a", 2).await, 409, "lease_id_mismatch");
    let one = |lease, number| json!({"lease": lease, "lease_id": id(number)});
    let many = json!({"leases": [one("a", 1), one("b", 2), one("b", 1), one("c", 1)]});
    let url = format!("{}/v1/namespaces/ns/renew", api.origin);
    let request = api.http.post(url).json(&many);
    assert_ok(&common::answer(request.send().await.unwrap()).await);
    let metrics = Metrics::of(api).await;
    metrics.assert("tenure_renewals_total{way=\"one\"}", 3.0);
    metrics.assert("tenure_renewals_total{way=\"many\"}", 2.0);
    metrics.assert("tenure_refusals_total{code=\"lease_id_mismatch\"}", 2.0);
    metrics.assert("tenure_refusals_total{code=\"unknown_lease\"}", 1.0);
    metrics.assert("tenure_refusals_total{code=\"internal\"}", 0.0);
}

#[tokio::test]
async fn commits_and_files_are_measured() {
    let folder = TempDir::new().unwrap();
    let running = common::start(StoreConfig::folder(folder.path()));
    let api = &running.api;
    for number in 1..=5 {
        assert_ok(&api.acquire(&format!("lease-{number}"), number).await);
    }
    let metrics = Metrics::of(api).await;
    let commits = metrics.get("tenure_commit_duration_seconds_count");
    assert!(commits >= 1.0, "{}", metrics.0);
    metrics.assert("tenure_commit_changes_count", commits);
    metrics.assert("tenure_commit_changes_sum", 5.0);
    assert!(metrics.get("tenure_commit_duration_seconds_sum") > 0.0);
    for file in ["snapshot", "log"] {
        let bytes = metrics.find(&format!("tenure_database_bytes{{file=\"{file}\"}}"));
        assert!(bytes.is_some_and(|bytes| bytes > 0.0), "{file}");
    }
    for zero in [
        "tenure_journal_queue",
        "tenure_disk_full",
        "tenure_home_failed",
    ] {
        metrics.assert(zero, 0.0);
    }
    let end = Instant::now() + SOON;
    while Metrics::of(api)
        .await
        .get("tenure_tidy_duration_seconds_count")
        == 0.0
    {
        assert!(Instant::now() < end, "no upkeep");
        sleep(Duration::from_millis(50)).await;
    }
    let build = |home: &str| {
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "tenure_build_info{{version=\"{version}\",home=\"{home}\",tls=\"false\",access=\"anonymous\"}}"
        )
    };
    metrics.assert(&build("folder"), 1.0);
    let in_memory = common::in_memory();
    Metrics::of(&in_memory.api)
        .await
        .assert(&build("memory"), 1.0);
}
