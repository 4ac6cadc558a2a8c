//! Members that are killed and start again.

use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_tests::group::{A_WHILE, Group, MEMBERS};
use tenure_tests::process::Process;
use tenure_tests::wait_for;

use super::group;

#[test]
fn when_the_leader_is_killed_another_member_leads_with_a_greater_epoch() {
    let mut group = group();
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    group.kill(&[leader.member]);
    let next = group.next_leader(leader.epoch);
    assert_ne!(next.member, leader.member);
    // It restarts with its old promises, and does not disturb the leader.
    group.start(leader.member);
    group.wait_until_follows(leader.member, next.member);
    assert_eq!(group.next_leader(leader.epoch), next);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn when_the_leader_and_the_next_are_killed_a_third_leads() {
    let mut group = group();
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    let best_left = Group::all_but(&[leader.member])[0];
    group.kill(&[leader.member, best_left]);
    let next = group.next_leader(leader.epoch);
    assert!(![leader.member, best_left].contains(&next.member));
    // Three of five are a majority, and two are not.
    group.kill(&[next.member]);
    group.let_pass(A_WHILE);
    assert_eq!(group.last_leader(), next);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn restarts_of_the_best_member_do_not_move_the_leadership() {
    let mut group = group();
    group.set("TENURE_LEASE_DURATION", "6s");
    let others = Group::all_but(&[1]);
    for &member in &others {
        group.start(member);
    }
    let leader = group.settled(0, &others);
    for round in 0..5 {
        group.start(1);
        if round % 2 == 0 {
            group.wait_until_follows(1, leader.member);
        }
        group.let_pass(Duration::from_millis(100 * round));
        group.kill(&[1]);
    }
    group.start(1);
    group.wait_until_follows(1, leader.member);
    group.let_pass(Duration::from_secs(2));
    assert_eq!(group.leaders(), [leader]);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_leader_that_is_killed_and_starts_again_at_once_leads_under_a_greater_epoch() {
    let mut group = group();
    group.start_all();
    let mut leader = group.settled(0, &MEMBERS);
    for _ in 0..5 {
        // The votes of the others are for the process that was killed, which may still run for all
        // that they know: also this member leads only after they have expired.
        group.kill(&[leader.member]);
        group.start(leader.member);
        leader = group.settled(leader.epoch, &MEMBERS);
    }
    group.receiver().assert_one_at_a_time();
}

#[test]
fn epochs_increase_after_a_restart_of_all_members() {
    let mut group = group();
    let mut epoch = 0;
    for _ in 0..2 {
        group.start_all();
        epoch = group.settled(epoch, &MEMBERS).epoch;
        group.kill(&MEMBERS);
    }
    group.start_all();
    let _ = group.settled(epoch, &MEMBERS);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn members_keep_their_promises_across_a_restart() {
    let mut group = group();
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    // The leader gets no message about their end, and leads until its lease ends.
    let others = Group::all_but(&[leader.member]);
    group.partition(&[leader.member], &others);
    group.kill(&others);
    for &member in &others {
        group.start(member);
    }
    let next = group.settled(leader.epoch, &others);
    assert_ne!(next.member, leader.member);
    group.wait_until_stepped_down(leader.member);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_copy_of_a_leader_s_state_does_not_lead_before_the_leader_s_command_has_ended() {
    let mut group = super::three::Group::start();
    let (epoch, leader) = group.next_leader(0);
    let state = group.folder.path().join(format!("state-{leader}"));
    let copied = group.folder.path().join("copied");
    std::fs::create_dir(&copied).unwrap();
    for file in ["record", "FORMAT"] {
        std::fs::copy(state.join(file), copied.join(file)).unwrap();
    }
    // The leader's command runs until the deadline of its watchdogs.
    let original = group.members.get_mut(&leader).unwrap();
    original.signal(Signal::SIGSTOP);
    let mut copy = group.command(leader, &[]);
    copy.env("TENURE_BULLY_STATE_DIR", &copied);
    copy.env(
        "TENURE_BULLY_LISTEN",
        tenure_tests::ports::free_address().to_string(),
    );
    let _copy = Process::spawn(&mut copy);
    let (next, _) = group.next_leader(epoch);
    // The next leader writes for a while, and so would the leader before.
    wait_for("beats", || {
        let beats = group.beats();
        (beats.iter().filter(|(epoch, _)| *epoch == next).count() > 100).then_some(())
    });
    let beats = group.beats();
    assert!(
        beats.is_sorted_by_key(|(epoch, _)| *epoch),
        "two processes led: {beats:?}"
    );
    let original = group.members.get_mut(&leader).unwrap();
    original.signal(Signal::SIGCONT);
    assert_eq!(original.wait().code(), Some(3), "{}", original.stderr());
}
