//! The processes that the command starts: its whole group ends with it.

use std::fs;

use nix::sys::signal::Signal;
use tenure_tests::process::output;
use tenure_tests::wait_for;

use super::{BEAT, Bench, candidate, processes_of, wait_until_gone};

#[test]
fn background_processes_do_not_survive_the_command() {
    let bench = Bench::new();
    let id = candidate("background");
    let script = "sleep 1000 & (sh -c 'sleep 1001' &) ; exit 5";
    let mut run = bench.script(&id, &["--once"], script);
    assert_eq!(run.wait().code(), Some(5));
    assert!(processes_of(&id).is_empty());
}

#[test]
fn background_processes_have_time_to_end_before_they_are_killed() {
    let bench = Bench::new();
    let id = candidate("polite");
    let script = r#"
        (trap 'sleep 0.1; echo ended >> "$0"; exit' TERM; echo ready >> "$0"; while :; do sleep 0.01; done) &
        while ! [ -e "$0" ]; do sleep 0.01; done"#;
    let mut run = bench.script(&id, &["--once"], script);
    assert_eq!(run.wait().code(), Some(0));
    assert_eq!(bench.journal(), ["ready", "ended"]);
}

#[test]
fn background_processes_that_ignore_sigterm_are_killed() {
    let bench = Bench::new();
    let id = candidate("stubborn");
    let script = r#"
        (trap '' TERM; echo ready >> "$0"; sleep 1000) &
        while ! [ -e "$0" ]; do sleep 0.01; done"#;
    let mut run = bench.script(&id, &["--once"], script);
    assert_eq!(run.wait().code(), Some(0));
    assert!(processes_of(&id).is_empty());
}

#[test]
fn background_processes_end_with_a_run_that_is_killed_during_their_stop_grace() {
    let bench = Bench::new();
    let id = candidate("grace");
    let script = r#"
        (trap 'echo asked >> "$0"' TERM; while :; do sleep 0.01; done) &
        sleep 0.2"#;
    let mut run = bench.script(&id, &["--once"], script);
    wait_for("the stop grace of the background process", || {
        (bench.journal() == ["asked"]).then_some(())
    });
    run.signal(Signal::SIGKILL);
    run.wait();
    wait_until_gone(&id);
}

#[test]
fn background_processes_of_a_run_that_is_frozen_in_their_stop_grace_end_before_another_leads() {
    let bench = Bench::new();
    let (first, second) = (candidate("first"), candidate("second"));
    let script = r#"
        (trap 'touch "$0.asked"' TERM; while :; do echo "$TENURE_EPOCH" >> "$0"; sleep 0.02; done) &
        while ! [ -s "$0" ]; do sleep 0.01; done"#;
    // Longer than the stop grace: they end before the end of the term.
    let leader = bench.script(&first, &["--lease-duration", "6s"], script);
    let epoch = bench.next_epoch(0);
    let _follower = bench.script(&second, &[], BEAT);
    wait_for("the stop grace of the background process", || {
        bench
            .folder
            .path()
            .join("journal.asked")
            .exists()
            .then_some(())
    });
    leader.signal(Signal::SIGSTOP);
    bench.next_epoch(epoch);
    assert!(processes_of(&first).is_empty());
    leader.signal(Signal::SIGKILL);
    bench.assert_one_at_a_time();
}

#[test]
fn all_descendants_end_when_the_run_is_stopped() {
    let bench = Bench::new();
    let id = candidate("family");
    let script = "sh -c 'sleep 1000; true' & sh -c 'sh -c \"sleep 1001; true\"; true' & wait";
    let mut run = bench.script(&id, &[], script);
    // Two watchdogs, a shell, two shells with a sleep each, and one in between.
    wait_for("all descendants", || {
        (processes_of(&id).len() == 8).then_some(())
    });
    run.signal(Signal::SIGTERM);
    assert!(run.wait().success());
    assert!(processes_of(&id).is_empty());
}

#[test]
fn orphans_of_a_long_command_are_collected_while_it_runs() {
    let bench = Bench::new();
    let id = candidate("orphans");
    let script =
        r#"for i in 1 2 3 4 5; do (sleep 0.05 &) ; done; sleep 0.1; echo over >> "$0"; sleep 60"#;
    let run = bench.script(&id, &[], script);
    wait_for("the end of the orphans", || {
        (bench.journal() == ["over"]).then_some(())
    });
    let watchers: Vec<i32> = processes_of(&id)
        .into_iter()
        .chain([run.pid().as_raw()])
        .collect();
    wait_for("the collection of the orphans", || {
        let zombies = zombies_below(&watchers);
        (zombies == 0).then_some(())
    });
}

#[test]
fn a_command_may_signal_its_own_group() {
    let bench = Bench::new();
    let program = [
        "sh",
        "-c",
        "trap '' USR1 HUP; kill -USR1 0; kill -HUP 0; exit 6",
    ];
    let mut command = bench.command(&candidate("herd"), &["--once"], &program);
    let output = output(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{stderr}");
}

fn zombies_below(parents: &[i32]) -> usize {
    let is_zombie = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        let mut fields = after_name.split(' ');
        let zombie = fields.next() == Some("Z");
        let parent = fields.next().and_then(|parent| parent.parse().ok());
        zombie && parent.is_some_and(|parent| parents.contains(&parent))
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| is_zombie(*pid))
        .count()
}
