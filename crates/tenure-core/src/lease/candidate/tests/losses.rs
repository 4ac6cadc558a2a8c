//! Terms that are at risk or lost: lost requests and answers, breaks, and suspensions.

use super::*;

#[test]
fn a_renewal_that_is_lost_once_puts_the_term_at_risk_and_the_next_one_saves_it() {
    let mut bench = Bench::leading();
    bench.wait_until(6_950).answer(3, held(7));
    assert!(bench.leads());
    bench.wait_until(11_920).assert_trace(
        "5.000 #2 renew id1, within 1.666666s
         6.667 at risk
         6.667 renew: no answer; trying again in 250.0ms
         6.917 #3 renew id1, within 1.027777s
         6.950 safe again
         11.917 #4 renew id1, within 1.666666s",
    );
}

#[test]
fn the_term_is_cancelled_at_the_deadline_after_the_last_renewal_that_was_sent_with_success() {
    let mut bench = Bench::leading();
    // Sent at 5 s, answered at 6.5 s: the deadline is at 15 s.
    bench.wait_until(6_500).answer(2, held(7));
    bench.wait_until(14_999);
    assert!(bench.leads());
    assert_eq!(bench.machine.stop_by(), Some(at(19_000)));
    bench.wait_until(15_000);
    assert_eq!(bench.standing(), Standing::Ending);
    bench.wait_until(60_000).assert_trace(
        "5.000 #2 renew id1, within 1.666666s
         10.000 #3 renew id1, within 1.666666s
         11.667 at risk
         11.667 renew: no answer; trying again in 250.0ms
         11.917 #4 renew id1, within 1.027777s
         12.944 renew: no answer; trying again in 342.6ms
         13.287 #5 renew id1, within 570.987ms
         13.858 renew: no answer; trying again in 250.0ms
         14.108 #6 renew id1, within 297.325ms
         14.405 renew: no answer; trying again in 250.0ms
         14.655 #7 renew id1, within 114.883ms
         14.770 renew: no answer; trying again in 250.0ms
         15.000 cancel: renew_deadline
         19.000 abort
         19.250 overrun",
    );
    // The overrun policy has let the aborted task run, and it ends after the lease has expired.
    bench
        .task_ended(TaskEnd::Returned)
        .answer(8, Answer::Superseded);
    bench.assert_trace(
        "60.000 #8 release id1 as renew_deadline, within 1.666666s
         60.000 ended 7: renew_deadline",
    );
    assert_eq!(bench.standing(), Standing::Idle);
}

#[test]
fn a_task_that_stops_in_its_grace_is_not_aborted_and_the_lease_is_released() {
    let mut bench = Bench::leading();
    bench.wait_until(10_500).task_ended(TaskEnd::Returned);
    bench.wait_until(10_600).answer(7, Answer::Released);
    bench.wait_until(60_000).assert_trace(
        "5.000 #2 renew id1, within 1.666666s
         6.667 at risk
         6.667 renew: no answer; trying again in 250.0ms
         6.917 #3 renew id1, within 1.027777s
         7.944 renew: no answer; trying again in 342.6ms
         8.287 #4 renew id1, within 570.987ms
         8.858 renew: no answer; trying again in 250.0ms
         9.108 #5 renew id1, within 297.325ms
         9.405 renew: no answer; trying again in 250.0ms
         9.655 #6 renew id1, within 114.883ms
         9.770 renew: no answer; trying again in 250.0ms
         10.000 cancel: renew_deadline
         10.500 #7 release id1 as renew_deadline, within 1.666666s
         10.600 ended 7: renew_deadline",
    );
}

#[test]
fn an_answer_that_comes_after_the_deadline_does_not_save_the_term() {
    let mut bench = Bench::leading();
    bench.wait_until(9_970);
    bench.lines.clear();
    // The renewal is sent in time, but its answer arrives exactly at the deadline, before the timer
    // is handled.
    bench.now = at(10_000);
    assert!(!bench.leads());
    bench
        .answer(5, held(7))
        .assert_trace("10.000 cancel: renew_deadline");
    bench.wait_until(10_010).answer(5, held(7));
    assert_eq!(bench.standing(), Standing::Ending);
    bench.wait_until(14_000).assert_trace("14.000 abort");
}

#[test]
fn an_answer_to_a_request_that_was_given_up_does_not_count() {
    let mut bench = Bench::leading();
    // The first renewal is answered after it timed out and the next one was sent.
    bench.wait_until(7_000);
    bench.lines.clear();
    bench.answer(2, held(7)).assert_trace_is_empty();
    assert!(matches!(bench.standing(), Standing::Leading { until, .. } if until == at(10_000)));
}

#[test]
fn a_store_that_refuses_renewals_for_good_is_asked_until_the_deadline() {
    let mut bench = Bench::leading();
    let refused = || Answer::Refused("no permission".to_owned());
    bench.wait_until(5_010).answer(2, refused());
    bench.wait_until(5_300).answer(3, held(7));
    bench.assert_trace(
        "5.000 #2 renew id1, within 1.666666s
         5.010 at risk
         5.010 renew: no permission; trying again in 250.0ms
         5.260 #3 renew id1, within 1.58s
         5.300 safe again",
    );
}

#[test]
fn a_break_that_leaves_time_cancels_at_once_and_aborts_before_others_may_lead() {
    let mut bench = Bench::leading();
    let broken = Answer::Broken {
        remaining: millis(3_000),
    };
    bench.wait_until(5_100).answer(2, broken);
    assert_eq!(bench.standing(), Standing::Ending);
    // Others may lead 3 s after the request was sent, at the earliest; the margin is 1 s.
    assert_eq!(bench.machine.stop_by(), Some(at(7_000)));
    bench.wait_until(60_000).assert_trace(
        "5.000 #2 renew id1, within 1.666666s
         5.100 cancel: broken
         7.000 abort
         7.250 overrun",
    );
}

#[test]
fn work_that_outlives_its_abort_after_a_break_has_the_whole_period_to_end() {
    let trace_of = |remaining, end: Option<u64>| {
        let mut bench = Bench::leading();
        bench
            .wait_until(5_100)
            .answer(2, Answer::Broken { remaining });
        if let Some(end) = end {
            bench.wait_until(end).task_ended(TaskEnd::Returned);
            bench.wait_until(end + 10).answer(3, Answer::Released);
        }
        bench.wait_until(60_000);
        bench.lines.join("\n")
    };
    let begin = "5.000 #2 renew id1, within 1.666666s\n5.100 cancel: broken\n9.100 abort\n";
    // Others may lead 9.5 s after the request was sent, and the margin is 1 s.
    let ended = "13.600 #3 release id1, within 1.666666s\n13.610 ended 7: broken";
    assert_eq!(
        trace_of(millis(9_500), Some(13_600)),
        format!("{begin}{ended}")
    );
    assert_eq!(
        trace_of(millis(9_500), None),
        format!("{begin}13.750 overrun")
    );
    // The lease was last renewed at 0 s, and the store may have lost what it said later.
    assert_eq!(
        trace_of(millis(30_000), None),
        format!("{begin}14.250 overrun")
    );
}

#[test]
fn a_breaking_lease_is_released_when_the_task_is_gone_and_not_asked_for_again_at_once() {
    let mut bench = Bench::leading();
    let broken = Answer::Broken {
        remaining: millis(9_000),
    };
    bench.wait_until(5_100).answer(2, broken);
    bench.wait_until(6_000).task_ended(TaskEnd::Returned);
    bench.wait_until(6_010).answer(3, Answer::Released);
    bench.campaign().wait_until(20_000);
    bench.assert_trace(
        "5.000 #2 renew id1, within 1.666666s
         5.100 cancel: broken
         6.000 #3 release id1, within 1.666666s
         6.010 ended 7: broken
         11.010 #4 acquire id2, wait 15s, within 20s",
    );
}

#[test]
fn a_break_that_leaves_no_time_aborts_at_once() {
    let mut bench = Bench::leading();
    let broken = Answer::Broken {
        remaining: Duration::ZERO,
    };
    bench.wait_until(5_100).answer(2, broken);
    bench.wait_until(60_000).assert_trace(
        "5.000 #2 renew id1, within 1.666666s
         5.100 cancel: broken
         5.100 abort
         5.250 overrun",
    );
}

#[test]
fn a_superseded_leader_is_stopped_at_once_and_releases_nothing() {
    for answer in [
        Answer::Superseded,
        Answer::Expired,
        Answer::IdRetired,
        held_by_b(),
        held(8),
    ] {
        let mut bench = Bench::leading();
        bench.wait_until(5_100).answer(2, answer);
        assert_eq!(bench.standing(), Standing::Ending);
        bench.wait_until(5_200).task_ended(TaskEnd::Aborted);
        bench.wait_until(60_000).assert_trace(
            "5.000 #2 renew id1, within 1.666666s
             5.100 cancel: superseded
             5.100 abort
             5.200 ended 7: superseded",
        );
    }
}

#[test]
fn a_leader_that_was_suspended_past_its_deadline_ends_its_term_when_it_resumes() {
    let mut bench = Bench::leading();
    bench.wait_until(2_000);
    bench.now = at(12_000);
    assert_eq!(bench.standing(), Standing::Ending);
    bench.jump_to(12_000).wait_until(14_000);
    bench.assert_trace(
        "12.000 cancel: suspended
         14.000 abort",
    );
}

#[test]
fn a_leader_that_was_suspended_past_its_hard_stop_aborts_its_task_when_it_resumes() {
    let mut bench = Bench::leading();
    // Between the hard stop and the end of the lease, the task gets the rest of its allowance.
    bench.wait_until(2_000).jump_to(14_100).assert_trace(
        "14.100 cancel: suspended
         14.100 abort",
    );
    bench.wait_until(14_250).assert_trace("14.250 overrun");
}

#[test]
fn work_that_runs_when_a_suspension_past_the_term_ends_is_an_overrun_at_once() {
    let mut bench = Bench::leading();
    bench.wait_until(2_000).jump_to(3_600_000).assert_trace(
        "3600.000 cancel: suspended
         3600.000 abort
         3600.000 overrun",
    );
}

#[test]
fn an_answer_that_waited_through_a_suspension_does_not_save_the_term() {
    let mut bench = Bench::leading();
    bench.wait_until(5_000);
    bench.now = at(10_500);
    bench.answer(2, held(7)).assert_trace(
        "5.000 #2 renew id1, within 1.666666s
         10.500 cancel: suspended",
    );
}

#[test]
fn a_leader_that_was_suspended_for_less_than_its_deadline_renews_at_once() {
    let mut bench = Bench::leading();
    bench.wait_until(2_000).jump_to(8_000);
    assert!(bench.leads());
    bench.wait_until(8_050).answer(2, held(7));
    assert!(matches!(bench.standing(), Standing::Leading { until, .. } if until == at(18_000)));
    bench.assert_trace("8.000 #2 renew id1, within 666.666ms");
}

impl Bench {
    #[track_caller]
    fn assert_trace_is_empty(&mut self) {
        assert!(self.lines.is_empty(), "{:?}", self.lines);
    }
}

#[test]
fn a_task_that_returns_because_its_term_has_passed_has_not_ended_it() {
    let mut bench = Bench::leading();
    bench.now = at(20_000);
    bench.task_ended(TaskEnd::Returned);
    bench.wait_until(20_010).answer(2, Answer::Superseded);
    bench.campaign().wait_until(20_100).assert_trace(
        "20.000 cancel: suspended
         20.000 abort
         20.000 overrun
         20.000 #2 release id1 as suspended, within 1.666666s
         20.010 ended 7: suspended
         20.010 #3 acquire id2, wait 15s, within 20s",
    );
}

/// Another server of a cluster may take over shortly before the term's end: then a long delay would
/// end the term although the store is back. More attempts than these would be a burden for the
/// store.
#[test]
fn a_store_that_refuses_at_once_is_asked_more_often_towards_the_end_of_the_term() {
    let mut bench = Bench::leading();
    let mut attempts = Vec::new();
    bench.wait_until(5_000);
    while bench.leads() {
        if let Some((attempt, _)) = bench.in_flight {
            attempts.push(bench.now.since(at(0)).as_millis());
            bench.answer(attempt, Answer::Unknown("standby".to_owned()));
        }
        bench.now = bench.machine.poll_timeout().expect("a term has a timer");
        bench.tick();
    }
    let expected = [
        5_000, 5_250, 5_750, 6_458, 7_048, 7_540, 7_950, 8_292, 8_576, 8_826, 9_076, 9_326, 9_576,
        9_826,
    ];
    assert_eq!(attempts, expected);
}
