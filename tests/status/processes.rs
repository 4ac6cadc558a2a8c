//! Counters of real processes change when their events happen.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::StatusCode;
use tenure_tests::wait_for;

use crate::Bench;

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
