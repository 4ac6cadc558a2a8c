//! Signals to `tenure run`: those that stop it, and those that are for its command.

use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_tests::process::is_alive;
use tenure_tests::wait_for;

use super::{BEAT, Bench, STUBBORN_BEAT, candidate, processes_of};

/// The signals that services use for more than their end.
const FOR_COMMANDS: [Signal; 5] = [
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGQUIT,
    Signal::SIGWINCH,
];

/// Prints each signal that it gets, and its process id; ends at SIGTERM.
const LISTEN: &str = r#"for it in USR1 USR2 ALRM QUIT WINCH HUP INT; do trap "echo got SIG$it" $it; done
    trap 'echo got SIGTERM; exit 0' TERM
    echo "pid $$"
    while :; do sleep 0.02; done"#;

#[test]
fn signals_for_the_command_reach_its_first_process_and_the_term_goes_on() {
    let bench = Bench::new();
    let mut run = bench.script(&candidate("signals"), &[], LISTEN);
    let pid = wait_for("the command", || {
        let shown = run.stdout();
        shown
            .lines()
            .find_map(|line| line.strip_prefix("pid ").map(str::to_owned))
    });
    wait_for("the log", || {
        let started = format!("pid={pid}");
        let logged = run.stderr();
        let mut lines = logged.lines();
        lines
            .find(|line| line.contains("command started") && line.contains(&started))
            .map(drop)
    });
    for signal in FOR_COMMANDS {
        run.signal(signal);
        wait_for(signal.as_str(), || {
            assert!(!run.has_ended(), "{signal}: {}", run.stderr());
            run.stdout()
                .contains(&format!("got {signal}"))
                .then_some(())
        });
    }
    assert_eq!(bench.status()["state"], "leased");
    assert_eq!(run.stdout().matches("pid").count(), 1, "one term");
    run.signal(Signal::SIGTERM);
    assert_eq!(run.wait().code(), Some(0));
    assert!(run.stdout().contains("got SIGTERM"), "{}", run.stdout());
}

#[test]
fn signals_for_the_command_are_harmless_while_no_command_runs() {
    let bench = Bench::new();
    let mut leader = bench.script(&candidate("leader"), &[], BEAT);
    let epoch = bench.next_epoch(0);
    let mut follower = bench.script(&candidate("follower"), &[], BEAT);
    bench.wait_for_waiters(1);
    for signal in FOR_COMMANDS {
        follower.signal(signal);
    }
    leader.signal(Signal::SIGTERM);
    leader.wait();
    bench.next_epoch(epoch);
    assert!(!follower.has_ended(), "{}", follower.stderr());
}

#[test]
fn a_second_stop_signal_kills_the_command_and_leaves_the_lease_to_expire() {
    for (first, second) in [
        (Signal::SIGTERM, Signal::SIGTERM),
        (Signal::SIGHUP, Signal::SIGINT),
    ] {
        let bench = Bench::new();
        let id = candidate("impatient");
        let flags = ["--lease-duration", "60s"];
        let mut run = bench.script(&id, &flags, STUBBORN_BEAT);
        bench.next_epoch(0);
        if first == Signal::SIGHUP && super::ends::ignores_hangups() {
            continue;
        }
        // As `timeout` does: a signal for its child, and one for the group of its child. They arrive
        // together, however slow this machine is.
        run.signal(Signal::SIGSTOP);
        run.signal(first);
        run.signal(second);
        run.signal(Signal::SIGCONT);
        wait_for("the request to stop", || {
            run.stderr().contains("stopping the command").then_some(())
        });
        // A terminal that closes may send more than one.
        run.signal(Signal::SIGHUP);
        std::thread::sleep(Duration::from_millis(200));
        assert!(!run.has_ended(), "{}", run.stderr());
        // The stop grace is 16 s.
        run.end_by_second(second);
        assert!(processes_of(&id).is_empty());
        assert_eq!(bench.status()["state"], "leased");
    }
}

#[test]
fn the_stop_signal_of_the_settings_replaces_sigterm() {
    for (flags, variable) in [
        (&["--stop-signal", "sigquit"][..], None),
        (&["--stop-signal", "3"], Some("INT")),
        (&[], Some("QUIT")),
    ] {
        let bench = Bench::new();
        let script =
            "trap 'exit 9' QUIT; trap '' TERM INT; echo ready; while :; do sleep 0.02; done";
        let flags = [flags, &["--once"]].concat();
        let mut command = bench.command(&candidate("stopped"), &flags, &["sh", "-c", script]);
        if let Some(name) = variable {
            command.env("TENURE_STOP_SIGNAL", name);
        }
        let mut run = tenure_tests::process::Process::spawn(&mut command);
        wait_for("the command", || {
            run.stdout().contains("ready").then_some(())
        });
        run.signal(Signal::SIGTERM);
        assert_eq!(run.wait().code(), Some(9), "{flags:?}: {}", run.stderr());
    }
}

#[test]
fn processes_that_a_command_has_left_get_its_stop_signal() {
    let bench = Bench::new();
    let script = r#"(trap 'echo asked >> "$0"; exit' USR1; trap '' TERM; echo up >> "$0"
        while :; do sleep 0.02; done) &
        until [ -s "$0" ]; do sleep 0.02; done"#;
    let flags = ["--once", "--stop-signal", "USR1"];
    let mut run = bench.script(&candidate("leftover"), &flags, script);
    assert_eq!(run.wait().code(), Some(0), "{}", run.stderr());
    assert_eq!(bench.journal(), ["up", "asked"]);
    assert!(!is_alive(run.pid().as_raw()));
}
