//! Counters of real processes change when their events happen.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::StatusCode;
use tenure_tests::process::run;
use tenure_tests::wait_for;

use crate::Bench;

#[test]
fn a_store_that_is_away_is_no_answer_and_puts_the_term_at_risk() {
    let bench = Bench::new();
    let leader = bench.leader("one");
    let before = bench.web.metrics(leader.status);
    assert_eq!(before.get("candidate_at_risk_total"), 0.0);
    bench.store.process.signal(Signal::SIGSTOP);
    let no_answer = "candidate_renewals_total{result=\"no_answer\"}";
    bench
        .web
        .wait_for_sample(leader.status, no_answer, |count| count >= 1.0);
    let at_risk = bench
        .web
        .metrics(leader.status)
        .get("candidate_at_risk_total");
    assert_eq!(at_risk, 1.0);
    let ended = "candidate_terms_total{end=\"renew_deadline\"}";
    bench
        .web
        .wait_for_sample(leader.status, ended, |count| count == 1.0);
    bench.store.process.signal(Signal::SIGCONT);
    bench.web.wait_until_leads(leader.status, true);
    let renewals = "candidate_renewals_total{result=\"ok\"}";
    let before = bench.web.metrics(leader.status).get(renewals);
    bench
        .web
        .wait_for_sample(leader.status, renewals, |count| count > before);
}

#[test]
fn a_break_by_an_operator_is_a_refused_renewal_and_the_end_of_a_term() {
    let bench = Bench::new();
    let leader = bench.leader("one");
    let broken = run(&["break", crate::ELECTION, "--server", &bench.store.url()]);
    assert!(broken.status.success(), "{broken:?}");
    let ended = "candidate_terms_total{end=\"broken\"}";
    bench
        .web
        .wait_for_sample(leader.status, ended, |count| count == 1.0);
    let metrics = bench.web.metrics(leader.status);
    assert_eq!(
        metrics.get("candidate_renewals_total{result=\"refused\"}"),
        1.0
    );
    // The command was asked to stop.
    assert_eq!(metrics.get("candidate_stop_duration_seconds_count"), 1.0);
}

#[test]
fn a_process_that_was_stopped_counts_a_suspension() {
    let bench = Bench::new();
    let leader = bench.leader("one");
    leader.process.signal(Signal::SIGSTOP);
    thread::sleep(Duration::from_millis(1_500));
    leader.process.signal(Signal::SIGCONT);
    let suspensions = "candidate_suspensions_total";
    bench
        .web
        .wait_for_sample(leader.status, suspensions, |count| count >= 1.0);
}

/// Safety: a client that is sent to the leader must not be sent to this process.
#[test]
fn a_leader_that_was_stopped_past_its_deadline_does_not_show_itself_as_the_leader() {
    let bench = Bench::new();
    let leader = bench.leader("one");
    let before = bench.web.metrics(leader.status).get("candidate_epoch");
    leader.process.signal(Signal::SIGSTOP);
    // Longer than the lease.
    thread::sleep(Duration::from_millis(3_500));
    leader.process.signal(Signal::SIGCONT);
    let ended = "candidate_terms_total{end=\"suspended\"}";
    wait_for("the end of the term, and the next one", || {
        let answer = bench.web.get(leader.status, "/leader");
        let (status, body) = answer.expect("an answer");
        let metrics = bench.web.metrics(leader.status);
        let is_next = metrics.get("candidate_epoch") > before;
        assert!(
            is_next || status == StatusCode::SERVICE_UNAVAILABLE,
            "{body}"
        );
        assert!(is_next || metrics.get("candidate_leads") == 0.0);
        (is_next && metrics.get(ended) == 1.0).then_some(())
    });
}

#[test]
fn a_command_that_ends_counts_as_the_end_of_its_term() {
    let bench = Bench::new();
    for (script, end) in [
        ("sleep 0.2", "task_returned"),
        ("sleep 0.2; exit 3", "task_failed"),
    ] {
        let candidate = bench.run("one", &["sh", "-c", script]);
        let ended = format!("candidate_terms_total{{end=\"{end}\"}}");
        bench
            .web
            .wait_for_sample(candidate.status, &ended, |count| count >= 1.0);
    }
}
