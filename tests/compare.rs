//! `tenure-lab compare`: in simulated time and with real processes.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

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
        assert!((0.5..60.0).contains(&without), "{row}");
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
fn a_killed_comparison_leaves_no_processes() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--scenario", "freeze-leader", "--contestant", "lease"];
    let mut live = live(&folder, &arguments);
    wait_for_frozen(&folder);
    live.signal(Signal::SIGKILL);
    let _ = live.wait();
    wait_for("the end of all processes, frozen or not", || {
        processes_below(folder.path()).is_empty().then_some(())
    });
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
fn every_figure_is_in_every_form_of_output() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let page = page.to_str().unwrap();
    let few = [
        "compare",
        "--seeds",
        "0..100",
        "--contestant",
        "lease",
        "--scenario",
        "kill-leader",
    ];
    let out = |more: &[&str]| {
        let output = run_lab(&[&few, more].concat());
        assert_eq!(output.status.code(), Some(0), "{more:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let table = out(&["--wide", "--report", page]);
    let narrow = out(&[]);
    assert!(narrow.lines().all(|line| line.len() <= 100), "{narrow}");
    let rows: Vec<Value> = serde_json::from_str(&out(&["--json"])).unwrap();
    let csv = out(&["--csv"]);
    let head = csv.lines().next().unwrap();
    let html = fs::read_to_string(page).unwrap();
    for (field, column, of_page) in FIGURES {
        assert!(rows[0].get(field).is_some(), "{field}: {}", rows[0]);
        assert!(head.contains(field), "{field}: {head}");
        // Simulated runs use no processor time.
        let is_simulated = *field != "cpu_at_rest";
        let is_on_page = html.contains(&format!("<th>{of_page}</th>"));
        assert_eq!(is_on_page, is_simulated, "{of_page}");
        assert_eq!(table.contains(column), is_simulated, "{column}: {table}");
    }
    for line in csv.lines() {
        let (columns, cells) = (head.split(','), line.split(','));
        assert_eq!(cells.clone().count(), columns.clone().count(), "{line}");
        for (column, cell) in columns.zip(cells) {
            let is_measured = column != "cpu_at_rest_percent";
            assert!(!cell.is_empty() || !is_measured, "{column}: {line}");
        }
    }
}

/// The cells of the row of a contestant in the first table of the command.
fn cells_of<'a>(said: &'a str, contestant: &str) -> Vec<&'a str> {
    let row = said.lines().find(|line| line.starts_with(contestant));
    let row = row.unwrap_or_else(|| panic!("no row of {contestant}: {said}"));
    row.split("  ")
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect()
}

#[test]
fn the_narrow_table_has_the_columns_that_decide_and_ends_with_a_sentence_for_each_contestant() {
    let out = |more: &[&str]| {
        let freeze = ["compare", "--seeds", "0..3", "--scenario", "freeze-leader"];
        let output = run_lab(&[&freeze[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{more:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let said = out(&[]);
    assert!(said.lines().all(|line| line.len() <= 100), "{said}");
    let head = said.lines().nth(1).unwrap();
    let columns = [
        "CONTESTANT",
        "DETECTION",
        "NO LEADER: MEDIAN",
        "MAX",
        "LONGEST OVERLAP",
        "MESSAGES/MIN",
    ];
    assert_eq!(cells_of(head, "CONTESTANT"), columns);
    // The task of a frozen leader runs on for a moment, and receivers refuse its writes.
    let lease = cells_of(&said, "lease");
    assert_eq!((lease[1], lease[4]), ("15", "0.10*"), "{said}");
    let older = cells_of(&said, "published");
    assert_eq!(older[1], "1.5", "{said}");
    assert!(
        !older[4].ends_with('*') && older[4].parse::<f64>().unwrap() > 10.0,
        "{said}"
    );
    let (_, sentences) = said.split_once("In one sentence each:\n").unwrap();
    for name in ["lease", "bully", "bully-no-quorum", "published", "textbook"] {
        let sentence = sentences
            .lines()
            .filter(|it| it.starts_with(&format!("{name}: ")));
        assert_eq!(sentence.count(), 1, "{name}: {sentences}");
    }
    let words: Vec<&str> = sentences.split_whitespace().collect();
    let refused = "the receiver refuses its writes by their epoch";
    assert!(words.join(" ").contains(refused), "{sentences}");
    // With equal settings the times without a leader are alike.
    let equal = out(&["--detection-time", "3"]);
    for name in ["lease", "bully", "bully-no-quorum", "published"] {
        let cells = cells_of(&equal, name);
        assert_eq!(cells[1], "3", "{name}: {equal}");
        let median: f64 = cells[2].parse().unwrap();
        assert!((1.0..6.0).contains(&median), "{name}: {equal}");
    }
}

#[test]
fn no_line_of_the_text_is_wider_than_100_columns() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder
        .path()
        .join("the-settings-of-a-group-that-has-a-long-name.toml");
    let peers = (1..=3).map(|node| format!("\"{node}=http://10.0.0.{node}:7500\""));
    let peers = peers.collect::<Vec<_>>().join(", ");
    let text =
        format!("election = \"a/b\"\nstrategy = \"both\"\n[bully]\nnode = 1\npeers = [{peers}]\n");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let long_names = "--contestant bully-on-demand-no-quorum --contestant garcia-molina-at-once";
    for arguments in [
        "--list",
        "--seeds 0..1",
        "--seeds 0..1 --scenario store-all-at-once --contestant lease --contestant fallback-k1",
        "--seeds 0..1 --scenario kill-leader --contestant lease --config FILE",
        "--seeds 0..1 --scenario flaky --contestant textbook",
        &format!("--seeds 0..1 --scenario freeze-leader {long_names}"),
        &format!("timing --seeds 0..1 --detection-time 5 --detection-time 60 {long_names}"),
        "timing --seeds 0..1 --detection-time 5 --contestant lease --config FILE",
        &format!("churn --seeds 0..1 --members 3 {long_names}"),
        "check --seeds 0..2",
        "check --seeds 0..1 --script all",
        "links",
        "links --graph complete --nodes 64 --draw --up-to 16",
        "links --graph line --nodes 64 --draw --up-to 0 --initiators third --delay heavy-tailed",
        "links --graph grid --nodes 2048 --faulty 900 --seed 18446744073709551615 --up-to 0",
        "links --graph ring --nodes 16 --faulty 5 --anywhere --domain 16",
    ] {
        let words = arguments
            .split(' ')
            .map(|word| if word == "FILE" { file } else { word });
        let output = run_lab(&[vec!["compare"], words.collect()].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments}");
        let said = String::from_utf8(output.stdout).unwrap();
        // A command to copy and the name of a file stay whole.
        let wide = said.lines().filter(|line| {
            let is_whole = line.contains("tenure-lab compare check --") || line.starts_with(file);
            line.chars().count() > 100 && !is_whole
        });
        let wide: Vec<&str> = wide.collect();
        assert!(wide.is_empty(), "{arguments}: {wide:#?}");
    }
}

#[test]
fn one_seed_and_one_detection_time_are_in_the_singular() {
    let few = [
        "compare",
        "timing",
        "--seeds",
        "0..1",
        "--detection-time",
        "5",
    ];
    let output = run_lab(&[&few[..], &["--contestant", "lease"]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("; 1 seed, medians.\n"), "{said}");
    assert!(
        said.contains("lease: with a detection time of 5 s no leader for "),
        "{said}"
    );
    let output = run_lab(&[
        "compare",
        "check",
        "--seeds",
        "0..1",
        "--contestant",
        "lease",
    ]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("lease: 0 violations in 1 seed ("),
        "{said}"
    );
}

#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    let arguments = ["compare", "--seeds", "0..3", "--scenario", "kill-leader"];
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut on_terminal = lab(&arguments);
    on_terminal.stdout(Stdio::null()).stderr(terminal.slave);
    let mut started = on_terminal.spawn().unwrap();
    // This process must not keep the terminal open.
    drop(on_terminal);
    let mut shown = Vec::new();
    // The end of a terminal is an error.
    let _ = fs::File::from(terminal.master).read_to_end(&mut shown);
    assert!(started.wait().unwrap().success());
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("/21 runs"), "{shown}");
    let elsewhere = run_lab(&arguments);
    assert!(elsewhere.stderr.is_empty(), "{:?}", elsewhere.stderr);
}

#[test]
fn strategies_are_compared_at_the_same_detection_times() {
    let out = |more: &[&str]| {
        let few = [
            "compare",
            "timing",
            "--seeds",
            "0..3",
            "--contestant",
            "lease",
        ];
        let output = run_lab(&[&few[..], &["--contestant", "bully-no-quorum"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{more:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let table = out(&[]);
    assert!(table.lines().all(|line| line.len() <= 100), "{table}");
    for part in [
        "all with a detection time of 5 s\n",
        "lease over its detection time\n",
        "bully-no-quorum over its detection time\n",
        "lease: with detection times of 1 to 60 s no leader for ",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let points: Vec<Value> = serde_json::from_str(&out(&["--json"])).unwrap();
    assert_eq!(points.len(), 2 * 8);
    let short = [
        "--json",
        "--detection-time",
        "2",
        "--pause",
        "1500ms",
        "--loss",
        "90s",
    ];
    let points: Vec<Value> = serde_json::from_str(&out(&short)).unwrap();
    for point in &points {
        assert_eq!(number(&point["detection_time"]), 2.0);
        assert_eq!(
            (number(&point["pause"]), number(&point["loss"])),
            (1.5, 90.0)
        );
        assert_eq!(
            number(&point["false_elections_loss_percent"]),
            100.0,
            "{point}"
        );
    }
    let csv = out(&["--csv", "--detection-time", "2"]);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    for row in lines {
        assert_eq!(row.len(), head.len(), "{csv}");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{csv}");
    }
}

#[test]
fn runs_that_flood_are_marked_in_every_form_of_output() {
    let out = |more: &[&str]| {
        let flaky = ["compare", "--scenario", "flaky", "--contestant", "textbook"];
        let output = run_lab(&[&flaky[..], &["--seeds", "0..2"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{more:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let table = out(&[]);
    let row = table.lines().find(|line| line.starts_with("textbook"));
    assert_eq!(row.unwrap().matches("flood 2/2").count(), 2, "{table}");
    assert!(table.lines().all(|line| line.len() <= 100), "{table}");
    let rows: Vec<Value> = serde_json::from_str(&out(&["--json"])).unwrap();
    assert_eq!(rows[0]["floods"], 2, "{}", rows[0]);
    assert_eq!(rows[0]["without_leader_at_end"], 2, "{}", rows[0]);
    assert!(rows[0]["without_leader"]["median"].is_null(), "{}", rows[0]);
    let csv = out(&["--csv"]);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
    let cell = |column| row[head.iter().position(|it| *it == column).unwrap()];
    assert_eq!((cell("floods"), cell("without_leader_max_s")), ("2", ""));
}

#[test]
fn a_name_that_can_not_be_compared_is_refused_with_the_nearest_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("election = \"a/b\"\n{text}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let slip = file("slip.toml", "lease_duraton = \"9s\"\n");
    let alone = file("static.toml", "strategy = \"static\"\n");
    let lease = file("lease.toml", "");
    let blob = file(
        "blob.toml",
        "strategy = \"azure-blob\"\n[azure_blob]\nconnection_string = \"UseDevelopmentStorage=true\"\ncontainer = \"billing\"\n",
    );
    for (arguments, named) in [
        (&["--scenario", "kil"][..], "did you mean \"kill-two\"?"),
        (&["--contestant", "buly"], "did you mean \"bully\"?"),
        (&["--config", &slip], "did you mean lease_duration?"),
        (&["--config", &alone], "it has no election"),
        (&["--scenaro", "start"], "'--scenario'"),
        (&["--seeds", "3..3"], "FROM must be below TO"),
        (&["--runs", "2"], "--live"),
        (&["--detection-time", "0"], "1..=3600"),
        (
            &["timing", "--pause", "61m"],
            "--pause <DURATION>': use at most 1h",
        ),
        (&["timing", "--loss", "2h"], "use at most 1h"),
        (
            &["timing", "--detection-time", "5", "--detection-time", "5"],
            "--detection-time 5 is given twice",
        ),
        (
            &["churn", "--members", "3,5,3"],
            "--members 3 is given twice",
        ),
        (
            &["--contestant", "lease", "--contestant", "lease"],
            "--contestant lease is given twice",
        ),
        (
            &["check", "--contestant", "lease", "--contestant", "lease"],
            "--contestant lease is given twice",
        ),
        (
            &["--scenario", "start", "--scenario", "start"],
            "--scenario start is given twice",
        ),
        (
            &["--config", &lease, "--config", &lease],
            "lease.toml is given twice",
        ),
        (
            &["--live", "--contestant", "lease", "--contestant", "lease"],
            "--contestant lease is given twice",
        ),
        (
            &["--live", "--config", &lease, "--config", &lease],
            "lease.toml is given twice",
        ),
        (&["--live", "--detection-time", "3"], "--live"),
        (
            &["timing", "--contestant", "leese"],
            "did you mean \"lease\"?",
        ),
        (
            &["check", "--contestant", "leese"],
            "did you mean \"lease\"?",
        ),
        (&["--report", "/nonexistent/report.html"], "/nonexistent"),
        // These are refused before any process starts.
        (&["--live", "--scenario", "clock-slow"], "kill-leader"),
        (
            &["--live", "--scenario", "kill-leder"],
            "did you mean \"kill-leader\"?",
        ),
        (
            &["--live", "--scenario", "part-minority", "--candidates", "3"],
            "--candidates 5",
        ),
        (&["--live", "--contestant", "textbook"], "bully-pull"),
        (&["--live", "--contestant", "bully-ring"], "bully-pull"),
        (
            &["--live", "--contestant", "leese"],
            "did you mean \"lease\"?",
        ),
        (&["--live", "--candidates", "2"], "3..=9"),
        (
            &["--live", "--tenure", "/nonexistent/tenure"],
            "there is no program /nonexistent/tenure; build it (cargo build --release -p tenure-cli)",
        ),
        (&["--tenure", "/nonexistent/tenure"], "--live"),
        (&["--live", "--seeds", "0..3"], "--live"),
        (
            &["--live", "--config", &slip],
            "did you mean lease_duration?",
        ),
        (&["--live", "--config", &alone], "has no election"),
        (
            &["--live", "--config", &blob],
            "\"azure-blob\" can't be compared",
        ),
        (&["--config", &blob], "\"azure-blob\" can't be compared"),
        (
            &["--live", "--config", "/nonexistent/file.toml"],
            "/nonexistent/file.toml",
        ),
        (
            &["--live", "--report", "/nonexistent/report.html"],
            "/nonexistent",
        ),
    ] {
        let output = run_lab(&[&["compare"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
    }
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
