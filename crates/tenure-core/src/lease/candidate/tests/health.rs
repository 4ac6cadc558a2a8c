//! Tasks that hang, hand-overs, and renewals that are sent together with others.

use super::*;

fn with_progress_deadline(millis: u64) -> Bench {
    let options = TimingsOptions {
        progress_deadline: Some(Duration::from_millis(millis)),
        ..TimingsOptions::default()
    };
    Bench::leading_with(Timings::new(&options).unwrap())
}

#[test]
fn a_task_that_shows_no_progress_is_stopped_and_its_term_is_not_renewed() {
    let mut bench = with_progress_deadline(3_000);
    bench.wait_until(2_000).machine.handle_progress(at(2_000));
    bench.wait_until(6_000);
    assert!(!bench.leads());
    bench.wait_until(20_000).assert_trace(
        "5.000 cancel: unhealthy
         9.000 abort
         14.250 overrun",
    );
}

#[test]
fn a_task_that_shows_progress_goes_on() {
    let mut bench = with_progress_deadline(3_000);
    for second in 1..5 {
        bench
            .wait_until(second * 1_000)
            .machine
            .handle_progress(at(second * 1_000));
    }
    bench.wait_until(4_990).assert_trace("");
    assert!(bench.leads());
}

#[test]
fn an_unhealthy_task_that_stops_releases_the_lease_and_calls_for_a_cool_down() {
    let mut bench = Bench::leading();
    bench.wait_until(1_000).resign(EndReason::Unhealthy);
    assert!(!bench.leads(), "an unhealthy task's term is not renewed");
    bench.wait_until(1_500).task_ended(TaskEnd::Returned);
    bench.wait_until(1_510).answer(2, Answer::Released);
    bench.campaign().wait_until(6_509);
    bench.assert_trace(
        "1.000 cancel: unhealthy
         1.500 #2 release id1 as unhealthy, within 1.666666s
         1.510 ended 7: unhealthy",
    );
    bench
        .wait_until(6_510)
        .assert_trace("6.510 #3 acquire id2, wait 15s, within 20s");
}

#[test]
fn a_hand_over_drains_the_task_and_then_names_the_next_one() {
    let mut bench = Bench::leading();
    bench
        .wait_until(1_000)
        .machine
        .hand_over(at(1_000), "b".parse().unwrap());
    bench.drain();
    assert!(bench.leads());
    bench.wait_until(2_000).task_ended(TaskEnd::Returned);
    bench.wait_until(2_010).answer(2, Answer::Released);
    bench.assert_trace(
        "1.000 cancel: handed_over
         2.000 #2 hand over id1 to b within 15s, within 1.666666s
         2.010 ended 7: handed_over",
    );
}

#[test]
fn a_lease_that_can_not_be_handed_over_is_released() {
    let mut bench = Bench::leading();
    bench
        .wait_until(1_000)
        .machine
        .hand_over(at(1_000), "b".parse().unwrap());
    bench.drain();
    bench.wait_until(2_000).task_ended(TaskEnd::Returned);
    let refused = Answer::Refused("b does not wait for the lease".into());
    bench.wait_until(2_010).answer(2, refused).wait_until(2_020);
    bench.answer(3, Answer::Released);
    bench.assert_trace(
        "1.000 cancel: handed_over
         2.000 #2 hand over id1 to b within 15s, within 1.666666s
         2.010 hand over to b: b does not wait for the lease; the lease is released instead
         2.010 #3 release id1 as handed_over, within 1.666666s
         2.020 ended 7: handed_over",
    );
}

#[test]
fn a_renewal_is_sent_early_only_if_it_is_due_soon() {
    let mut bench = Bench::leading();
    bench.wait_until(3_000).renew_early();
    bench.assert_trace("");
    bench.wait_until(4_000).renew_early();
    bench.wait_until(4_010).answer(2, held(7)).wait_until(9_000);
    bench.assert_trace(
        "4.000 #2 renew id1, within 2s
         9.000 #3 renew id1, within 1.666666s",
    );
}
