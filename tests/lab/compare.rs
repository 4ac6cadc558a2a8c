//! `tenure-lab compare`: in simulated time and with real processes.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::process::{Process, lab, run_lab};
use tenure_tests::wait_for;

/// Starts a live comparison of three candidates with its temporary files below this directory.
fn live(folder: &TempDir, arguments: &[&str]) -> Process {
    let mut command = lab(&["compare", "--live", "--candidates", "3"]);
    // Without a name it starts the program beside it.
    if let Some(tenure) = std::env::var_os("TENURE_TEST_BINARY") {
        command.arg("--tenure").arg(tenure);
    }
    Process::spawn(command.args(arguments).env("TMPDIR", folder.path()))
}

/// The living processes with this directory in their arguments or in their environment, as the
/// processes that a leader starts have it.
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

/// Waits until the leader and all its descendants are frozen.
fn wait_for_frozen(folder: &TempDir) {
    let is_frozen = |process: &PathBuf| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        stat.contains(") T ")
    };
    wait_for("a frozen leader with its descendants", || {
        let processes = processes_below(folder.path());
        let frozen = processes.iter().filter(|process| is_frozen(process));
        (frozen.count() >= 3).then_some(())
    });
}

/// The names of the figures of a run: fields, columns of the wide table, columns of the page.
const FIGURES: &[(&str, &str, &str)] = &[
    ("detection_time", "DETECTION", "detection time, s"),
    ("first_leader", "FIRST LEADER", "first leader, s"),
    (
        "without_leader",
        "NO LEADER: MEDIAN",
        "no leader: median, s",
    ),
    ("without_leader", "P99", "no leader: p99"),
    ("without_leader", "MAX", "no leader: max"),
    ("overlap", "OVERLAP: RUNS", "overlap: max, s"),
    ("overlap", "LONGEST OVERLAP", "overlap: max, s"),
    ("writes_refused", "STALE WRITES", "stale, refused"),
    ("flaps", "FLAPS", "flaps"),
    (
        "messages_per_election",
        "ELECTION: MESSAGES",
        "messages/election",
    ),
    ("bytes_per_election", "KB", "kB/election"),
    ("messages_at_rest", "MESSAGES/MIN", "messages/min at rest"),
    ("bytes_at_rest", "KB/MIN", "kB/min at rest"),
    ("cpu_at_rest", "CPU AT REST", "CPU at rest, %"),
];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_killed_leader_is_followed_by_another_one_without_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let pages = tempfile::tempdir().unwrap();
    let page = pages.path().join("report.html");
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
            "--report",
            page.to_str().unwrap(),
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
        assert!(number(&row["first_leader"]["max"]) > 0.0, "{row}");
        // The killed leader can't release its lease, which must expire.
        let without = number(&row["without_leader"]["max"]);
        assert!((0.1..60.0).contains(&without), "{row}");
        assert!(number(&row["terms"]) >= 2.0, "{row}");
        assert!(number(&row["flaps"]) >= 1.0, "{row}");
        assert!(number(&row["writes_taken"]) > 100.0, "{row}");
        assert_eq!(row["writes_refused"], 0, "{row}");
        assert_eq!(
            (number(&row["overlap"]["max"]), &row["runs_with_overlap"]),
            (0.0, &0.into()),
            "{row}"
        );
        assert_eq!(row["without_leader_at_end"], 0, "{row}");
        for figure in [
            "messages_per_election",
            "bytes_per_election",
            "messages_at_rest",
            "bytes_at_rest",
            "cpu_at_rest",
        ] {
            assert!(number(&row[figure]) > 0.0, "{figure}: {row}");
        }
    }
    let html = fs::read_to_string(&page).unwrap();
    // A single run has no percentiles.
    for (_, _, column) in FIGURES.iter().filter(|(_, column, _)| *column != "P99") {
        assert!(html.contains(&format!("<th>{column}</th>")), "{column}");
    }
    // Plots of the time without a leader, of the leaders over time, and of the cost.
    assert_eq!(html.matches("<svg").count(), 3);
    assert!(html.contains("Live: 3 candidates") && html.contains("% of a processor"));
    assert!(!html.contains("Messages according to the papers"));
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
    // Candidates, the store if there is one, and the leader's two watchdogs and its command.
    for (strategy, processes, signals, codes) in [
        ("lease", 3 + 1 + 3, &[Signal::SIGINT][..], &[130][..]),
        // The second signal arrives while the processes are being killed, or both at once.
        (
            "bully",
            3 + 3,
            &[Signal::SIGINT, Signal::SIGTERM],
            &[130, 143],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--scenario", "freeze-leader", "--contestant", strategy];
        let mut live = live(&folder, &arguments);
        wait_for_frozen(&folder);
        for &signal in signals {
            live.signal(signal);
        }
        let code = live.wait().code().expect("an exit code");
        assert!(codes.contains(&code), "{code}: {}", live.stderr());
        assert_eq!(processes_below(folder.path()), Vec::<PathBuf>::new());
        assert!(is_empty(&folder));
        // The kernel also kills them, some time after the end of this command. So the test checks
        // the count that the command prints.
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
fn a_restart_loop_hits_the_leader_and_the_settings_are_summarised() {
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mine = files.path().join("mine.toml");
    fs::write(&mine, "election = \"a/b\"\nlease_duration = \"2s\"\n").unwrap();
    let mine = mine.to_str().unwrap();
    let arguments = ["--wide", "--scenario", "restart-loop", "--config", mine];
    let mut live = live(&folder, &arguments);
    assert_eq!(live.wait().code(), Some(0), "{}", live.stderr());
    let said = live.stdout();
    let cells = |line: &str| {
        let cells = line.split("  ").map(|cell| cell.trim().to_owned());
        cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    let mut lines = said.lines();
    let columns = cells(lines.nth(1).expect("a head"));
    let row = cells(lines.next().expect("a row"));
    for (_, column, _) in FIGURES.iter().filter(|(_, column, _)| *column != "P99") {
        assert!(columns.contains(&(*column).to_owned()), "{column}: {said}");
    }
    let flaps = columns.iter().position(|column| column == "FLAPS");
    let flaps: f64 = row[flaps.unwrap()].parse().expect("a number");
    assert!(flaps >= 1.0, "{said}");
    assert_summary(
        &said,
        mine,
        &[
            "guarantee: one leader at a time",
            "no leader after a crash: at most 2.0 s by its settings",
            "longest time without a leader: ",
            "% of a processor",
            "no overlap",
            "use it where a store is available",
        ],
    );
}

/// Checks that the summary of these settings has all these parts.
fn assert_summary(said: &str, name: &str, parts: &[&str]) {
    let summary = said.split("\n\n").find(|part| part.starts_with(name));
    let summary = summary.unwrap_or_else(|| panic!("no summary of {name}: {said}"));
    // Long lines wrap.
    let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(summary.contains(part), "{part}: {summary}");
    }
}

#[test]
fn a_simulated_comparison_ends_with_a_summary_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("election = \"a/b\"\n{text}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let peers = |count: u32| {
        let peers = (1..=count).map(|node| format!("\"{node}=http://10.0.0.{node}:7500\""));
        let peers: Vec<String> = peers.collect();
        format!(
            "strategy = \"bully\"\n[bully]\nnode = 1\npeers = [{}]\n",
            peers.join(", ")
        )
    };
    let lease = file("lease.toml", "lease_duration = \"9s\"\n");
    let quorum = file("quorum.toml", &peers(3));
    let pair = file("pair.toml", &peers(2));
    let both = file("both.toml", &peers(3).replace("\"bully\"", "\"both\""));
    let output = run_lab(&[
        "compare",
        "--seeds",
        "0..3",
        "--scenario",
        "kill-leader",
        "--scenario",
        "cut-leader",
        "--config",
        &lease,
        "--config",
        &quorum,
        "--config",
        &pair,
        "--config",
        &both,
    ]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_summary(
        &said,
        &lease,
        &[
            "no leader after a crash: at most 9.0 s by its settings; measured: ",
            "messages and ",
            "no overlap",
            "use it where a store is available",
        ],
    );
    assert_summary(
        &said,
        &quorum,
        &[
            "no leader without a majority",
            "no overlap",
            "use it where no store is available",
            "its file names 3 members; 5 were compared",
        ],
    );
    assert_summary(&said, &both, &["no overlap"]);
    assert_summary(
        &said,
        &pair,
        &["best effort", "two leaders overlapped in: cut-leader"],
    );
}

#[test]
fn churn_has_a_row_for_each_algorithm_and_size_and_a_plot() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("churn.svg");
    let flags = ["compare", "churn", "--members", "3,5", "--seeds", "0..1"];
    let more = ["--contestant", "bully", "--contestant", "published"];
    let file = ["--json", "--plot", plot.to_str().unwrap()];
    let output = run_lab(&[&flags[..], &more, &file].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let share = |name: &str| row[name].as_f64().unwrap();
        assert!(
            share("agreed_percent") <= share("led_percent") + 1e-9,
            "{row}"
        );
        assert!(
            row["contestant"] != "bully" || share("overlap_percent") == 0.0,
            "{row}"
        );
    }
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));
}
