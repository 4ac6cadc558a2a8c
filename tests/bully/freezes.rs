//! Leaders that are frozen, and resume later.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure_tests::group::{Group, MEMBERS};
use tenure_tests::process::descendants;

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

#[test]
fn writes_of_a_leader_that_was_frozen_with_its_command_are_refused() {
    let mut group = group();
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    let all = descendants(group.member(leader.member).pid());
    assert!(all.len() >= 4, "a run, its watchdogs and the command");
    signal(&all, Signal::SIGSTOP);
    let next = group.settled(leader.epoch, &Group::all_but(&[leader.member]));
    assert_ne!(next.member, leader.member);
    signal(&all, Signal::SIGCONT);
    group.wait_until_stepped_down(leader.member);
    group.wait_until_follows(leader.member, next.member);
    let stale = || {
        let acts = group.receiver().acts();
        acts.iter().filter(|act| !act.accepted).count()
    };
    let before = stale();
    group.let_pass(Duration::from_millis(500));
    assert_eq!(stale(), before, "the old command still writes");
    eprintln!("{before} stale writes were refused");
    assert_eq!(group.last_leader(), next);
    group.receiver().assert_fence_held();
}

fn signal(processes: &[Pid], signal: Signal) {
    for &process in processes {
        // A watchdog that resumes may have killed the command before it gets its signal.
        let _ = kill(process, signal);
    }
}
