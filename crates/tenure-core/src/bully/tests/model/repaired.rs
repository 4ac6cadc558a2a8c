//! The repaired algorithm.

use super::explore::explore;
use super::peers::{CALM, Detection, Environment};

/// Checks that, with a detector that makes no mistake, at most one member leads at a time, no member
/// waits for ever, and no two members rely on different leaders.
#[track_caller]
fn elects_one(environment: &Environment) {
    let report = explore(environment);
    // A better member that takes over halts some members before the others.
    let disagreement = report.to_disagreement.filter(|_| !environment.preempt);
    let wrong = report.to_double.or(report.to_hang).or(disagreement);
    assert!(wrong.is_none(), "{}", wrong.unwrap());
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
fn one_leads_when_timers_fire_while_messages_are_under_way() {
    elects_one(&Environment {
        hasty: true,
        ..FEWER
    });
}

#[test]
fn one_member_of_four_leads() {
    let four = Environment {
        members: 4,
        ..FEWER
    };
    elects_one_either_way(&four);
    elects_one(&Environment {
        crashes: 1,
        fifo: false,
        ..four.clone()
    });
    elects_one(&Environment {
        crashes: 1,
        lag: true,
        detection: Detection::AfterItsMessages,
        ..four
    });
}

#[test]
fn four_members_with_two_leaders_after_a_mistake_merge_again() {
    let report = explore(&Environment {
        members: 4,
        mistakes: 4,
        ..CALM
    });
    assert!(report.doubled > 0, "the mistakes matter");
    assert!(report.to_hang.is_none(), "{}", report.to_hang.unwrap());
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
        ..CALM
    });
    assert!(report.doubled > 0, "the mistakes matter");
    assert!(report.to_hang.is_none(), "{}", report.to_hang.unwrap());
}
