//! The comparison of real processes, as a user starts it.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::process::{Process, command, run};
use tenure_tests::wait_for;

/// A live comparison of three candidates whose temporary files are below this folder.
fn live(folder: &TempDir, arguments: &[&str]) -> Process {
    let mut command = command(&["compare", "--live", "--candidates", "3"]);
    Process::spawn(command.args(arguments).env("TMPDIR", folder.path()))
}

/// The living processes that have something of this folder among their arguments, or in their
/// environment: those that a leader starts have it there.
fn processes_below(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.to_str().unwrap();
    let is_below = |process: &PathBuf| {
        ["cmdline", "environ"].iter().any(|file| {
            let bytes = fs::read(process.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(folder)
        })
    };
    fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(is_below)
        .collect()
}

fn is_empty(folder: &TempDir) -> bool {
    folder.path().read_dir().unwrap().next().is_none()
}

#[test]
fn a_killed_leader_is_followed_by_another_one_and_two_never_act() {
    let folder = tempfile::tempdir().unwrap();
    let mut live = live(
        &folder,
        &[
            "--scenario",
            "kill-leader",
            "--contestant",
            "lease",
            "--contestant",
            "bully",
            "--json",
        ],
    );
    let status = live.wait();
    assert_eq!(status.code(), Some(0), "{}", live.stderr());
    let rows: Vec<Value> = serde_json::from_str(&live.stdout()).expect("an array of rows");
    let names: Vec<&str> = rows
        .iter()
        .flat_map(|row| row["contestant"].as_str())
        .collect();
    assert_eq!(names, ["lease", "bully"]);
    for row in &rows {
        assert_eq!(
            (&row["scenario"], &row["live"]),
            (&"kill-leader".into(), &true.into())
        );
        assert_eq!(
            (&row["seeds"], &row["never_led"]),
            (&1.into(), &0.into()),
            "{row}"
        );
        let number = |value: &Value| value.as_f64().unwrap();
        assert!(number(&row["first_leader"]["max"]) > 0.0, "{row}");
        // The killed leader can't say good-bye, so its term must run out.
        let without = number(&row["without_leader"]["max"]);
        assert!((0.5..60.0).contains(&without), "{row}");
        assert!(number(&row["terms"]) >= 2.0, "{row}");
        assert!(number(&row["writes_taken"]) > 100.0, "{row}");
        assert_eq!(row["writes_refused"], 0, "{row}");
        assert_eq!(
            (number(&row["two_act"]["max"]), &row["runs_with_two"]),
            (0.0, &0.into()),
            "{row}"
        );
        assert_eq!(row["without_leader_at_end"], 0, "{row}");
        assert!(number(&row["election_messages_per_minute"]) > 0.0, "{row}");
        assert!(number(&row["cpu_at_rest"]) > 0.0, "{row}");
    }
    assert!(
        live.stderr().contains("processes; none is left"),
        "{}",
        live.stderr()
    );
    assert_eq!(processes_below(folder.path()), Vec::<PathBuf>::new());
    assert!(is_empty(&folder));
}

#[test]
fn an_interrupted_comparison_leaves_no_process_not_even_a_frozen_one() {
    // Candidates, the store if there is one, and the leader's watchdog and command.
    for (strategy, processes, signals, codes) in [
        ("lease", 3 + 1 + 2, &[Signal::SIGINT][..], &[130][..]),
        // The second comes while the processes are ended, or both at once.
        (
            "bully",
            3 + 2,
            &[Signal::SIGINT, Signal::SIGTERM],
            &[130, 143],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut live = live(
            &folder,
            &["--scenario", "freeze-leader", "--contestant", strategy],
        );
        let is_frozen = |process: &PathBuf| {
            let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
            stat.contains(") T ")
        };
        wait_for("a frozen leader with all that it has started", || {
            let processes = processes_below(folder.path());
            (processes
                .iter()
                .filter(|process| is_frozen(process))
                .count()
                >= 3)
                .then_some(())
        });
        for &signal in signals {
            live.signal(signal);
        }
        let code = live.wait().code().expect("an exit code");
        assert!(codes.contains(&code), "{code}: {}", live.stderr());
        assert_eq!(processes_below(folder.path()), Vec::<PathBuf>::new());
        assert!(is_empty(&folder));
        // The kernel would end them, too, some time after this command has ended: so its own word counts.
        let said = live.stderr();
        let ended = said
            .split("ended ")
            .nth(1)
            .and_then(|it| it.split(' ').next());
        let ended: usize = ended.expect("how many").parse().expect("a number");
        assert!(ended >= processes, "{said}");
    }
}

#[test]
fn what_can_not_be_live_is_refused_before_anything_starts() {
    for (arguments, named) in [
        (&["--scenario", "clock-slow"][..], "kill-leader"),
        (
            &["--scenario", "kill-leder"],
            "did you mean \"kill-leader\"?",
        ),
        (
            &["--scenario", "part-minority", "--candidates", "3"],
            "--candidates 5",
        ),
        (&["--contestant", "textbook"], "bully-pull"),
        (&["--contestant", "bully-ring"], "bully-pull"),
        (&["--candidates", "2"], "3..=9"),
        (&["--seeds", "0..3"], "--live"),
        (
            &["--config", "/nonexistent/file.toml"],
            "/nonexistent/file.toml",
        ),
    ] {
        let output = run(&[&["compare", "--live"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
    }
}
