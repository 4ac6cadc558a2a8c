//! The routes of the status listener show the leadership.

use tenure_tests::promtool::check_metrics;

use crate::Bench;

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
