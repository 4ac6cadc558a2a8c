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
fn a_term_ends_after_a_renew_interval_without_an_answer_to_its_release_which_is_sent_again_later() {
    let mut bench = Bench::leading();
    bench.wait_until(1_000).resign(EndReason::ShutDown);
    bench.task_ended(TaskEnd::Returned);
    bench.wait_until(8_000).assert_trace(
        "1.000 cancel: shut_down
         1.000 #2 release id1 as shut_down, within 1.666666s
         2.667 release: no answer; trying again in 250.0ms
         2.917 #3 release id1 as shut_down, within 1.666666s
         4.583 release: no answer; trying again in 500.0ms
         5.083 #4 release id1 as shut_down, within 1.666666s
         6.000 ended 7: shut_down
         6.750 release: no answer; trying again in 1.0s
         7.750 #5 release id1 as shut_down, within 5s",
    );
    assert_eq!(bench.standing(), Standing::Idle);
    bench.answer(5, Answer::Released);
    assert_eq!(bench.machine.poll_timeout(), None);
    bench.wait_until(60_000).assert_trace("");
}

/// The store may have restarted, and counts the lease as renewed since then.
#[test]
fn after_an_outage_the_old_lease_is_released_under_its_reason_before_the_next_campaign_asks() {
    let mut bench = Bench::leading();
    bench.wait_until(9_990);
    bench.lines.clear();
    bench.wait_until(10_000).task_ended(TaskEnd::Returned);
    bench.wait_until(15_000).campaign();
    assert_eq!(bench.standing(), Standing::Campaigning);
    // The first release reaches the store, but its answer is lost.
    bench.wait_until(16_900).assert_trace(
        "10.000 cancel: renew_deadline
         10.000 #7 release id1 as renew_deadline, within 1.666666s
         11.667 release: no answer; trying again in 250.0ms
         11.917 #8 release id1 as renew_deadline, within 1.666666s
         13.583 release: no answer; trying again in 500.0ms
         14.083 #9 release id1 as renew_deadline, within 1.666666s
         15.000 ended 7: renew_deadline
         15.750 release: no answer; trying again in 1.0s
         16.750 #10 release id1 as renew_deadline, within 5s",
    );
    bench.answer(10, Answer::Superseded);
    bench.wait_until(16_910).answer(11, held(8));
    bench.assert_trace(
        "16.900 #11 acquire id2, wait 15s, within 20s
         16.910 began 8",
    );
}

#[test]
fn a_campaign_that_waits_for_a_release_is_given_up_within_a_second() {
    let mut bench = Bench::leading();
    bench.wait_until(1_000).resign(EndReason::Resigned);
    bench.task_ended(TaskEnd::Returned);
    bench.wait_until(6_000).campaign();
    bench.wait_until(7_000);
    bench.lines.clear();
    bench.resign(EndReason::ShutDown);
    bench.wait_until(8_000).assert_trace(
        "7.000 #5 release id1 as resigned, within 1.666666s
         8.000 withdrawn",
    );
}

#[test]
fn the_end_of_a_term_and_of_a_campaign_is_bounded_however_long_the_lease_is() {
    let options = TimingsOptions {
        lease_duration: Some(Duration::from_secs(600)),
        ..TimingsOptions::default()
    };
    let timings = Timings::new(&options).unwrap();
    let away = || Answer::Unknown("away".to_owned());

    let mut follower = Bench::campaigning_with(timings);
    follower.wait_until(2_000).resign(EndReason::ShutDown);
    follower.answer(2, away());
    follower.wait_until(3_000).assert_trace(
        "0.000 #1 acquire id1, wait 30s, within 230s
         2.000 #2 release id1, within 1.666666s
         2.000 release: away; trying again in 250.0ms
         2.250 #3 release id1, within 1.666666s
         3.000 withdrawn",
    );

    let mut leader = Bench::campaigning_with(timings);
    leader.answer(1, held(7));
    leader.lines.clear();
    leader.wait_until(1_000).resign(EndReason::ShutDown);
    leader.task_ended(TaskEnd::Returned);
    leader.wait_until(6_000).assert_trace(
        "1.000 cancel: shut_down
         1.000 #2 release id1 as shut_down, within 1.666666s
         2.667 release: no answer; trying again in 250.0ms
         2.917 #3 release id1 as shut_down, within 1.666666s
         4.583 release: no answer; trying again in 500.0ms
         5.083 #4 release id1 as shut_down, within 1.666666s
         6.000 ended 7: shut_down",
    );
}

/// A reservation that begins after an outage would only delay the candidates that wait.
#[test]
fn a_hand_over_that_gets_no_answer_becomes_a_release() {
    let mut bench = Bench::leading();
    bench
        .wait_until(1_000)
        .machine
        .hand_over(at(1_000), "b".parse().unwrap());
    bench.task_ended(TaskEnd::Returned);
    bench.wait_until(8_000);
    let last = bench.lines.last().unwrap();
    assert_eq!(last, "7.750 #5 release id1 as handed_over, within 5s");
}

#[test]
fn a_release_that_finds_nothing_to_release_is_done() {
    let refused = Answer::Refused("no permission".to_owned());
    for (answer, logged) in [
        (Answer::Superseded, ""),
        (Answer::Expired, ""),
        (
            refused,
            "1.000 release: no permission; the lease is left to expire\n",
        ),
    ] {
        let mut bench = Bench::leading();
        bench.wait_until(1_000).resign(EndReason::Resigned);
        bench.task_ended(TaskEnd::Returned).answer(2, answer);
        bench.assert_trace(&format!(
            "1.000 cancel: resigned
             1.000 #2 release id1 as resigned, within 1.666666s
             {logged}1.000 ended 7: resigned",
        ));
    }
}
