//! Leaders that are killed, frozen and stopped.

use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_tests::process::Process;
use tenure_tests::wait_for;

use super::{Bench, LEASE};

#[test]
fn a_killed_leader_has_a_successor_when_its_lease_has_expired() {
    let bench = Bench::new();
    let first = bench.candidate("first");
    let epoch = bench.receiver.next_leader(0).epoch;
    let _second = bench.candidate("second");
    bench.wait_for_waiters(1);
    first.signal(Signal::SIGKILL);
    let next = bench.receiver.next_leader(epoch);
    assert_eq!(next.candidate, "second");
    let last = bench.receiver.last_of("first", epoch);
    let gap = next.at - last.at;
    eprintln!("no leader for {gap:?}, with a lease of {LEASE:?}");
    assert!(gap < LEASE + Duration::from_secs(3), "{gap:?}");
    bench.verify();
}

#[test]
fn a_leader_frozen_at_any_point_does_not_act_under_its_old_epoch() {
    let bench = Bench::new();
    let candidates = ["first", "second"].map(|id| bench.candidate(id));
    let mut epoch = 0;
    for _ in 0..3 {
        let leader = bench.receiver.next_leader(epoch);
        let old = usize::from(leader.candidate == "second");
        bench.wait_for_waiters(1);
        candidates[old].signal(Signal::SIGSTOP);
        epoch = leader.epoch;
        let next = bench.receiver.next_leader(epoch);
        assert_ne!(next.candidate, leader.candidate);
        candidates[old].signal(Signal::SIGCONT);
        let ended = wait_for("the end of the old term", || {
            let mut notes = bench.receiver.notes().into_iter();
            let end = format!(" {epoch}");
            notes.find(|note| note.text.starts_with("ended") && note.text.ends_with(&end))
        });
        assert_eq!(ended.candidate, leader.candidate);
    }
    bench.verify();
}

#[test]
fn a_leader_that_is_stopped_hands_over_when_its_task_has_ended() {
    /// Waiting for the end of this lease would take far longer than the limit.
    const LEASE: &str = "20000";
    const AT_MOST: Duration = Duration::from_secs(2);
    let bench = Bench::new();
    let start = |id| Process::spawn(&mut bench.candidate_with(id, bench.tap.address(), LEASE));
    let mut first = start("first");
    let epoch = bench.receiver.next_leader(0).epoch;
    let _second = start("second");
    bench.wait_for_waiters(1);
    first.signal(Signal::SIGTERM);
    assert!(first.wait().success());
    let stopped = bench.receiver.note("first", "stopped");
    let next = bench.receiver.next_leader(epoch);
    assert!(stopped.at < next.at, "the task ended first");
    let gap = next.at - stopped.at;
    eprintln!("the next leader acted {gap:?} after the task ended (target: 200 ms)");
    assert!(gap < AT_MOST, "{gap:?}: the lease was not handed over");
    let ended = bench.receiver.note("first", "ended");
    assert_eq!(ended.text, format!("ended shut_down {epoch}"));
    bench.verify();
}
