//! A machine that is suspended: only one of its clocks goes on.

use std::fs;
use std::time::Duration;

use tenure_tests::needs::preload;
use tenure_tests::process::Process;
use tenure_tests::receiver::now;

use super::Bench;

/// Compiled into a library that is loaded before the C library.
const CLOCKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/suspended.c");

#[test]
fn a_leader_whose_machine_was_suspended_stops_at_once() {
    let test = "a_leader_whose_machine_was_suspended_stops_at_once";
    let bench = Bench::new();
    let Some(library) = preload(test, CLOCKS, bench.folder.path()) else {
        return;
    };
    let clock = bench.folder.path().join("suspended-for");
    fs::write(&clock, "0\n").unwrap();
    let mut first = bench.candidate_command("first", bench.tap.address());
    first
        .env("LD_PRELOAD", &library)
        .env("SUSPENDED_FOR", &clock);
    let _first = Process::spawn(&mut first);
    let epoch = bench.receiver.next_leader(0).epoch;
    // On another machine, and it waits for nothing but its turn.
    let _second = bench.candidate("second");
    bench.wait_for_waiters(1);
    let suspended = now();
    // In one step, as a clock jumps.
    let next = bench.folder.path().join("next");
    fs::write(&next, "60\n").unwrap();
    fs::rename(&next, &clock).unwrap();
    let ended = bench.receiver.note("first", "ended");
    assert_eq!(ended.text, format!("ended suspended {epoch}"));
    let took = ended.at - suspended;
    eprintln!("the term ended {took:?} after the machine woke up");
    assert!(took < Duration::from_secs(1), "{took:?}");
    // What it checked before the machine stood still is all that it did.
    let last = bench.receiver.last_of("first", epoch);
    assert!(
        last.before < suspended + Duration::from_millis(50),
        "{last:?}"
    );
    // The task had no time left to say that it stops. The judge knows who took itself for the leader.
    let next = bench.receiver.next_leader(epoch);
    assert_eq!(next.candidate, "second");
    bench.judge();
}
