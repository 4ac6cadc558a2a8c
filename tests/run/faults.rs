//! Killed and frozen stores and runs: the command stops in time in every case.

use std::time::Instant;

use nix::sys::signal::Signal;
use tenure_tests::process::{Process, StoreProcess, full_pipe};
use tenure_tests::wait_for;

use super::{BEAT, Bench, LEASE, STUBBORN_BEAT, candidate, processes_of, wait_until_gone};

/// Checks that the command is gone before the lease that was renewed before the fault expires.
fn check_that_the_command_stops_in_time(signal: Signal, script: &str) {
    let bench = Bench::new();
    let id = candidate("leader");
    let lease = 2 * LEASE;
    let flag = format!("{}ms", lease.as_millis());
    let mut leader = bench.script(&id, &["--lease-duration", &flag], script);
    bench.next_epoch(0);
    let begin = Instant::now();
    bench.store.process.signal(signal);
    wait_until_gone(&id);
    let took = begin.elapsed();
    assert!(took < lease, "the command ran for {took:?} after {signal}");
    assert!(!leader.has_ended(), "the run still campaigns");
}

#[test]
fn a_command_stops_in_time_when_the_store_is_killed() {
    check_that_the_command_stops_in_time(Signal::SIGKILL, BEAT);
}

#[test]
fn a_command_that_ignores_sigterm_stops_in_time_when_the_store_is_killed() {
    check_that_the_command_stops_in_time(Signal::SIGKILL, STUBBORN_BEAT);
}

#[test]
fn a_command_stops_in_time_when_the_store_is_frozen() {
    check_that_the_command_stops_in_time(Signal::SIGSTOP, BEAT);
}

#[test]
fn a_command_that_ignores_sigterm_stops_in_time_when_the_store_is_frozen() {
    check_that_the_command_stops_in_time(Signal::SIGSTOP, STUBBORN_BEAT);
}

#[test]
fn a_command_survives_a_short_outage_of_the_store() {
    let bench = Bench::new();
    let id = candidate("leader");
    let _leader = bench.script(&id, &["--lease-duration", "3s"], BEAT);
    let epoch = bench.next_epoch(0);
    let address = bench.store.address().to_string();
    let data = bench.folder.path().join("store");
    drop(bench.store);
    let store = StoreProcess::start_at(&data, &address);
    let bench = Bench { store, ..bench };
    // This is longer than the time that the term could last without a renewal.
    let begin = Instant::now();
    wait_for("a lease duration", || {
        (begin.elapsed() >= 2 * LEASE + LEASE / 2).then_some(())
    });
    let status = bench.status();
    assert_eq!(
        (&status["holder"], &status["epoch"]),
        (&id.into(), &epoch.into())
    );
    assert_eq!(bench.beats().last(), Some(&epoch));
}

#[test]
fn the_whole_group_ends_with_a_killed_run() {
    let bench = Bench::new();
    let (first, second) = (candidate("first"), candidate("second"));
    let family =
        r#"trap '' TERM HUP; (while :; do echo "$TENURE_EPOCH" >> "$0"; sleep 0.02; done) & wait"#;
    let leader = bench.script(&first, &[], family);
    let epoch = bench.next_epoch(0);
    let _follower = bench.script(&second, &[], BEAT);
    let begin = Instant::now();
    leader.signal(Signal::SIGKILL);
    wait_until_gone(&first);
    let took = begin.elapsed();
    assert!(took < LEASE / 3, "the group ran for another {took:?}");
    bench.next_epoch(epoch);
    bench.assert_one_at_a_time();
}

#[test]
fn a_command_of_a_frozen_run_ends_before_another_candidate_leads() {
    let bench = Bench::new();
    let (first, second) = (candidate("first"), candidate("second"));
    let leader = bench.script(&first, &[], STUBBORN_BEAT);
    let epoch = bench.next_epoch(0);
    let _follower = bench.script(&second, &[], BEAT);
    bench.wait_for_waiters(1);
    leader.signal(Signal::SIGSTOP);
    let next = bench.next_epoch(epoch);
    // Only processes that the frozen run has not collected are left.
    assert!(processes_of(&first).is_empty());
    leader.signal(Signal::SIGCONT);
    wait_for("the end of the old term", || {
        leader.stderr().contains("leadership lost").then_some(())
    });
    assert_eq!(bench.beats().last(), Some(&next));
    bench.assert_one_at_a_time();
}

#[test]
fn a_command_ends_with_its_killed_watchdog() {
    let bench = Bench::new();
    let id = candidate("leader");
    let mut leader = bench.script(&id, &["--once"], "echo $PPID; exec sleep 60");
    let watchdog: i32 = wait_for("the watchdog", || leader.stdout().trim().parse().ok());
    let watchdog = nix::unistd::Pid::from_raw(watchdog);
    nix::sys::signal::kill(watchdog, Signal::SIGKILL).unwrap();
    assert_eq!(leader.wait().code(), Some(137));
    assert!(processes_of(&id).is_empty());
}

#[test]
fn a_command_ends_with_its_killed_watchdog_even_if_its_run_is_frozen() {
    let bench = Bench::new();
    let id = candidate("leader");
    let leader = bench.script(&id, &[], "echo $PPID; exec sleep 600");
    let watchdog: i32 = wait_for("the watchdog", || leader.stdout().trim().parse().ok());
    leader.signal(Signal::SIGSTOP);
    let watchdog = nix::unistd::Pid::from_raw(watchdog);
    nix::sys::signal::kill(watchdog, Signal::SIGKILL).unwrap();
    wait_until_gone(&id);
}

#[test]
fn a_frozen_group_ends_with_its_term() {
    let bench = Bench::new();
    let (first, second) = (candidate("first"), candidate("second"));
    let leader = bench.script(&first, &[], BEAT);
    let epoch = bench.next_epoch(0);
    let _follower = bench.script(&second, &[], BEAT);
    bench.wait_for_waiters(1);
    for pid in processes_of(&first) {
        let pid = nix::unistd::Pid::from_raw(pid);
        let _ = nix::sys::signal::kill(pid, Signal::SIGSTOP);
    }
    leader.signal(Signal::SIGTERM);
    bench.next_epoch(epoch);
    assert!(processes_of(&first).is_empty());
    bench.assert_one_at_a_time();
}

#[test]
fn a_run_whose_log_has_no_reader_leads_and_ends_as_usual() {
    let bench = Bench::new();
    let id = candidate("unheard");
    let journal = bench.journal_path();
    let program = ["sh", "-c", BEAT, journal.to_str().unwrap()];
    let (_reader, writer) = full_pipe();
    let mut leader = Process::spawn_unread(&mut bench.command(&id, &[], &program), writer);
    let epoch = bench.next_epoch(0);
    let begin = Instant::now();
    wait_for("renewals", || (begin.elapsed() >= 2 * LEASE).then_some(()));
    assert_eq!(bench.status()["epoch"], epoch);
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.wait().code(), Some(0));
    assert!(processes_of(&id).is_empty());
    assert_eq!(bench.status()["state"], "available");
}
