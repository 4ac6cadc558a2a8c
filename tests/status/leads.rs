//! The routes of the status listener show the leadership.

use nix::sys::signal::Signal;
use reqwest::StatusCode;
use tenure_tests::promtool::check_metrics;
use tenure_tests::wait_for;

use crate::Bench;

#[test]
fn leader_follows_the_leadership_from_one_process_to_the_next() {
    let bench = Bench::new();
    let web = &bench.web;
    let mut first = bench.leader("one");
    let second = bench.run("two", &["sleep", "1000"]);
    // The other candidate names the leader.
    wait_for("the name of the leader", || {
        let (status, body) = web.get(second.status, "/leader")?;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        body.contains("\"candidate\":\"one\"").then_some(())
    });
    let (led, follows) = (web.metrics(first.status), web.metrics(second.status));
    assert_eq!(
        (led.get("candidate_leads"), follows.get("candidate_leads")),
        (1.0, 0.0)
    );
    let epoch = led.get("candidate_epoch");
    assert!(epoch > 1e12 && follows.get("candidate_epoch") == 0.0);
    assert_eq!(follows.get("candidate_deadline_timestamp_seconds"), 0.0);
    for candidate in [&first, &second] {
        for path in ["/livez", "/readyz"] {
            let (status, _) = web.get(candidate.status, path).expect("an answer");
            assert_eq!(status, StatusCode::OK, "{path}");
        }
    }

    first.process.signal(Signal::SIGTERM);
    assert_eq!(first.process.wait().code(), Some(0));
    web.wait_until_leads(second.status, true);
    assert_eq!(web.get(first.status, "/livez"), None, "the port is closed");
    let leads = web.metrics(second.status);
    assert_eq!(leads.get("candidate_leads"), 1.0);
    assert!(leads.get("candidate_epoch") > epoch);
}

#[test]
fn the_metrics_are_in_the_format_of_prometheus() {
    let bench = Bench::new();
    // A name that needs no escapes in a label, because names have none.
    let leader = bench.leader("one");
    let renewals = "candidate_renewals_total{result=\"ok\"}";
    bench
        .web
        .wait_for_sample(leader.status, renewals, |count| count >= 1.0);
    let metrics = bench.web.metrics(leader.status);
    assert!(
        metrics
            .text
            .contains("tenure_candidate_leads{election=\"tests/job\",candidate=\"one\"} 1\n"),
        "{}",
        metrics.text
    );
    let deadline = metrics.get("candidate_deadline_timestamp_seconds");
    let renewed = metrics.get("candidate_last_renewal_timestamp_seconds");
    assert!(
        (1.9..2.1).contains(&(deadline - renewed)),
        "{}",
        metrics.text
    );
    let count = metrics.get("candidate_renewal_duration_seconds_count");
    let bucket = "candidate_renewal_duration_seconds_bucket{le=\"+Inf\"}";
    assert_eq!(metrics.get(bucket), count);
    check_metrics("the_metrics_are_in_the_format_of_prometheus", &metrics.text);
}
