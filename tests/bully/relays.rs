//! Networks in which not all members can reach each other, so that members pass messages on.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::group::{A_WHILE, Group, LEASE, Leader, MEMBERS};
use tenure_tests::process::command;
use tenure_tests::{process, wait_for};

use super::three::free_addresses;
use super::{group, group_of};

const RING: [(u32, u32); 5] = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1)];

const HUB: u32 = 5;

const STAR: [(u32, u32); 4] = [(HUB, 1), (HUB, 2), (HUB, 3), (HUB, 4)];

/// Five members that have the addresses of their neighbours in this network only, and their leader.
fn led(pairs: impl IntoIterator<Item = (u32, u32)>) -> (Group, Leader) {
    let mut group = group().with_neighbors(pairs);
    let leader = start(&mut group);
    (group, leader)
}

/// Starts all members, and returns their leader.
pub(super) fn start(group: &mut Group) -> Leader {
    group.start_all();
    let mut leader = group.settled(0, group.all());
    // A leader that learns of a greater epoch, for which another member ran at the same time, begins
    // a new term.
    loop {
        group.let_pass(LEASE);
        let last = group.settled(0, group.all());
        if last == leader {
            return leader;
        }
        leader = last;
    }
}

/// The links of a ring of this size.
pub(super) fn ring(size: u32) -> Vec<(u32, u32)> {
    (1..=size).map(|id| (id, id % size + 1)).collect()
}

/// The members through which a member reaches another one; null if it does not reach it.
fn path(group: &Group, from: u32, to: u32) -> Value {
    let status = group.status(from).unwrap_or_default();
    status["paths"][to.to_string()].clone()
}

#[test]
fn a_ring_elects_one_leader_through_its_neighbors_and_another_when_it_dies() {
    let (mut group, leader) = led(RING);
    let (near, far) = (leader.member % 5 + 1, (leader.member + 1) % 5 + 1);
    wait_for("a direct path", || {
        (path(&group, near, leader.member) == json!([])).then_some(())
    });
    // The other way round the ring has two relays.
    wait_for("a path through the neighbour", || {
        let path = path(&group, far, leader.member);
        (path.as_array().is_some_and(|relays| !relays.is_empty())).then_some(())
    });
    assert_eq!(group.status(far).expect("a status")["quorum"], true);
    // The ring is a line then.
    group.kill(&[leader.member]);
    let rest = Group::all_but(&[leader.member]);
    let next = group.settled(leader.epoch, &rest);
    assert!(rest.contains(&next.member));
    group.start(leader.member);
    group.wait_until_follows(leader.member, next.member);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_ring_of_seven_elects_a_leader_and_another_when_it_dies() {
    let mut group = group_of(7).with_neighbors(ring(7));
    let leader = start(&mut group);
    group.kill(&[leader.member]);
    let mut rest = group.all().to_vec();
    rest.retain(|member| *member != leader.member);
    let _ = group.settled(leader.epoch, &rest);
    group.start(leader.member);
    let _ = group.settled(leader.epoch, group.all());
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_ring_with_a_cut_link_keeps_its_leader_and_can_elect() {
    let (mut group, leader) = led(RING);
    let next_to_it = leader.member % 5 + 1;
    group.partition(&[leader.member], &[next_to_it]);
    // Longer than a term without renewals. The leader stays, and the member behind the cut finds the
    // other way.
    group.let_pass(A_WHILE);
    group.wait_until_follows(next_to_it, leader.member);
    assert_eq!(group.last_leader(), leader);
    wait_for("the way round the ring", || {
        let relays = path(&group, leader.member, next_to_it);
        (relays.as_array().map(Vec::len) == Some(3)).then_some(())
    });
    group.kill(&[leader.member]);
    let rest = Group::all_but(&[leader.member]);
    let next = group.settled(leader.epoch, &rest);
    assert_ne!(next.member, leader.member);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn of_a_ring_that_parts_only_the_majority_has_a_leader() {
    let (mut group, leader) = led(RING);
    // The leader stays with one neighbour.
    let with_it = leader.member % 5 + 1;
    let majority = Group::all_but(&[leader.member, with_it]);
    group.partition(&[leader.member, with_it], &majority);
    let next = group.settled(leader.epoch, &majority);
    assert!(majority.contains(&next.member), "{next:?}");
    group.wait_until_stepped_down(leader.member);
    group.let_pass(A_WHILE);
    let last = group.last_leader();
    assert!(majority.contains(&last.member), "the two elect: {last:?}");
    group.heal();
    for member in [leader.member, with_it] {
        group.wait_until_follows(member, last.member);
    }
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_star_has_no_leader_without_its_hub_and_has_one_when_the_hub_returns() {
    let (mut group, leader) = led(STAR);
    group.kill(&[HUB]);
    // A member that led is gone after its term, and no leaf reaches a majority.
    group.let_pass(A_WHILE);
    if leader.member != HUB {
        group.wait_until_stepped_down(leader.member);
    }
    let acts = group.receiver().acts().len();
    group.let_pass(LEASE);
    assert_eq!(group.receiver().acts().len(), acts, "no member leads");
    let last = group.last_leader();
    group.start(HUB);
    let next = group.settled(last.epoch, &MEMBERS);
    // A frozen hub passes nothing on. What it finds in its sockets when it continues is too old.
    group.member(HUB).signal(Signal::SIGSTOP);
    group.let_pass(A_WHILE);
    group.member(HUB).signal(Signal::SIGCONT);
    let _ = group.settled(next.epoch, &MEMBERS);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn members_with_all_addresses_elect_although_most_links_are_broken() {
    let all = MEMBERS.map(|one| MEMBERS.map(|other| (one, other)));
    let mut group = group().with_neighbors(all.as_flattened().iter().copied());
    // A line 2 - 4 - 1 - 5 - 3 is left.
    let line = [(2, 4), (4, 1), (1, 5), (5, 3)];
    for one in MEMBERS {
        for other in Group::all_but(&[one]) {
            if !line.contains(&(one, other)) && !line.contains(&(other, one)) {
                group.partition(&[one], &[other]);
            }
        }
    }
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    // The leader's term is renewed along the line.
    group.let_pass(A_WHILE);
    assert_eq!(group.settled(0, &MEMBERS).member, leader.member);
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_member_whose_links_are_all_broken_logs_each_reason_once_and_then_the_recovery() {
    let all = MEMBERS.map(|one| MEMBERS.map(|other| (one, other)));
    let mut group = group().with_neighbors(all.as_flattened().iter().copied());
    group.start(1);
    let failed = || failures(&group.status(1).unwrap_or_default());
    // Each of the four links may have two lines, one for a direct failure and one for every path. 40
    // failures are far more than these eight lines.
    wait_for("failures", || (failed() > 40).then_some(()));
    let stderr = group.member(1).stderr();
    for peer in 2..=5 {
        let of_peer = |line: &&str| line.contains(&format!("peer={peer} "));
        let lines = stderr
            .lines()
            .filter(|line| line.contains("was not delivered"));
        let count = lines.filter(of_peer).count();
        assert!(
            (1..=2).contains(&count),
            "{count} lines of {peer}: {stderr}"
        );
    }
    assert!(!stderr.contains("delivered again"), "{stderr}");
    for member in 2..=5 {
        group.start(member);
    }
    let _ = group.settled(0, &MEMBERS);
    wait_for("the recovery of each link", || {
        let stderr = group.member(1).stderr();
        (stderr.matches("messages are delivered again").count() == 4).then_some(())
    });
}

/// The failed attempts of a member, by its status.
fn failures(status: &Value) -> u64 {
    status["counters"]["failed"].as_u64().unwrap_or_default()
}

#[test]
fn a_member_without_an_address_and_without_relays_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tenure.toml");
    let addresses = free_addresses(2);
    let text = |rest: &str| {
        format!(
            "election = \"tests/job\"\nstrategy = \"bully\"\n[bully]\nnode = 1\n\
             peers = [\"1=http://{}\", \"2=http://{}\", \"3=relay\"]\n{rest}\n",
            addresses[0], addresses[1]
        )
    };
    let check = |rest: &str| {
        std::fs::write(&file, text(rest)).expect("a file");
        let arguments = ["config", "check", file.to_str().expect("a path of text")];
        process::output(&mut command(&arguments))
    };
    let wrong = check("");
    assert_eq!(wrong.status.code(), Some(2));
    let stderr = process::stderr(&wrong);
    for part in ["tenure.toml:5", "bully.peers", "3=relay", "relay = true"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let right = check("relay = true");
    assert!(right.status.success(), "{}", process::stderr(&right));
}
