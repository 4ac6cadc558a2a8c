//! Terms that the candidate ends by itself, and the release after them.

use super::*;

#[test]
fn a_resigned_leader_renews_while_its_task_drains_and_releases_after_it() {
    let mut bench = Bench::leading();
    bench.wait_until(4_000).resign(EndReason::Resigned);
    bench.wait_until(5_010).answer(2, held(7));
    // The candidate holds the lease as before: its task may finish its work.
    assert!(bench.leads());
    bench.wait_until(7_000).task_ended(TaskEnd::Returned);
    assert_eq!(bench.standing(), Standing::Ending);
    bench.wait_until(7_010).answer(3, Answer::Released);
    assert_eq!(bench.standing(), Standing::Idle);
    bench.wait_until(60_000).assert_trace(
        "4.000 cancel: resigned
         5.000 #2 renew id1, within 1.666666s
         7.000 #3 release id1 as resigned, within 1.666666s
         7.010 ended 7: resigned",
    );
}

#[test]
fn a_task_that_does_not_stop_is_aborted_and_the_lease_is_held_until_it_is_gone() {
    let mut bench = Bench::leading();
    bench.wait_until(4_000).resign(EndReason::ShutDown);
    bench.wait_until(5_010).answer(2, held(7));
    bench.wait_until(10_010).answer(3, held(7));
    bench.wait_until(12_000).task_ended(TaskEnd::Aborted);
    bench.wait_until(12_010).answer(4, Answer::Released);
    bench.assert_trace(
        "4.000 cancel: shut_down
         5.000 #2 renew id1, within 1.666666s
         8.000 abort
         8.250 lingering
         10.000 #3 renew id1, within 1.666666s
         12.000 #4 release id1 as shut_down, within 1.666666s
         12.010 ended 7: shut_down",
    );
}

#[test]
fn a_task_that_lingers_while_the_term_is_renewed_is_an_overrun_when_the_term_is_lost() {
    let mut bench = Bench::leading();
    bench.wait_until(4_000).resign(EndReason::HandedOver);
    bench.wait_until(5_010).answer(2, held(7));
    bench.wait_until(9_000).lines.clear();
    // The store does not answer any more. The task has the time until the margin to end.
    bench.wait_until(14_999);
    assert!(bench.leads());
    assert_eq!(bench.machine.overrun_at(), Some(at(19_250)));
    bench.wait_until(15_000).lines.clear();
    bench.wait_until(60_000).assert_trace("19.250 overrun");
}

#[test]
fn a_resigned_leader_that_loses_the_lease_stops_its_task_in_time() {
    let mut bench = Bench::leading();
    bench.wait_until(4_000).resign(EndReason::Resigned);
    bench.wait_until(5_010).answer(2, Answer::Superseded);
    assert!(!bench.leads());
    bench.assert_trace(
        "4.000 cancel: resigned
         5.000 #2 renew id1, within 1.666666s
         5.010 abort",
    );
}

#[test]
fn a_lost_lease_is_not_renewed_while_the_task_drains() {
    let mut bench = Bench::leading();
    bench.wait_until(9_970).resign(EndReason::Resigned);
    bench.lines.clear();
    bench.wait_until(60_000).assert_trace(
        "13.970 abort
         14.250 overrun",
    );
    assert_eq!(bench.standing(), Standing::Ending);
}

#[test]
fn a_task_that_ends_by_itself_ends_the_term_and_calls_for_a_cool_down() {
    for (end, reason) in [
        (TaskEnd::Returned, "task_returned"),
        (TaskEnd::Failed, "task_failed"),
        (TaskEnd::Panicked, "task_panicked"),
    ] {
        let mut bench = Bench::leading();
        bench.wait_until(1_000).task_ended(end);
        bench.wait_until(1_010).answer(2, Answer::Released);
        bench.wait_until(2_000).campaign();
        bench.wait_until(7_000).assert_trace(&format!(
            "1.000 cancel: {reason}
             1.000 #2 release id1 as {reason}, within 1.666666s
             1.010 ended 7: {reason}
             6.010 #3 acquire id2, wait 15s, within 20s"
        ));
    }
}

#[test]
fn a_withdrawal_does_not_shorten_the_cool_down() {
    let mut bench = Bench::leading();
    bench.wait_until(1_000).task_ended(TaskEnd::Failed);
    bench.answer(2, Answer::Released);
    bench.campaign();
    bench.wait_until(2_000).resign(EndReason::Resigned);
    bench.campaign();
    bench.wait_until(7_000).assert_trace(
        "1.000 cancel: task_failed
         1.000 #2 release id1 as task_failed, within 1.666666s
         1.000 ended 7: task_failed
         2.000 withdrawn
         6.000 #3 acquire id2, wait 15s, within 20s",
    );
}

#[test]
fn a_candidate_may_campaign_at_once_after_it_resigned() {
    let mut bench = Bench::leading();
    bench.wait_until(1_000).resign(EndReason::Resigned);
    bench
        .task_ended(TaskEnd::Returned)
        .answer(2, Answer::Released);
    bench.campaign().assert_trace(
        "1.000 cancel: resigned
         1.000 #2 release id1 as resigned, within 1.666666s
         1.000 ended 7: resigned
         1.000 #3 acquire id2, wait 15s, within 20s",
    );
}

#[test]
fn a_release_is_tried_for_a_renew_interval_and_then_left_to_the_expiry() {
    let mut bench = Bench::leading();
    bench.wait_until(1_000).resign(EndReason::ShutDown);
    bench.task_ended(TaskEnd::Returned);
    bench.wait_until(60_000).assert_trace(
        "1.000 cancel: shut_down
         1.000 #2 release id1 as shut_down, within 1.666666s
         2.917 #3 release id1 as shut_down, within 1.666666s
         5.083 #4 release id1 as shut_down, within 1.666666s
         6.000 ended 7: shut_down",
    );
}

#[test]
fn a_release_that_finds_nothing_to_release_is_done() {
    for answer in [
        Answer::Superseded,
        Answer::Expired,
        Answer::Refused("no permission".to_owned()),
    ] {
        let mut bench = Bench::leading();
        bench.wait_until(1_000).resign(EndReason::Resigned);
        bench.task_ended(TaskEnd::Returned).answer(2, answer);
        bench.assert_trace(
            "1.000 cancel: resigned
             1.000 #2 release id1 as resigned, within 1.666666s
             1.000 ended 7: resigned",
        );
    }
}
