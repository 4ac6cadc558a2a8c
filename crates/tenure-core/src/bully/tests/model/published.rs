//! The errors of the published algorithm.

use std::println;

use stateright::{Checker, Model};

use super::explore::explore;
use super::peers::{CALM, Environment};
use super::*;

#[test]
fn as_published_two_members_never_have_a_leader_again_after_one_crash() {
    let report = explore(&Environment {
        members: 2,
        crashes: 1,
        ..CALM
    });
    println!("nobody is ever elected again:\n{}", report.to_hang.unwrap());
    assert!(report.hanging > 0);
}

/// No false suspicion, no loss, messages in order, and a detector that reports only when no message
/// is under way.
#[test]
fn as_published_a_crash_and_a_restart_part_three_members_for_ever() {
    let environment = Environment {
        crashes: 1,
        restarts: 1,
        ..CALM
    };
    let report = explore(&environment);
    let shortest = report.to_disagreement.unwrap();
    println!("they disagree:\n{shortest}");
    assert!(report.hanging > 0);

    // The checker, which has no part in the explorer, finds it in the same model.
    let checker = environment.checker().spawn_bfs().join();
    checker.assert_any_discovery("all who have a leader have the same one");
}

#[test]
fn as_published_mistakes_of_the_detector_make_two_leaders_for_ever() {
    let report = explore(&Environment {
        mistakes: 2,
        ..CALM
    });
    println!("two leaders:\n{}", report.to_double.unwrap());
    println!("for ever:\n{}", report.to_hang.unwrap());
}

#[test]
fn as_published_a_lost_message_stops_everything() {
    let report = explore(&Environment {
        crashes: 1,
        losses: 1,
        ..CALM
    });
    assert!(report.hanging > 0);
}
