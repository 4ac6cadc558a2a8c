//! What is wrong with the algorithm as it was published.

use std::println;

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
    println!("{}", report.to_hang.unwrap());
    assert_eq!((report.states, report.hanging), (5, 3));
}

#[test]
fn as_published_a_crash_and_a_restart_make_two_opinions() {
    let report = explore(&Environment {
        crashes: 1,
        restarts: 1,
        ..CALM
    });
    println!("{}", report.to_disagreement.unwrap());
    assert!(report.hanging > 0);
}

#[test]
fn as_published_a_mistake_of_the_detector_parts_the_members_for_ever() {
    let report = explore(&Environment {
        mistakes: 2,
        ..CALM
    });
    println!("{}", report.to_hang.unwrap());
    assert!(report.disagreeing > 0);
}
