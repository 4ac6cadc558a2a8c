//! The tools around the command, as processes: what an operator uses.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::process::{Process, StoreProcess, command, run};
use tenure_tests::wait_for;

const ELECTION: &str = "tests/job";

fn stdout(output: &Output) -> String {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(!text.contains('\u{1b}'), "plain when piped: {text}");
    text
}

fn stderr(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!text.contains('\u{1b}'), "plain when piped: {text}");
    text
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn json_of(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("{output:?}"))
}

/// A store, and a folder beside its data.
struct Bench {
    folder: tempfile::TempDir,
    store: StoreProcess,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreProcess::start(&folder.path().join("store"));
        Self { folder, store }
    }

    /// The command with these arguments, on this store.
    fn run(&self, arguments: &[&str]) -> Output {
        run(&[arguments, &["--server", &self.store.url()]].concat())
    }

    /// A candidate that does nothing while it leads.
    fn candidate(&self, id: &str, flags: &[&str]) -> Process {
        Process::spawn(&mut self.leading(id, flags, &["sleep", "600"]))
    }

    fn leading(&self, id: &str, flags: &[&str], program: &[&str]) -> Command {
        let mut command = command(&["run", "--election", ELECTION, "--candidate", id]);
        command.args(["--server", &self.store.url(), "--lease-duration", "3s"]);
        command.args(flags).arg("--").args(program);
        command
    }

    fn wait_for_leader(&self, id: &str) {
        wait_for("a leader", || {
            let output = self.run(&["status", ELECTION, "--json"]);
            (code(&output) == 0 && json_of(&output)["holder"] == id).then_some(())
        });
    }
}

/// Something that answers every request so, after a while.
fn fake(delay: Duration, answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            thread::sleep(delay);
            let (status, body) = answer(request.split(' ').nth(1).unwrap_or_default());
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

fn problem(code: &str) -> String {
    let problem = json!({
        "type": format!("urn:tenure:problem:{code}"), "title": "no", "status": 404,
        "detail": "no", "code": code,
    });
    problem.to_string()
}

#[test]
fn an_operator_hands_a_lease_over_to_the_candidate_named() {
    let bench = Bench::new();
    let _first = bench.candidate("first", &[]);
    bench.wait_for_leader("first");

    let early = bench.run(&["status", ELECTION, "--json"]);
    assert_eq!(json_of(&early)["waiters"], 0);
    let _others = [
        bench.candidate("other", &["--priority", "1"]),
        bench.candidate("heir", &[]),
    ];
    wait_for("two that wait", || {
        let view = json_of(&bench.run(&["status", ELECTION, "--json"]));
        (view["waiters"] == 2).then_some(())
    });
    let output = bench.run(&["handover", ELECTION, "--to", "heir", "--within", "2s"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(stdout(&output).contains("state     breaking"), "{output:?}");
    assert!(!stderr(&output).contains("nobody waits"), "{output:?}");
    bench.wait_for_leader("heir");
}

#[test]
fn a_hand_over_warns_when_nobody_waits_and_tells_what_it_can_not() {
    let bench = Bench::new();
    let _first = bench.candidate("first", &[]);
    bench.wait_for_leader("first");
    let output = bench.run(&[
        "handover", ELECTION, "--to", "nobody", "--within", "1s", "--json",
    ]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(json_of(&output)["state"], "breaking");
    assert!(stderr(&output).contains("nobody waits"), "{output:?}");

    let output = bench.run(&["handover", "tests/unknown", "--to", "heir"]);
    assert_eq!(code(&output), 3, "{output:?}");
    for wrong in [
        &["handover", ELECTION][..],
        &["handover", ELECTION, "--to", "a b"],
        &["handover", ELECTION, "--to", "heir", "--within", "soon"],
    ] {
        assert_eq!(code(&bench.run(wrong)), 2, "{wrong:?}");
    }
}

#[test]
fn a_watch_prints_each_change_and_survives_a_restart_of_the_store() {
    let mut bench = Bench::new();
    let url = bench.store.url();
    let mut watch = Process::start(&["watch", ELECTION, "--json", "--server", &url]);
    let mut all = Process::start(&["watch", "--namespace", "tests", "--server", &url]);
    wait_for("word of a lease that is not there", || {
        watch
            .stderr()
            .contains("nobody has ever competed")
            .then_some(())
    });
    let first = bench.candidate("first", &[]);
    let holders = |watch: &Process| -> Vec<String> {
        let text = watch.stdout();
        let views = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        views
            .filter_map(|view| view["holder"].as_str().map(Into::into))
            .collect()
    };
    wait_for("the first leader", || {
        (holders(&watch) == ["first"]).then_some(())
    });

    let address = bench.store.address().to_string();
    bench.store.process.signal(Signal::SIGTERM);
    bench.store.process.wait();
    wait_for("word of the store", || {
        watch
            .stderr()
            .contains("the store can't be asked")
            .then_some(())
    });
    bench.store = StoreProcess::start_at(&bench.folder.path().join("store"), &address);
    wait_for("word of the store", || {
        watch.stderr().contains("answers again").then_some(())
    });
    first.signal(Signal::SIGTERM);
    let _second = bench.candidate("second", &[]);
    wait_for("the second leader", || {
        let holders = holders(&watch);
        (holders.last()? == "second").then_some(())
    });
    wait_for("the second leader among all", || {
        let text = all.stdout();
        let line = text.lines().find(|line| line.contains("second"))?;
        assert!(line.contains("tests/job  leased"), "{line}");
        Some(())
    });
    for process in [&mut watch, &mut all] {
        process.signal(Signal::SIGINT);
        assert_eq!(process.wait().code(), Some(0));
    }
}

#[test]
fn a_watch_ends_when_nobody_reads_and_needs_something_to_watch() {
    let bench = Bench::new();
    let _first = bench.candidate("first", &[]);
    bench.wait_for_leader("first");
    let mut watch = command(&["watch", ELECTION, "--server", &bench.store.url()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(watch.stdout.take());
    bench.run(&["break", ELECTION, "--period", "0s"]);
    let status = wait_for("the end of the watch", || watch.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert_eq!(code(&bench.run(&["watch"])), 2);
    assert_eq!(code(&bench.run(&["watch", "a/b", "--namespace", "a"])), 2);
}

#[test]
fn a_history_is_a_table_or_the_answer_itself() {
    let terms = json!({"terms": [
        {"epoch": 8, "holder": "worker-2", "began_at": "2026-11-21T02:05:10.385Z",
         "ended_at": null, "end": null, "reason": null},
        {"epoch": 7, "holder": "worker-1", "began_at": "2026-11-21T01:05:10.385Z",
         "ended_at": "2026-11-21T02:05:09Z", "end": "handed_over", "reason": "bad\u{1b}[31m"},
    ]});
    let answer = terms.to_string();
    let store = fake(Duration::ZERO, move |path| match path {
        "/v1/namespaces/tests/leases/job/history" => (200, answer.clone()),
        _ => (404, problem("unknown_lease")),
    });
    let url = format!("http://{store}");
    let output = command(&["history", ELECTION, "--server", &url])
        .env("TZ", "UTC")
        .output();
    let text = stdout(&output.unwrap());
    let lines: Vec<&str> = text.lines().collect();
    let words = |line: &str| {
        line.split("  ")
            .filter(|w| !w.is_empty())
            .map(|w| w.trim().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words(lines[0]),
        ["EPOCH", "HOLDER", "BEGAN", "ENDED", "END", "REASON"]
    );
    assert_eq!(
        words(lines[1]),
        ["8", "worker-2", "2026-11-21 02:05:10", "-", "-", "-"]
    );
    assert!(
        lines[2].contains("handed over") && lines[2].contains(r"bad\u{1b}"),
        "{text}"
    );
    let output = run(&["history", ELECTION, "--json", "--server", &url]);
    assert_eq!(json_of(&output), terms);
    let output = run(&["history", "tests/other", "--server", &url]);
    assert_eq!(code(&output), 3, "{output:?}");
    assert!(
        stderr(&output).contains("there is no lease tests/other"),
        "{output:?}"
    );
}

#[test]
fn a_command_that_is_not_well_loses_its_term() {
    let bench = Bench::new();
    let left_behind = bench.folder.path().join("left-behind");
    let slow = format!("sleep 600 & echo $! > {}; wait", left_behind.display());
    for health in [
        &["--health-command", "false"][..],
        &[
            "--health-command",
            "sh",
            "--health-arg",
            "-c",
            "--health-arg",
            &slow,
        ],
    ] {
        let flags = [
            &[
                "--once",
                "--health-interval",
                "100ms",
                "--health-timeout",
                "200ms",
            ],
            health,
        ];
        let mut process =
            Process::spawn(&mut bench.leading("ill", &flags.concat(), &["sleep", "600"]));
        assert_eq!(process.wait().code(), Some(76), "{}", process.stderr());
        assert!(
            process.stderr().contains("the task is not well"),
            "{}",
            process.stderr()
        );
    }
    let pid: i32 = fs::read_to_string(&left_behind)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(
        !tenure_tests::process::is_alive(pid),
        "what the health command started is gone"
    );
}

#[test]
fn a_command_that_is_well_ends_by_itself() {
    let bench = Bench::new();
    let seen = bench.folder.path().join("seen");
    let ask = format!("echo $TENURE_ELECTION >> {}", seen.display());
    let flags = [
        "--once",
        "--health-command",
        "sh",
        "--health-arg",
        "-c",
        "--health-arg",
        &ask,
        "--health-interval",
        "100ms",
    ];
    let wait = format!(
        "while ! [ -s {} ]; do sleep 0.02; done; exit 7",
        seen.display()
    );
    let mut process = Process::spawn(&mut bench.leading("well", &flags, &["sh", "-c", &wait]));
    assert_eq!(process.wait().code(), Some(7), "{}", process.stderr());
    assert!(fs::read_to_string(&seen).unwrap().starts_with(ELECTION));
}

#[test]
fn wrong_health_flags_are_refused_before_competing() {
    let with = |flags: &[&str]| {
        let all = [&["run", "--election", "a"], flags, &["--", "true"]].concat();
        run(&all)
    };
    assert_eq!(code(&with(&["--health-command", "/no/such/program"])), 127);
    assert_eq!(code(&with(&["--health-command", "/etc/passwd"])), 126);
    assert_eq!(code(&with(&["--health-arg", "x"])), 2);
    assert_eq!(
        code(&with(&[
            "--health-command",
            "true",
            "--health-interval",
            "0s"
        ])),
        2
    );
    let output = with(&["--priority", "-1"]);
    assert_eq!(code(&output), 2);
    let output = with(&["--priority", "low"]);
    assert!(
        code(&output) == 2 && stderr(&output).contains("flag --priority"),
        "{output:?}"
    );
}

#[test]
fn completions_are_for_what_users_see() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&run(&["completions", shell]));
        assert!(
            script.contains("handover") && script.contains("health-command"),
            "{shell}"
        );
        for hidden in ["watchdog", "demo-worker", "--parent"] {
            assert!(!script.contains(hidden), "{shell} has {hidden}");
        }
    }
    let path = folder.path().join("tenure.bash");
    fs::write(&path, stdout(&run(&["completions", "bash"]))).unwrap();
    let parsed = Command::new("bash").arg("-n").arg(&path).output().unwrap();
    assert!(
        parsed.status.success() && parsed.stderr.is_empty(),
        "{parsed:?}"
    );
    assert_eq!(code(&run(&["completions", "cobol"])), 2);
}

#[test]
fn manual_pages_have_every_command_and_its_options() {
    let page = stdout(&run(&["man"]));
    assert!(
        page.contains(".TH tenure 1") && page.contains("Exit codes"),
        "{page}"
    );
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let output = run(&["man", pages.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{output:?}");
    let mut names: Vec<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.contains(&"tenure-config-check.1".into()), "{names:?}");
    assert!(
        names.iter().all(|name| !name.contains("watchdog")),
        "{names:?}"
    );
    let page = fs::read_to_string(pages.join("tenure-run.1")).unwrap();
    for option in [
        r"\-\-health\-command",
        r"\-\-stop\-grace",
        r"\-\-priority",
        r"\-\-once",
    ] {
        assert!(page.contains(option), "{option} is missing: {page}");
    }
    let output = run(&["man", "/proc/nowhere"]);
    assert!(
        code(&output) == 1 && stderr(&output).contains("/proc/nowhere"),
        "{output:?}"
    );
}

#[test]
fn the_example_configuration_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    fs::write(&path, stdout(&run(&["config", "example"]))).unwrap();
    let path = path.to_str().unwrap();
    let output = run(&["config", "check", path]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(
        stdout(&output).contains("lease 15s, renewed every 5s"),
        "{output:?}"
    );
    let checked = json_of(&run(&["config", "check", path, "--json"]));
    assert_eq!(checked["timings"]["hard_stop_ms"], 14_000);
    assert_eq!(checked["serve"]["listen"], "127.0.0.1:7400");
}

#[test]
fn a_wrong_configuration_is_told_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    for (text, line) in [
        (
            "election = \"a\"\nlease_duratoin = \"1s\"",
            ":2: unknown key lease_duratoin",
        ),
        ("\n\npriority = \"low\"", ":3: priority"),
        (
            "lease_duration = \"3s\"\nstop_grace = \"4s\"",
            "tenure.toml:2",
        ),
        ("[serve]\nlisten = \"nowhere\"", ":2: listen"),
        ("[serve]\nlisen = \"x\"", ":2: unknown key lisen"),
        ("election = = 1", "tenure.toml"),
    ] {
        fs::write(&path, text).unwrap();
        let output = run(&["config", "check", path.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{text}: {output:?}");
        assert!(stderr(&output).contains(line), "{text}: {output:?}");
        assert!(stdout(&output).is_empty(), "{text}: {output:?}");
    }
    let output = run(&["config", "check", "/no/such/file"]);
    assert!(
        code(&output) == 2 && stderr(&output).contains("/no/such/file"),
        "{output:?}"
    );
}

#[test]
fn each_value_in_effect_is_shown_with_its_origin() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let text = "election = \"billing/nightly\"\nlease_duration = \"30s\"\n[metadata]\nzone = \"a\"\n\
        [serve]\nengine = \"memory\"\n";
    fs::write(&path, text).unwrap();
    let show = |flags: &[&str]| {
        let file = [
            "config",
            "show",
            "--config",
            path.to_str().unwrap(),
            "--priority",
            "7",
        ];
        let mut command = command(&[&file, flags].concat());
        command
            .env("TENURE_STOP_GRACE", "5s")
            .env("TENURE_LISTEN", "127.0.0.1:9");
        command.output().unwrap()
    };
    let shown = json_of(&show(&["--json"]));
    let file = path.display();
    for (part, key, value, origin) in [
        (
            "candidate",
            "election",
            json!("billing/nightly"),
            format!("{file}:1"),
        ),
        (
            "candidate",
            "lease_duration",
            json!("30s"),
            format!("{file}:2"),
        ),
        (
            "candidate",
            "stop_grace",
            json!("5s"),
            "environment variable TENURE_STOP_GRACE".into(),
        ),
        ("candidate", "priority", json!(7), "flag --priority".into()),
        ("candidate", "cool_down", json!("5s"), "default".into()),
        (
            "candidate",
            "metadata",
            json!({"zone": "a"}),
            format!("{file}:4"),
        ),
        (
            "serve",
            "listen",
            json!("127.0.0.1:9"),
            "environment variable TENURE_LISTEN".into(),
        ),
        ("serve", "engine", json!("memory"), format!("{file}:6")),
    ] {
        assert_eq!(
            shown[part][key],
            json!({"value": value, "origin": origin}),
            "{key}: {shown}"
        );
    }
    let text = stdout(&show(&[]));
    assert!(
        text.starts_with("KEY ") && text.contains("serve.engine"),
        "{text}"
    );
    assert_eq!(
        code(&show(&["--lease-duration", "4s"])),
        2,
        "a stop grace of 5s is too long"
    );
}

#[test]
fn a_doctor_finds_nothing_where_all_is_well() {
    let bench = Bench::new();
    let output = bench.run(&["doctor"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let text = stdout(&output);
    for part in [
        "CLOCK_BOOTTIME",
        "ready",
        "least, median, most of 10",
        "all well",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = json_of(&bench.run(&["doctor", "--json"]));
    assert_eq!(report["findings"], json!([]));
    assert_eq!(report["stores"][0]["wall_clock_ahead_s"], 0);
    let trip = &report["stores"][0]["round_trip_ms"];
    assert!(trip["min"].as_f64() <= trip["median"].as_f64(), "{trip}");
    assert!(trip["median"].as_f64() <= trip["max"].as_f64(), "{trip}");
}

#[test]
fn a_doctor_tells_of_a_store_that_is_not_there_and_of_one_that_is_no_store() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let nobody = format!("http://{nobody}");
    let output = run(&["doctor", "--server", &nobody]);
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(stdout(&output).contains("not reachable"), "{output:?}");
    let other = fake(Duration::ZERO, |_| (200, "hello".into()));
    let output = run(&["doctor", "--server", &format!("http://{other}"), "--json"]);
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(
        stdout(&output).contains("not an answer of a lease store"),
        "{output:?}"
    );

    let bench = Bench::new();
    let output = bench.run(&["doctor", "--server", &nobody]);
    assert_eq!(code(&output), 1, "one address of two: {output:?}");
}

#[test]
fn a_doctor_advises_a_longer_lease_where_the_way_is_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    fs::write(&path, "lease_duration = \"2s\"").unwrap();
    // Between renew interval and deadline lie 667 ms; four tries of 200 ms don't fit.
    let store = fake(Duration::from_millis(200), |path| match path {
        "/livez" | "/readyz" => (200, "ok\n".into()),
        _ => (404, problem("unknown_lease")),
    });
    let url = format!("http://{store}");
    let output = run(&[
        "doctor",
        "--config",
        path.to_str().unwrap(),
        "--server",
        &url,
    ]);
    assert_eq!(code(&output), 1, "{output:?}");
    let text = stdout(&output);
    assert!(
        text.contains("choose a lease_duration of at least 3s"),
        "{text}"
    );
}

#[test]
fn the_help_of_every_command_is_plain_and_names_what_it_is_for() {
    let help = stdout(&run(&["--help"]));
    for part in [
        "history",
        "watch",
        "handover",
        "doctor",
        "config",
        "completions",
        "Exit codes",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for (arguments, part) in [
        (&["serve"][..], "it prints one line on stdout"),
        (&["run"], "The lease is released after the group is gone"),
        (&["list"], "List the leases of a namespace"),
        (&["history"], "Newest first"),
        (&["watch"], "The first line is the lease as it is"),
        (&["handover"], "The holder is told as by a break"),
        (&["doctor"], "69 if no address can be reached"),
        (&["config"], "example"),
        (&["config", "check"], "exit code is 2"),
        (&["config", "show"], "flags override the environment"),
        (&["completions"], "bash-completion"),
        (&["man"], "tenure(1)"),
    ] {
        let output = run(&[arguments, &["--help"]].concat());
        assert_eq!(code(&output), 0, "{output:?}");
        let text = stdout(&output)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            text.contains("Usage: tenure") && text.contains(part),
            "{part}: {text}"
        );
    }
}
