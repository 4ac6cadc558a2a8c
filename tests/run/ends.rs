//! The end of a run, and its exit code.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure_tests::needs::{can_run, output_of, skipped};
use tenure_tests::process::{output, run};
use tenure_tests::wait_for;

use super::{BEAT, Bench, ELECTION, candidate, processes_of, wait_until_gone};

fn code(command: &mut Command) -> Option<i32> {
    output(command).status.code()
}

#[test]
fn once_passes_the_exit_code_on_and_releases_the_lease() {
    let bench = Bench::new();
    for (script, expected) in [("exit 0", 0), ("exit 3", 3), ("exit 255", 255)] {
        let id = candidate("once");
        let program = ["sh", "-c", script];
        let ended = code(&mut bench.command(&id, &["--once"], &program));
        assert_eq!(ended, Some(expected), "{script}");
        assert_eq!(bench.status()["state"], "available");
        wait_until_gone(&id);
    }
}

#[test]
fn once_passes_the_exit_code_on_in_a_pid_namespace() {
    let test = "once_passes_the_exit_code_on_in_a_pid_namespace";
    let unshare = || {
        let mut command = Command::new("unshare");
        // The process group of the program stays that of this test, which the namespace lacks.
        command.args(["--pid", "--fork", "--mount-proc"]);
        command
    };
    let can_unshare = output_of(unshare().arg("true")).is_some();
    if !can_run(test, "namespaces of Linux (root)", can_unshare) {
        return;
    }
    let bench = Bench::new();
    for expected in [0, 3] {
        let script = format!("exit {expected}");
        let run = bench.command(&candidate("namespace"), &["--once"], &["sh", "-c", &script]);
        let mut command = unshare();
        command.arg(run.get_program()).args(run.get_args());
        for (name, value) in run.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        assert_eq!(code(&mut command), Some(expected));
        assert_eq!(bench.status()["state"], "available");
    }
}

#[test]
fn the_history_shows_why_a_candidate_ended_its_term() {
    let unhealthy = ["--health-command", "false"];
    for (flags, script, stop, reason) in [
        (&unhealthy[..], "exec sleep 60", None, "unhealthy"),
        (&[], "exit 7", None, "task_failed"),
        (&["--once"], "exit 0", None, "task_returned"),
        (&[], "exec sleep 60", Some(Signal::SIGTERM), "shut_down"),
    ] {
        let bench = Bench::new();
        let leader = bench.run(&candidate("shown"), flags, &["sh", "-c", script]);
        if let Some(signal) = stop {
            wait_for("a leader", || {
                (bench.status()["state"] == "leased").then_some(())
            });
            leader.signal(signal);
        }
        let ended = wait_for("the end of a term", || bench.ended_terms().pop());
        let shown = (ended["end"].as_str(), ended["reason"].as_str());
        assert_eq!(shown, (Some("released"), Some(reason)), "{ended}");
    }
}

#[test]
fn once_reports_the_signal_that_ended_the_command() {
    let bench = Bench::new();
    for (signal, expected) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let script = format!("kill -{signal} $$");
        let program = ["sh", "-c", &script];
        let ended = code(&mut bench.command(&candidate("signal"), &["--once"], &program));
        assert_eq!(ended, Some(expected), "{signal}");
    }
}

#[test]
fn once_reports_a_stop_before_its_term() {
    let bench = Bench::new();
    let _leader = bench.script(&candidate("leader"), &[], BEAT);
    bench.next_epoch(0);
    let waiting = candidate("waiting");
    let mut run = bench.run(&waiting, &["--once"], &["true"]);
    bench.wait_for_waiters(1);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.wait().code(), Some(75));
    bench.wait_for_waiters(0);
}

#[test]
fn once_reports_a_lost_leadership() {
    let bench = Bench::new();
    let id = candidate("broken");
    let mut leader = bench.script(&id, &["--once"], BEAT);
    bench.next_epoch(0);
    let url = bench.store.url();
    let broken = run(&["break", ELECTION, "--period", "1s", "--server", &url]);
    assert!(broken.status.success());
    assert_eq!(leader.wait().code(), Some(76), "{}", leader.stderr());
    assert!(processes_of(&id).is_empty());
}

#[test]
fn once_passes_the_exit_code_on_when_it_is_stopped() {
    let bench = Bench::new();
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done";
    let mut leader = bench.script(&candidate("stopped"), &["--once"], script);
    wait_for("the command", || {
        leader.stdout().contains("ready").then_some(())
    });
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.wait().code(), Some(9), "{}", leader.stderr());
}

/// Whether this process, and therefore its children, ignores SIGHUP.
pub(super) fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| {
        !mask
            .trim()
            .ends_with(['0', '2', '4', '6', '8', 'a', 'c', 'e'])
    })
}

#[test]
fn a_run_ends_with_exit_code_0_on_each_stop_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        if signal == Signal::SIGHUP && ignores_hangups() {
            skipped(
                "a_run_ends_with_exit_code_0_on_each_stop_signal, for SIGHUP",
                "it is ignored here, as under nohup, and `tenure run` keeps it ignored",
            );
            continue;
        }
        let bench = Bench::new();
        let id = candidate("stopped");
        let mut leader = bench.script(&id, &[], BEAT);
        bench.next_epoch(0);
        leader.signal(signal);
        assert_eq!(leader.wait().code(), Some(0), "{signal}");
        assert!(processes_of(&id).is_empty());
        assert_eq!(bench.status()["state"], "available");
    }
}

/// The limits are 5 s for a leader and 1 s for a follower. A busy machine adds some time; the lease
/// lasts for ten minutes.
#[test]
fn a_run_that_is_stopped_without_a_reachable_store_ends_within_seconds_however_long_the_lease_is() {
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let bench = Bench::new();
        let (id, other) = (candidate("alone"), candidate("other"));
        let flags = ["--lease-duration", "10m", "--stop-grace", "1s"];
        let mut leader = bench.script(&id, &flags, BEAT);
        bench.next_epoch(0);
        let mut follower = bench.script(&other, &flags, BEAT);
        bench.wait_for_waiters(1);
        bench.store.process.signal(signal);
        for (run, limit) in [(&mut follower, 1), (&mut leader, 5)] {
            let begin = Instant::now();
            run.signal(Signal::SIGTERM);
            assert_eq!(run.wait().code(), Some(0));
            let took = begin.elapsed();
            assert!(took < Duration::from_secs(limit + 3), "{limit}: {took:?}");
        }
        assert!(processes_of(&id).is_empty());
    }
}
