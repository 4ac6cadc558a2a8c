//! `tenure demo`.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::process::{Process, command, output, run};
use tenure_tests::wait_for;

/// Starts a demo with its temporary files below this directory.
fn demo(folder: &TempDir, arguments: &[&str]) -> Process {
    let mut command = command(&["demo", "--seconds", "12"]);
    Process::spawn(command.args(arguments).env("TMPDIR", folder.path()))
}

fn events(demo: &Process) -> Vec<Value> {
    let stdout = demo.stdout();
    let parse = |line| serde_json::from_str(line).expect("each line is JSON");
    stdout.lines().map(parse).collect()
}

fn wait_for_event(demo: &Process, name: &str) {
    wait_for(name, || {
        let seen = events(demo).iter().any(|event| event["event"] == name);
        seen.then_some(())
    });
}

/// The living processes with this directory in their arguments.
fn processes_below(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.to_str().unwrap();
    let is_below = |process: &PathBuf| {
        let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(folder)
    };
    fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(is_below)
        .collect()
}

fn wait_until_gone(folder: &TempDir) {
    wait_for("the demo's processes to be gone", || {
        processes_below(folder.path()).is_empty().then_some(())
    });
}

fn is_empty(folder: &TempDir) -> bool {
    folder.path().read_dir().unwrap().next().is_none()
}

#[test]
fn the_demo_prints_json_events_and_keeps_its_guarantees() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = demo(&folder, &["--json"]);
    wait_for_event(&demo, "failover");
    assert!(processes_below(folder.path()).len() >= 3);
    wait_for_event(&demo, "summary");
    let status = demo.wait();
    let events = events(&demo);
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert!(events.iter().all(|event| event["elapsed_ms"].is_u64()));
    assert_eq!(events[0]["event"], "started");
    assert_eq!((named("failover"), named("summary")), (3, 1));

    let summary = events.last().unwrap();
    assert_eq!(summary["event"], "summary");
    assert!(summary["terms"].as_u64().unwrap() >= 4, "{summary}");
    assert_eq!(summary["failovers_ms"].as_array().unwrap().len(), 3);
    assert_eq!(summary["overlap_ms"], 0, "{summary}");
    assert_eq!(summary["kept"], true, "{summary}");
    let refused = summary["refused_writes"].as_u64().unwrap();
    // The write of the frozen leader, unless it was frozen after the write.
    assert_eq!(refused > 0, named("refused") > 0, "{summary}");
    assert_eq!(status.code(), Some(0));
    assert!(processes_below(folder.path()).is_empty());
    assert!(is_empty(&folder));
}

#[test]
fn a_demo_among_peers_keeps_its_guarantees() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = demo(&folder, &["--json", "--strategy", "bully"]);
    wait_for_event(&demo, "leader");
    assert_eq!(processes_below(folder.path()).len(), 5, "workers alone");
    wait_for_event(&demo, "summary");
    let status = demo.wait();
    let events = events(&demo);
    let faults = events.iter().filter_map(|event| event["kind"].as_str());
    let faults: Vec<&str> = faults.collect();
    assert_eq!(faults, ["sigkill", "sigstop", "sigcont", "sigterm"]);

    let summary = events.last().unwrap();
    assert_eq!(summary["failovers_ms"].as_array().unwrap().len(), 3);
    assert_eq!(summary["overlap_ms"], 0, "{summary}");
    assert_eq!(summary["kept"], true, "{summary}");
    assert_eq!(status.code(), Some(0));
    assert!(processes_below(folder.path()).is_empty());
    assert!(is_empty(&folder));
}

#[test]
fn an_interrupted_demo_leaves_nothing_and_exits_with_the_code_of_the_signal() {
    for (signal, code, strategy) in [
        (Signal::SIGINT, 130, "lease"),
        (Signal::SIGINT, 130, "bully"),
        (Signal::SIGTERM, 143, "lease"),
        (Signal::SIGHUP, 129, "bully"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut demo = demo(&folder, &["--json", "--strategy", strategy]);
        wait_for_event(&demo, "leader");
        demo.signal(signal);
        assert_eq!(demo.wait().code(), Some(code), "{}", demo.stderr());
        assert!(processes_below(folder.path()).is_empty());
        assert!(is_empty(&folder), "{signal}");
        assert!(!demo.stdout().contains("summary"));
    }
}

#[test]
fn a_killed_demo_leaves_no_processes() {
    for event in ["started", "leader", "fault"] {
        let folder = tempfile::tempdir().unwrap();
        let mut demo = demo(&folder, &["--json"]);
        wait_for_event(&demo, event);
        demo.signal(Signal::SIGKILL);
        demo.wait();
        wait_until_gone(&folder);
    }
}

#[test]
fn an_impossible_demo_is_refused_before_anything_starts() {
    for (flag, value) in [
        ("--workers", "0"),
        ("--workers", "1"),
        ("--workers", "21"),
        ("--workers", "many"),
        ("--seconds", "0"),
        ("--seconds", "9"),
        ("--seconds", "3601"),
        ("--seconds", "12s"),
        ("--strategy", "static"),
    ] {
        let output = run(&["demo", &format!("{flag}={value}")]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(flag) && said.contains(value), "{said}");
    }
}

#[test]
fn a_demo_without_a_temporary_directory_reports_it() {
    let mut command = command(&["demo", "--seconds", "12"]);
    let output = output(command.env("TMPDIR", "/nonexistent/folder"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/nonexistent/folder"), "{said}");
}
