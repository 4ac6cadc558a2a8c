//! Counters of real processes change when their events happen.

use nix::sys::signal::Signal;
use tenure_tests::process::run;

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
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    leader.process.signal(Signal::SIGCONT);
    let suspensions = "candidate_suspensions_total";
    bench
        .web
        .wait_for_sample(leader.status, suspensions, |count| count >= 1.0);
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
