//! Members with different failure detectors in one group.

use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::json;
use tenure_tests::group::{A_WHILE, Group, Leader, MEMBERS};
use tenure_tests::wait_for;

use super::group;

const DETECTORS: [&str; 5] = ["push", "pull", "on-demand", "push-fixed", "phi"];

/// Five members, each with another detector. The first member has detector number `first`.
fn mixed(first: usize) -> Group {
    let mut group = group();
    for (place, member) in MEMBERS.into_iter().enumerate() {
        set(&mut group, member, first + place);
    }
    group
}

/// Gives the member this detector from its next start on.
fn set(group: &mut Group, member: u32, detector: usize) {
    let name = DETECTORS[detector % DETECTORS.len()];
    group.set_for(member, "TENURE_BULLY_DETECTOR", name);
}

/// Checks that none of these members refuses another one because of its settings.
fn assert_none_refused(group: &Group, members: &[u32]) {
    for &member in members {
        let status = group.status(member).expect("a status");
        let refused = &status["counters"]["refused"];
        assert_eq!(refused.get("config_differs"), None, "{member}: {status}");
    }
}

/// Waits until all these members have known the same leader for a while, and none has suspected it.
fn calm(group: &Group, members: &[u32]) -> Leader {
    let mut calm = (None, Instant::now());
    wait_for("a while without a suspicion", || {
        let leader = group.followed_by(members[0]);
        let is_calm = members.iter().all(|&member| {
            let status = group.status(member).unwrap_or_default();
            let suspects = status["suspects"].as_array();
            let suspects_leader = suspects.is_none_or(|it| it.contains(&json!(leader)));
            status["leader"] == json!(leader) && !suspects_leader
        });
        if !is_calm || leader.is_none() || leader != calm.0 {
            calm = (leader, Instant::now());
        }
        (calm.1.elapsed() >= A_WHILE).then_some(())
    });
    group.last_leader()
}

#[test]
fn members_with_different_detectors_elect_and_replace_a_leader_that_is_killed() {
    let mut group = mixed(0);
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    group.kill(&[leader.member]);
    let others = Group::all_but(&[leader.member]);
    let _ = group.settled(leader.epoch, &others);
    assert_none_refused(&group, &others);
    group.receiver().assert_one_at_a_time();
}

/// A frozen process refuses no connection, so only the detectors notice it. Without a quorum all
/// others must suspect it before one of them leads.
#[test]
fn without_a_quorum_every_detector_trusts_every_other_and_notices_a_frozen_leader() {
    // The second group has push on a follower, and pull on the first leader.
    for first in [0, 1] {
        let mut group = mixed(first);
        group.set("TENURE_BULLY_QUORUM", "false");
        // The leader renews its term every three seconds. Within that time only heartbeats and
        // answers to pings show that it is up.
        group.set("TENURE_LEASE_DURATION", "9s");
        group.start_all();
        let leader = calm(&group, &MEMBERS);
        assert_none_refused(&group, &MEMBERS);
        group.member(leader.member).signal(Signal::SIGSTOP);
        let others = Group::all_but(&[leader.member]);
        let _ = group.settled(leader.epoch, &others);
        assert_ne!(calm(&group, &others).member, leader.member);
        group.kill(&[leader.member]);
        group.receiver().assert_fence_held();
    }
}

#[test]
fn a_group_changes_its_detectors_one_member_after_the_other_without_a_stop() {
    let mut group = group();
    group.set("TENURE_LEASE_DURATION", "6s");
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    let others = Group::all_but(&[leader.member]);
    for (&member, detector) in others.iter().zip(1..) {
        group.kill(&[member]);
        set(&mut group, member, detector);
        group.start(member);
        group.wait_until_follows(member, leader.member);
    }
    assert_eq!(group.leaders(), [leader], "no change costs a term");
    group.kill(&[leader.member]);
    set(&mut group, leader.member, 2);
    group.start(leader.member);
    let _ = group.settled(leader.epoch, &MEMBERS);
    assert_none_refused(&group, &MEMBERS);
    group.receiver().assert_one_at_a_time();
}
