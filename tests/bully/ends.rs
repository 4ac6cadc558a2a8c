//! Members that are stopped.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure_tests::group::MEMBERS;

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
