//! `tenure run` and its two watchdogs guard a command: two of these three processes may fail.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::Signal::{self, SIGCONT, SIGKILL, SIGSTOP};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tenure_tests::process::{Process, descendants};
use tenure_tests::wait_for;

use super::{BEAT, Bench, candidate, processes_of, wait_until_gone};

/// A command, its child, and an orphan in its group. They write lines, and ignore signals to stop.
const PROCESS_TREE: &str = r#"
    trap '' TERM HUP
    beat() { while :; do echo "$TENURE_EPOCH" >> "$0"; sleep 0.02; done; }
    beat & (beat &)
    beat"#;

/// Times between two failures: none, and longer ones, in which the other processes notice the first
/// failure.
const APART: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(60),
];

/// How long the group is observed after the next candidate leads.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// One of the processes that guard a command.
#[derive(Clone, Copy, Debug)]
enum Guard {
    Run,
    First,
    Second,
}

impl Guard {
    fn pid(self, run: &Process, candidate: &str) -> Pid {
        match self {
            Self::Run => run.pid(),
            Self::First => watchdog(candidate, "watchdog"),
            Self::Second => watchdog(candidate, "second-watchdog"),
        }
    }
}

/// The watchdog of a candidate that runs this subcommand.
fn watchdog(candidate: &str, subcommand: &str) -> Pid {
    let begin = format!("tenure\0{subcommand}\0");
    let is_it = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.starts_with(begin.as_bytes()))
    };
    wait_for("a watchdog", || {
        let pid = processes_of(candidate).into_iter().find(is_it);
        pid.map(Pid::from_raw)
    })
}

/// Freezes or kills two guards of a command, in both orders and with different times between. Fails
/// if a process of the command's group is running when another candidate leads.
fn check_that_the_group_ends_in_time(one: (Guard, Signal), other: (Guard, Signal)) {
    // Orphans become children of this process, which is in their session. So the kernel does not
    // resume a frozen group when its `tenure run` is killed, as it would if they became children of
    // the init process.
    prctl::set_child_subreaper(true).unwrap();
    thread::scope(|scope| {
        for (round, apart) in APART.into_iter().enumerate() {
            let (first, second) = if round % 2 == 0 {
                (one, other)
            } else {
                (other, one)
            };
            scope.spawn(move || check_that_a_group_ends_in_time_after(first, apart, second));
        }
    });
}

fn check_that_a_group_ends_in_time_after(
    one: (Guard, Signal),
    apart: Duration,
    other: (Guard, Signal),
) {
    let bench = Bench::new();
    let (old, new) = (candidate("old"), candidate("new"));
    let lease = ["--lease-duration", "2s"];
    let leader = bench.script(&old, &lease, PROCESS_TREE);
    let epoch = bench.next_epoch(0);
    let [one, other] = [one, other].map(|(guard, signal)| (guard.pid(&leader, &old), signal));
    let _follower = bench.script(&new, &lease, BEAT);
    bench.wait_for_waiters(1);
    if apart.is_zero() {
        // Neither guard can act between the first failure and the second one.
        for (guard, _) in [one, other] {
            kill(guard, SIGSTOP).unwrap_or_else(|_| panic!("{}", leader.stderr()));
        }
    }
    kill(one.0, one.1).unwrap_or_else(|_| panic!("{}", leader.stderr()));
    thread::sleep(apart);
    // The first failure may have ended this process.
    let _ = kill(other.0, other.1);
    bench.next_epoch(epoch);
    let left = processes_of(&old);
    for pid in &left {
        let _ = kill(Pid::from_raw(*pid), SIGKILL);
    }
    assert!(left.is_empty(), "{one:?}, {other:?}: {left:?} still run");
    let begin = Instant::now();
    wait_for("output of the new leader", || {
        (begin.elapsed() >= AFTERWARDS).then_some(())
    });
    bench.assert_one_at_a_time();
    let _ = kill(leader.pid(), SIGKILL);
    wait_until_gone(&old);
}

#[test]
fn a_group_ends_before_another_candidate_leads_if_its_run_is_frozen_and_its_watchdog_is_killed() {
    check_that_the_group_ends_in_time((Guard::Run, SIGSTOP), (Guard::First, SIGKILL));
}

#[test]
fn a_group_ends_before_another_candidate_leads_if_its_run_is_killed_and_its_watchdog_is_frozen() {
    check_that_the_group_ends_in_time((Guard::Run, SIGKILL), (Guard::First, SIGSTOP));
}

#[test]
fn a_group_ends_before_another_candidate_leads_if_its_run_and_its_watchdog_are_frozen() {
    check_that_the_group_ends_in_time((Guard::Run, SIGSTOP), (Guard::First, SIGSTOP));
}

#[test]
fn a_group_ends_before_another_candidate_leads_if_its_run_and_its_watchdog_are_killed() {
    check_that_the_group_ends_in_time((Guard::Run, SIGKILL), (Guard::First, SIGKILL));
}

#[test]
fn a_group_ends_before_another_candidate_leads_if_its_run_and_its_second_watchdog_fail() {
    for of_run in [SIGSTOP, SIGKILL] {
        for of_second in [SIGSTOP, SIGKILL] {
            let second = (Guard::Second, of_second);
            check_that_the_group_ends_in_time((Guard::Run, of_run), second);
        }
    }
}

#[test]
fn a_command_stops_in_time_if_both_its_watchdogs_are_frozen() {
    let bench = Bench::new();
    let (old, new) = (candidate("old"), candidate("new"));
    let mut leader = bench.script(&old, &[], PROCESS_TREE);
    let epoch = bench.next_epoch(0);
    let _follower = bench.script(&new, &[], BEAT);
    bench.wait_for_waiters(1);
    for guard in [Guard::First, Guard::Second] {
        kill(guard.pid(&leader, &old), SIGSTOP).unwrap();
    }
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.wait().code(), Some(0), "{}", leader.stderr());
    assert!(processes_of(&old).is_empty());
    bench.next_epoch(epoch);
    bench.assert_one_at_a_time();
}

#[test]
fn a_group_ends_with_its_killed_second_watchdog() {
    let bench = Bench::new();
    let id = candidate("leader");
    let mut leader = bench.script(&id, &["--once"], PROCESS_TREE);
    bench.next_epoch(0);
    kill(Guard::Second.pid(&leader, &id), SIGKILL).unwrap();
    assert_eq!(leader.wait().code(), Some(137), "{}", leader.stderr());
    assert!(processes_of(&id).is_empty());
}

#[test]
fn a_second_watchdog_survives_signals_to_its_group() {
    let bench = Bench::new();
    let id = candidate("herd");
    let script = r#"
        trap '' TERM HUP INT USR1
        kill -TERM 0; kill -HUP 0; kill -INT 0; kill -USR1 0
        sleep 0.3; exit 6"#;
    let mut run = bench.script(&id, &["--once"], script);
    assert_eq!(run.wait().code(), Some(6), "{}", run.stderr());
    assert!(processes_of(&id).is_empty());
}

#[test]
fn an_ended_term_leaves_no_process_and_no_zombie() {
    let bench = Bench::new();
    let id = candidate("tidy");
    let mut command = bench.command(&id, &[], &["sh", "-c", "(sleep 0.1 &); sleep 0.2; exit 3"]);
    let run = Process::spawn(command.env("TENURE_COOL_DOWN", "60s"));
    wait_for("the end of a term", || bench.ended_terms().pop());
    assert_eq!(descendants(run.pid()), [run.pid()]);
    assert!(processes_of(&id).is_empty());
}

#[test]
fn a_frozen_run_with_a_killed_watchdog_continues_as_a_candidate_when_it_resumes() {
    let bench = Bench::new();
    let id = candidate("again");
    let leader = bench.script(&id, &["--lease-duration", "2s"], PROCESS_TREE);
    let epoch = bench.next_epoch(0);
    let first = Guard::First.pid(&leader, &id);
    leader.signal(SIGSTOP);
    kill(first, SIGKILL).unwrap();
    wait_until_gone(&id);
    leader.signal(SIGCONT);
    bench.next_epoch(epoch);
    bench.assert_one_at_a_time();
}
