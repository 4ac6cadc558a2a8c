//! A suspended machine: only one of its clocks advances.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tenure_tests::needs::preload;
use tenure_tests::process::Process;
use tenure_tests::receiver::now;

use super::Bench;

/// Compiled into a library that is loaded before the C library.
const CLOCKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/suspended.c");

/// The lease duration, in milliseconds: so long that a busy machine renews the lease in time.
const LONG_LEASE: &str = "6000";

#[test]
fn a_leader_whose_machine_was_suspended_stops_at_once() {
    let test = "a_leader_whose_machine_was_suspended_stops_at_once";
    let bench = Bench::new();
    let program = Path::new(env!("CARGO_BIN_EXE_tenure-test-candidate"));
    let Some(library) = preload(test, CLOCKS, bench.folder.path(), program) else {
        return;
    };
    let clock = bench.folder.path().join("suspended-for");
    fs::write(&clock, "0\n").unwrap();
    let store = bench.tap.address();
    let mut first = bench.candidate_with("first", store, LONG_LEASE);
    first
        .env("LD_PRELOAD", &library)
        .env("SUSPENDED_FOR", &clock);
    let _first = Process::spawn(&mut first);
    let epoch = bench.receiver.next_leader(0).epoch;
    // This candidate is on another machine and waits in the queue.
    let _second = Process::spawn(&mut bench.candidate_with("second", store, LONG_LEASE));
    bench.wait_for_waiters(1);
    let suspended = now();
    // In one step, as a clock jumps.
    let next = bench.folder.path().join("next");
    fs::write(&next, "60\n").unwrap();
    fs::rename(&next, &clock).unwrap();
    let woken = now();
    let ended = bench.receiver.note("first", "ended");
    assert_eq!(ended.text, format!("ended suspended {epoch}"));
    let took = ended.at - suspended;
    eprintln!("the term ended {took:?} after the machine woke up");
    assert!(took < Duration::from_secs(1), "{took:?}");
    // A check that begins now fails, because the term is over. So only an earlier check may have
    // led to a write.
    let last = bench.receiver.last_of("first", epoch);
    assert!(last.before < woken, "{last:?}");
    // The task had no time left to report its end. The checks below know the leader's actions. Either
    // candidate may lead next: a waiter whose request has ended asks again, behind all others.
    assert!(bench.receiver.next_leader(epoch).epoch > epoch);
    bench.verify();
}
