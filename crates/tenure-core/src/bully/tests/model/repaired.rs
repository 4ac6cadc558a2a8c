//! The repaired algorithm, and the failure that each repair prevents.

use std::println;

use super::explore::{Report, explore};
use super::peers::{CALM, Detection, Environment};
use super::*;

fn without(fixes: &[DisabledRule]) -> Environment {
    Environment {
        without: fixes.to_vec().leak(),
        ..CALM
    }
}

/// Checks that, with a detector that makes no mistake, at most one member leads at a time and no
/// member waits for ever.
#[track_caller]
fn elects_one(environment: &Environment) {
    let Report {
        to_double, to_hang, ..
    } = explore(environment);
    assert!(to_double.is_none(), "{}", to_double.unwrap());
    assert!(to_hang.is_none(), "{}", to_hang.unwrap());
}

/// Checks the same with and without preemption.
#[track_caller]
fn elects_one_either_way(environment: &Environment) {
    for preempt in [false, true] {
        elects_one(&Environment {
            preempt,
            ..environment.clone()
        });
    }
}

const CRASHES: Environment = Environment {
    crashes: 2,
    restarts: 2,
    ..CALM
};

const FEWER: Environment = Environment {
    restarts: 1,
    ..CRASHES
};

#[test]
fn one_leads_after_crashes_and_restarts() {
    elects_one_either_way(&CRASHES);
    elects_one_either_way(&Environment {
        cold: true,
        ..CRASHES
    });
}

#[test]
fn one_leads_when_messages_come_late_twice_or_not_at_all() {
    elects_one_either_way(&Environment {
        fifo: false,
        ..CRASHES
    });
    elects_one_either_way(&Environment {
        fifo: false,
        repeats: 1,
        ..FEWER
    });
    elects_one_either_way(&Environment { losses: 2, ..FEWER });
}

#[test]
fn one_leads_when_the_detector_is_quick_or_slow() {
    let detection = Detection::AfterItsMessages;
    elects_one_either_way(&Environment {
        detection,
        ..CRASHES
    });
    elects_one_either_way(&Environment {
        detection,
        fifo: false,
        repeats: 1,
        ..FEWER
    });
    elects_one_either_way(&Environment {
        lag: true,
        ..CRASHES
    });
}

#[test]
#[ignore = "takes minutes"]
fn one_leads_after_many_more_crashes_with_more_members() {
    for environment in [
        Environment {
            crashes: 3,
            restarts: 3,
            ..CALM
        },
        Environment {
            crashes: 3,
            restarts: 3,
            cold: true,
            ..CALM
        },
        Environment {
            members: 4,
            crashes: 2,
            restarts: 2,
            detection: Detection::AfterItsMessages,
            ..CALM
        },
        Environment {
            members: 5,
            crashes: 1,
            restarts: 1,
            ..CALM
        },
    ] {
        elects_one_either_way(&environment);
    }
}

/// A wrong detector can cause two leaders at a time. The leaders must always find each other again.
#[test]
fn members_that_a_wrong_detector_separates_always_merge_again() {
    let report = explore(&Environment {
        crashes: 1,
        restarts: 1,
        mistakes: 2,
        ..without(&[])
    });
    assert!(report.doubled > 0, "the mistakes matter");
    assert!(report.to_hang.is_none(), "{}", report.to_hang.unwrap());
}

/// Returns the first violation without these repairs, as text. Checks that there is none with the
/// repairs in the same environment.
#[track_caller]
fn ill_without(fixes: &[DisabledRule], environment: &Environment) -> String {
    let wrong = |fixes: &[DisabledRule]| {
        let report = explore(&Environment {
            without: without(fixes).without,
            ..environment.clone()
        });
        let disagreement = report.to_disagreement.filter(|_| environment.mistakes == 0);
        report.to_hang.or(disagreement)
    };
    let ill = wrong(fixes).expect("a violation without the repair");
    println!("without {fixes:?}:\n{ill}");
    assert_eq!(wrong(&[]), None, "no violation with the repair");
    ill
}

#[test]
fn without_completion_everywhere_the_last_one_waits_for_ever() {
    ill_without(&[DisabledRule::CompletionEverywhere], &FEWER);
}

#[test]
fn without_asking_again_a_candidate_waits_for_ever() {
    ill_without(&[DisabledRule::AskAgain], &CRASHES);
}

#[test]
fn without_halting_again_an_organiser_waits_for_ever() {
    let lossy = Environment { losses: 1, ..FEWER };
    ill_without(&[DisabledRule::HaltAgain], &lossy);
}

#[test]
fn without_a_fresh_number_an_election_never_ends() {
    ill_without(&[DisabledRule::FreshElection], &FEWER);
}

#[test]
fn without_matching_an_ack_of_another_election_makes_a_leader() {
    let quick = Environment {
        detection: Detection::AfterItsMessages,
        ..FEWER
    };
    ill_without(&[DisabledRule::MatchAck], &quick);
}

#[test]
fn without_conflict_detection_a_mistake_parts_the_members_for_ever() {
    let mistaken = Environment {
        crashes: 1,
        restarts: 1,
        mistakes: 1,
        ..CALM
    };
    ill_without(&[DisabledRule::Conflict], &mistaken);
}

#[test]
fn if_a_halt_may_be_accepted_twice_a_late_one_draws_a_member_back() {
    let rough = Environment {
        detection: Detection::AfterItsMessages,
        fifo: false,
        repeats: 1,
        ..FEWER
    };
    ill_without(&[DisabledRule::ObeyOnce], &rough);
}

/// Each of Stoller's order and the refusals prevents this failure without the other. Without both,
/// the failure of the published algorithm is possible again.
#[test]
fn without_the_order_and_the_refusals_a_member_accepts_two_at_once() {
    let late = Environment { lag: true, ..FEWER };
    ill_without(
        &[DisabledRule::OneAfterTheOther, DisabledRule::Refuse],
        &late,
    );
    for alone in [DisabledRule::OneAfterTheOther, DisabledRule::Refuse] {
        let report = explore(&Environment {
            lag: true,
            ..Environment {
                without: without(&[alone]).without,
                ..FEWER
            }
        });
        assert_eq!((report.disagreeing, report.hanging), (0, 0), "{alone:?}");
    }
}
