//! A suspended machine: only one of its clocks advances.

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
    // This candidate is on another machine and waits in the queue.
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
    // Only a write that was checked before the suspension may follow.
    let last = bench.receiver.last_of("first", epoch);
    assert!(
        last.before < suspended + Duration::from_millis(50),
        "{last:?}"
    );
    // The task had no time left to report its end. The checks below know the leader's actions.
    let next = bench.receiver.next_leader(epoch);
    eprintln!("jump at {suspended:?}, next is {next:?}");
    for call in bench.tap.calls() {
        let text = format!("{call:?}");
        if text.contains("cquire") || next.candidate == "first" { eprintln!("{}", &text[..text.len().min(700)]); }
    }
    assert_eq!(next.candidate, "second");
    bench.verify();
}
