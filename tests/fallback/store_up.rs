//! The store answers.

use tenure_tests::group::{A_WHILE, Group, MEMBERS};

use super::{BOUND, group, settled};

#[test]
fn with_k_1_a_candidate_leads_although_all_other_members_are_down() {
    let mut group = group(1);
    group.start(4);
    let leader = settled(&group, 0);
    assert_eq!(leader.member, 4);
    group.let_pass(A_WHILE);
    assert_eq!(group.leaders(), [leader]);
}

#[test]
fn with_k_1_no_member_gets_a_message_of_the_leader_or_is_waited_for() {
    let mut group = group(1);
    group.start_all();
    let leader = settled(&group, 0);
    let others = Group::all_but(&[leader.member]);
    let carried = || {
        let links = others.iter().map(|&to| group.link(leader.member, to));
        links.map(|link| link.carried().requests).sum::<u64>()
    };
    // The detectors of the members may still exchange messages at the start.
    let before = carried();
    group.partition(&[leader.member], &others);
    group.let_pass(A_WHILE);
    assert_eq!(carried(), before, "the leader has sent messages to members");
    assert_eq!(group.leaders(), [leader]);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn when_the_leader_is_killed_the_first_waiter_leads() {
    for k in [1, 2] {
        let mut group = group(k);
        group.start_all();
        let leader = settled(&group, 0);
        let killed = tenure_tests::receiver::now();
        group.kill(&[leader.member]);
        let next = group.receiver().next_leader(leader.epoch);
        assert!(next.at - killed < 2 * BOUND, "{:?}", next.at - killed);
        assert_ne!(next.candidate, leader.member.to_string());
        assert_eq!(settled(&group, leader.epoch).epoch, next.epoch);
        group.receiver().assert_one_at_a_time();
    }
}

#[test]
fn a_leader_that_is_stopped_hands_the_lease_on_at_once() {
    let mut group = group(2);
    group.start_all();
    let leader = settled(&group, 0);
    group
        .member(leader.member)
        .signal(nix::sys::signal::Signal::SIGTERM);
    let next = group.next_leader(leader.epoch);
    let last = group
        .receiver()
        .last_of(&leader.member.to_string(), leader.epoch);
    let first = group.receiver().next_leader(leader.epoch);
    assert!(first.at - last.at < BOUND, "{:?}", first.at - last.at);
    assert!(MEMBERS.contains(&next.member));
    group.receiver().assert_one_at_a_time();
}
