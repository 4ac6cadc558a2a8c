//! Leaders that are frozen, and resume later.

use nix::sys::signal::Signal;
use tenure_tests::group::{Group, MEMBERS};

use super::group;

#[test]
fn a_leader_that_is_frozen_past_its_lease_steps_down_when_it_resumes() {
    let mut group = group();
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    // The command is not frozen, and must be gone before the next leader acts.
    group.member(leader.member).signal(Signal::SIGSTOP);
    let next = group.settled(leader.epoch, &Group::all_but(&[leader.member]));
    assert_ne!(next.member, leader.member);
    group.member(leader.member).signal(Signal::SIGCONT);
    group.wait_until_stepped_down(leader.member);
    group.wait_until_follows(leader.member, next.member);
    assert_eq!(group.last_leader(), next);
    group.receiver().assert_one_at_a_time();
}
