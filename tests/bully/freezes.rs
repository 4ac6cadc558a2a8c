//! Leaders that are frozen, and go on later.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure_tests::group::{Group, MEMBERS};
use tenure_tests::process::descendants;

use super::group;

#[test]
fn a_leader_that_is_frozen_past_its_lease_finds_that_it_leads_no_more() {
    let mut group = group();
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    // Its command is not frozen, and has to be gone before the next one leads.
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
fn what_a_leader_writes_that_was_frozen_with_its_command_is_refused() {
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
    group.look_on(Duration::from_millis(500));
    assert_eq!(stale(), before, "the old command goes on");
    eprintln!("{before} stale writes were refused");
    assert_eq!(group.last_leader(), next);
    group.receiver().assert_fence_held();
}

fn signal(processes: &[Pid], signal: Signal) {
    for &process in processes {
        // A watchdog that goes on may have killed the command before that does.
        let _ = kill(process, signal);
    }
}
