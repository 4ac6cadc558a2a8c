//! Campaigns: requests, retries, waiting, and withdrawal.

use super::*;

#[test]
fn the_first_renewal_counts_from_when_the_acquire_was_sent() {
    let mut bench = Bench::campaigning();
    bench.wait_until(300);
    assert_eq!(bench.standing(), Standing::Campaigning);
    bench.answer(1, held(7));
    assert_eq!(
        bench.standing(),
        Standing::Leading {
            epoch: Epoch::new(7).unwrap(),
            until: at(10_000),
        }
    );
    assert_eq!(bench.machine.stop_by(), Some(at(14_000)));
    bench.wait_until(5_000).assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         0.300 began 7
         5.000 #2 renew id1, within 1.666666s",
    );
}

#[test]
fn an_acquire_whose_answer_was_lost_is_sent_again_under_the_same_id_and_counts_from_then() {
    let mut bench = Bench::campaigning();
    bench.wait_until(20_300);
    // The answer to the first request arrives late: that request was given up, and is too old.
    bench.answer(1, held(7));
    assert_eq!(bench.standing(), Standing::Campaigning);
    bench.wait_until(20_400).answer(2, held(7));
    assert_eq!(
        bench.standing(),
        Standing::Leading {
            epoch: Epoch::new(7).unwrap(),
            until: at(30_250),
        }
    );
    bench.wait_until(25_250).assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         20.000 acquire: no answer; trying again in 250.0ms
         20.250 #2 acquire id1, wait 15s, within 20s
         20.400 began 7
         25.250 #3 renew id1, within 1.666666s",
    );
}

#[test]
fn retries_come_later_and_later_up_to_half_the_renew_interval() {
    let mut bench = Bench::campaigning();
    for attempt in 1..=6 {
        let refused = Answer::Unknown("refused".to_owned());
        bench.answer(attempt, refused).wait_until(attempt * 2_900);
    }
    bench.assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         0.000 acquire: refused; trying again in 250.0ms
         0.250 #2 acquire id1, wait 15s, within 20s
         2.900 acquire: refused; trying again in 500.0ms
         3.400 #3 acquire id1, wait 15s, within 20s
         5.800 acquire: refused; trying again in 1.0s
         6.800 #4 acquire id1, wait 15s, within 20s
         8.700 acquire: refused; trying again in 2.0s
         10.700 #5 acquire id1, wait 15s, within 20s
         11.600 acquire: refused; trying again in 2.5s
         14.100 #6 acquire id1, wait 15s, within 20s
         14.500 acquire: refused; trying again in 2.5s
         17.000 #7 acquire id1, wait 15s, within 20s",
    );
}

/// Each of the requests may have reached the store, and may have kept the lease there although no
/// candidate uses it.
#[test]
fn a_candidate_without_answers_releases_the_lease_after_a_lease_duration() {
    let lost = || Answer::Unknown("lost".to_owned());
    let mut bench = Bench::campaigning();
    bench.wait_until(100).answer(1, lost());
    bench.wait_until(15_000).answer(2, lost());
    bench.wait_until(15_600).answer(3, lost());
    bench.wait_until(15_700).answer(4, lost());
    bench.wait_until(16_000).answer(5, Answer::Released);
    bench.wait_until(16_600).answer(6, held(7));
    bench.assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         0.100 acquire: lost; trying again in 250.0ms
         0.350 #2 acquire id1, wait 15s, within 20s
         15.000 acquire: lost; trying again in 500.0ms
         15.500 #3 acquire id1, wait 15s, within 20s
         15.600 acquire: lost; trying again in 1.0s
         15.600 #4 release id1, within 5s
         15.700 release: lost; trying again in 250.0ms
         15.950 #5 release id1, within 5s
         16.600 #6 acquire id2, wait 15s, within 20s
         16.600 began 7",
    );
}

#[test]
fn answers_that_always_come_too_late_do_not_block_the_lease_for_long() {
    let mut bench = Bench::campaigning();
    for attempt in 1..=3 {
        bench.wait_until(attempt * 6_000).answer(attempt, held(7));
    }
    bench.wait_until(21_500).answer(4, held(7));
    bench.wait_until(21_750).assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         6.000 #2 acquire id1, wait 15s, within 20s
         12.000 #3 acquire id1, wait 15s, within 20s
         18.000 #4 acquire id1, wait 15s, within 20s
         21.500 began 7",
    );
    let mut bench = Bench::campaigning();
    for attempt in 1..=4 {
        bench.wait_until(attempt * 6_000).answer(attempt, held(7));
    }
    bench.wait_until(24_010).answer(5, Answer::Released);
    bench.wait_until(24_300).assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         6.000 #2 acquire id1, wait 15s, within 20s
         12.000 #3 acquire id1, wait 15s, within 20s
         18.000 #4 acquire id1, wait 15s, within 20s
         24.000 #5 release id1, within 5s
         24.250 #6 acquire id2, wait 15s, within 20s",
    );
}

/// The candidate waits for the end of the last leader's lease. The outage before that does not
/// count as time in doubt.
#[test]
fn a_long_wait_after_an_outage_of_the_store_does_not_put_the_id_in_doubt() {
    let away = || Answer::Unknown("away".to_owned());
    let mut bench = Bench::campaigning();
    bench.wait_until(100).answer(1, away());
    bench.wait_until(2_000).answer(2, away());
    bench.wait_until(17_000).answer(3, held(7));
    bench.wait_until(17_100).answer(4, held(7));
    bench.assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         0.100 acquire: away; trying again in 250.0ms
         0.350 #2 acquire id1, wait 15s, within 20s
         2.000 acquire: away; trying again in 500.0ms
         2.500 #3 acquire id1, wait 15s, within 20s
         17.000 #4 acquire id1, wait 15s, within 20s
         17.100 began 7",
    );
}

#[test]
fn while_another_leads_the_request_waits_in_the_store() {
    let mut bench = Bench::campaigning();
    bench.wait_until(15_000).answer(1, held_by_b());
    bench.wait_until(30_000).answer(2, held_by_b());
    bench.assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         15.000 seen b 3
         15.000 #2 acquire id1, wait 15s, within 20s
         30.000 seen b 3
         30.000 #3 acquire id1, wait 15s, within 20s",
    );
}

#[test]
fn a_store_that_does_not_keep_requests_waiting_is_polled() {
    let mut bench = Bench::campaigning();
    bench.wait_until(10).answer(1, held_by_b());
    bench
        .wait_until(1_020)
        .answer(2, Answer::HeldByAnother(None));
    bench.wait_until(2_020).assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         0.010 seen b 3
         1.010 #2 acquire id1, wait 15s, within 20s
         1.020 seen nobody
         2.020 #3 acquire id1, wait 15s, within 20s",
    );
}

#[test]
fn a_grant_after_a_long_wait_is_confirmed_by_a_new_request_before_the_term_begins() {
    let mut bench = Bench::campaigning();
    bench.wait_until(12_000).answer(1, held(7));
    assert_eq!(bench.standing(), Standing::Campaigning);
    bench.wait_until(12_010).answer(2, held(7));
    assert_eq!(
        bench.standing(),
        Standing::Leading {
            epoch: Epoch::new(7).unwrap(),
            until: at(22_000),
        }
    );
    bench.assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         12.000 #2 acquire id1, wait 15s, within 20s
         12.010 began 7",
    );
}

#[test]
fn a_retired_id_is_replaced_by_a_fresh_one() {
    let mut bench = Bench::campaigning();
    bench.wait_until(10).answer(1, Answer::IdRetired);
    bench.wait_until(500).assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         0.260 #2 acquire id2, wait 15s, within 20s",
    );
}

#[test]
fn a_store_that_refuses_for_good_ends_the_campaign() {
    let mut bench = Bench::campaigning();
    let refused = Answer::Refused("no permission".to_owned());
    bench.wait_until(10).answer(1, refused);
    assert_eq!(bench.standing(), Standing::Idle);
    assert_eq!(bench.machine.poll_timeout(), None);
    bench.wait_until(60_000).assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         0.010 failed: no permission",
    );
}

#[test]
fn a_shutdown_while_campaigning_releases_a_lease_that_the_store_may_have_granted() {
    let mut bench = Bench::campaigning();
    bench.wait_until(2_000).resign(EndReason::ShutDown);
    assert_eq!(bench.standing(), Standing::Ending);
    // The grant is under way.
    bench.wait_until(2_010).answer(1, held(7));
    bench.wait_until(2_020).answer(2, Answer::Released);
    assert_eq!(bench.standing(), Standing::Idle);
    bench.assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         2.000 #2 release id1, within 1.666666s
         2.020 withdrawn",
    );
}

#[test]
fn a_withdrawal_just_after_an_acquire_releases_again_in_case_the_acquire_came_second() {
    let mut bench = Bench::campaigning();
    bench.wait_until(5).resign(EndReason::ShutDown);
    // The release has overtaken the acquire.
    bench.wait_until(10).answer(2, Answer::Superseded);
    assert_eq!(bench.standing(), Standing::Ending);
    bench.wait_until(110).answer(3, Answer::Released);
    bench.assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         0.005 #2 release id1, within 1.666666s
         0.100 #3 release id1, within 1.666666s
         0.110 withdrawn",
    );

    // The candidate does not repeat the release for ever, nor after the lease was released.
    for (answer, sent_again) in [(Answer::Superseded, true), (Answer::Released, false)] {
        let mut bench = Bench::campaigning();
        bench.wait_until(5).resign(EndReason::ShutDown);
        bench.wait_until(10).answer(2, answer.clone());
        if sent_again {
            bench.wait_until(110).answer(3, answer);
        }
        assert_eq!(bench.standing(), Standing::Idle);
    }
}

#[test]
fn a_withdrawal_does_not_wait_long_for_a_store_that_does_not_answer() {
    let mut bench = Bench::campaigning();
    bench.wait_until(2_000).resign(EndReason::ShutDown);
    bench.wait_until(4_000).assert_trace(
        "0.000 #1 acquire id1, wait 15s, within 20s
         2.000 #2 release id1, within 1.666666s
         3.000 withdrawn
         3.667 release: no answer; trying again in 250.0ms
         3.917 #3 release id1, within 5s",
    );
}

#[test]
fn a_command_in_the_wrong_phase_has_no_effect() {
    let mut bench = Bench::leading();
    bench.campaign();
    bench
        .resign(EndReason::Resigned)
        .resign(EndReason::ShutDown);
    bench
        .task_ended(TaskEnd::Returned)
        .task_ended(TaskEnd::Failed);
    bench.campaign().resign(EndReason::ShutDown);
    bench.answer(2, Answer::Released);
    bench
        .resign(EndReason::ShutDown)
        .task_ended(TaskEnd::Panicked);
    bench.assert_trace(
        "0.010 cancel: resigned
         0.010 #2 release id1 as resigned, within 1.666666s
         0.010 ended 7: resigned",
    );
}
