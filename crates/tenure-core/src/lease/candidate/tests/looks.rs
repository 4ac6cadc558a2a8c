//! Looks of a leader at its lease between renewals, because other programs may change it.

use super::*;

/// A leader that looks at its lease. Looks follow each other by a second.
fn looking() -> Bench {
    Bench::leading_of(LeaseCandidate::new(Timings::default()).with_looks(true))
}

#[test]
fn a_leader_looks_at_its_lease_between_renewals_and_a_look_extends_nothing() {
    let mut bench = looking();
    for (look, attempt) in [(1_010, 2), (2_010, 3), (3_010, 4), (4_010, 5)] {
        bench.wait_until(look).answer(attempt, held(7));
    }
    assert!(matches!(bench.standing(), Standing::Leading { until, .. } if until == at(10_000)));
    bench.wait_until(5_000).answer(6, held(7));
    bench.wait_until(6_000).assert_trace(
        "1.010 #2 look id1, within 1s
         2.010 #3 look id1, within 1s
         3.010 #4 look id1, within 1s
         4.010 #5 look id1, within 1s
         5.000 #6 renew id1, within 1.666666s
         6.000 #7 look id1, within 1s",
    );
}

#[test]
fn a_look_that_finds_another_holder_ends_the_term_at_once() {
    for answer in [Answer::Superseded, held_by_b(), held(8), Answer::Expired] {
        let mut bench = looking();
        bench.wait_until(1_020).answer(2, answer);
        assert!(!bench.leads());
        bench.task_ended(TaskEnd::Aborted);
        bench.wait_until(60_000).assert_trace(
            "1.010 #2 look id1, within 1s
             1.020 cancel: superseded
             1.020 abort
             1.020 ended 7: superseded",
        );
    }
}

#[test]
fn a_look_that_finds_the_term_removed_is_followed_by_a_renewal_at_once() {
    let mut bench = looking();
    bench.wait_until(1_050).answer(2, Answer::Released);
    bench.wait_until(1_100).answer(3, held(7));
    assert!(matches!(bench.standing(), Standing::Leading { until, .. } if until == at(11_050)));
    bench.wait_until(2_100).assert_trace(
        "1.010 #2 look id1, within 1s
         1.050 #3 renew id1, within 2.983333s
         2.100 #4 look id1, within 1s",
    );
}

#[test]
fn looks_that_fail_or_hang_do_not_touch_the_renewals() {
    let mut bench = looking();
    // The second look hangs until the renewal is due, and its answer comes later.
    bench
        .wait_until(1_020)
        .answer(2, Answer::Denied("no right".to_owned()));
    bench.wait_until(4_030);
    bench.lines.clear();
    assert_eq!(bench.in_flight.take().map(|(attempt, _)| attempt), Some(4));
    bench.wait_until(5_000).answer(4, Answer::Superseded);
    bench.wait_until(5_010).answer(5, held(7));
    assert!(matches!(bench.standing(), Standing::Leading { until, .. } if until == at(15_000)));
    bench.assert_trace("5.000 #5 renew id1, within 1.666666s");
}

#[test]
fn a_leader_whose_renewals_fail_or_whose_lease_is_lost_does_not_look() {
    let mut bench = looking();
    for (look, attempt) in [(1_010, 2), (2_010, 3), (3_010, 4), (4_010, 5)] {
        bench.wait_until(look).answer(attempt, held(7));
    }
    bench.lines.clear();
    bench.wait_until(60_000);
    assert!(
        bench.lines.iter().all(|line| !line.contains("look")),
        "{:?}",
        bench.lines
    );
}
