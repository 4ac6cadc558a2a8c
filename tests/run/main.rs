//! `tenure run`: real commands, a real store, and faults of both.

mod commands;
mod ends;
mod faults;
mod group;
mod names;
mod signals;
mod terms;
mod watchdogs;
mod wrong;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::process::{Process, StoreProcess, command, run};
use tenure_tests::wait_for;

/// The election of the tests.
const ELECTION: &str = "tests/job";

/// The lease duration of the tests: the stop grace is 400 ms of it, the renew deadline a second.
const LEASE: Duration = Duration::from_millis(1500);

/// Writes its epoch again and again, so that an overlap would be visible.
const BEAT: &str = r#"while :; do echo "$TENURE_EPOCH" >> "$0"; sleep 0.02; done"#;

/// The same, ignoring SIGTERM.
const STUBBORN_BEAT: &str =
    r#"trap '' TERM; while :; do echo "$TENURE_EPOCH" >> "$0"; sleep 0.02; done"#;

/// A store, and a folder for the output of commands.
struct Bench {
    folder: TempDir,
    store: StoreProcess,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreProcess::start(&folder.path().join("store"));
        Self { folder, store }
    }

    /// `tenure run` in the tests' election, with these flags and this command.
    fn command(&self, candidate: &str, flags: &[&str], program: &[impl AsRef<OsStr>]) -> Command {
        let mut command = command(&["run", "--election", ELECTION, "--candidate", candidate]);
        if !flags.contains(&"--server") {
            command.args(["--server", &self.store.url()]);
        }
        if !flags.contains(&"--lease-duration") {
            command.args(["--lease-duration", &format!("{}ms", LEASE.as_millis())]);
        }
        command.env("TENURE_COOL_DOWN", "300ms");
        command.args(flags).arg("--").args(program);
        command
    }

    fn run(&self, candidate: &str, flags: &[&str], program: &[impl AsRef<OsStr>]) -> Process {
        Process::spawn(&mut self.command(candidate, flags, program))
    }

    /// A candidate that runs this script as its command; `$0` is the journal.
    fn script(&self, candidate: &str, flags: &[&str], script: &str) -> Process {
        let journal = self.journal_path();
        self.run(
            candidate,
            flags,
            &["sh", "-c", script, journal.to_str().unwrap()],
        )
    }

    fn journal_path(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// The complete lines in the journal.
    fn journal(&self) -> Vec<String> {
        let text = fs::read_to_string(self.journal_path()).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(str::to_owned).collect()
    }

    /// The epochs in the journal, which [`BEAT`] has written.
    fn beats(&self) -> Vec<u64> {
        let journal = self.journal();
        journal.iter().map(|line| line.parse().unwrap()).collect()
    }

    /// Waits for the first line of an epoch above this one, and returns the epoch.
    fn next_epoch(&self, after: u64) -> u64 {
        wait_for("the next leader's command", || {
            self.beats().into_iter().find(|epoch| *epoch > after)
        })
    }

    /// Fails if an old leader wrote after a new one.
    fn assert_one_at_a_time(&self) {
        let beats = self.beats();
        assert!(
            beats.is_sorted(),
            "overlapping commands: {:?}",
            beats.windows(2).find(|pair| pair[0] > pair[1])
        );
    }

    /// The output of `tenure status` for the election.
    fn status(&self) -> Value {
        let output = run(&["status", ELECTION, "--json", "--server", &self.store.url()]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// The ended terms in the output of `tenure history`.
    fn ended_terms(&self) -> Vec<Value> {
        let output = run(&["history", ELECTION, "--json", "--server", &self.store.url()]);
        let history: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let terms = history["terms"].as_array().cloned().unwrap_or_default();
        terms
            .into_iter()
            .filter(|term| !term["end"].is_null())
            .collect()
    }

    /// Waits until the lease has this number of waiters.
    fn wait_for_waiters(&self, count: u64) {
        wait_for("waiters", || {
            (self.status()["waiters"] == count).then_some(())
        });
    }
}

/// A unique candidate id.
fn candidate(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{number}", std::process::id())
}

/// The running processes of a candidate's commands, including watchdogs.
fn processes_of(candidate: &str) -> Vec<i32> {
    let wanted = format!("TENURE_CANDIDATE={candidate}");
    let of_candidate = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(of_candidate)
        .collect()
}

/// Waits until no process of a candidate's commands is left.
fn wait_until_gone(candidate: &str) {
    wait_for("the end of all processes of the command", || {
        processes_of(candidate).is_empty().then_some(())
    });
}
