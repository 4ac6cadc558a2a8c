//! Members that are stopped.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure_tests::group::{A_WHILE, Group, MEMBERS};

use super::group;

#[test]
fn after_a_leader_is_stopped_another_one_leads_before_its_votes_expire() {
    let mut group = group();
    // The command has a fifteenth of the lease duration to stop. It ignores SIGTERM until it is
    // killed.
    group.set("TENURE_LEASE_DURATION", "15s");
    group.set("TENURE_STOP_GRACE", "1s");
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    let begin = Instant::now();
    group.member(leader.member).signal(Signal::SIGTERM);
    let _ = group.next_leader(leader.epoch);
    let took = begin.elapsed();
    // Without a release, the gap is nearly the whole lease duration plus an election.
    assert!(
        took < Duration::from_secs(8),
        "the next leader acted after {took:?}"
    );
    assert!(group.end_of(leader.member).success());
    group.receiver().assert_one_at_a_time();
}

#[test]
fn a_second_stop_signal_kills_the_command_and_leaves_the_votes_to_expire() {
    let mut group = group();
    group.set("TENURE_LEASE_DURATION", "60s");
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    let member = group.member_mut(leader.member);
    member.begin_to_stop(Signal::SIGTERM);
    member.end_by_second(Signal::SIGTERM);
    // After a release another member would lead at once.
    group.let_pass(A_WHILE);
    assert_eq!(group.last_leader(), leader);
}

/// Its last messages reach nobody, and are worth sending for 20 s with this lease.
#[test]
fn members_whose_peers_are_frozen_end_within_seconds_however_long_the_lease_is() {
    let mut group = group();
    group.set("TENURE_LEASE_DURATION", "10m");
    group.set("TENURE_BULLY_MESSAGE_LIFETIME", "20s");
    group.set("TENURE_STOP_GRACE", "1s");
    group.start_all();
    let leader = group.settled(0, &MEMBERS);
    let others = Group::all_but(&[leader.member]);
    let (follower, frozen) = others.split_first().unwrap();
    for other in frozen {
        group.member(*other).signal(Signal::SIGSTOP);
    }
    // The command ignores SIGTERM until the stop grace is over.
    for (member, limit) in [(*follower, 1), (leader.member, 1 + 5)] {
        let begin = Instant::now();
        group.member(member).signal(Signal::SIGTERM);
        assert!(group.end_of(member).success());
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(limit + 3), "{limit}: {took:?}");
    }
}
