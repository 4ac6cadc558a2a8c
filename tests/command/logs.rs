//! The fields of log lines, which `docs/logs.md` lists, and the traces that they name.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::thread;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::process::{Process, command};
use tenure_tests::wait_for;

use super::{address_of, ask_with};

/// A store in memory that logs JSON.
fn json_store() -> (Process, SocketAddr) {
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--home", "memory"]);
    let mut store = Process::spawn(serve.env("TENURE_LOG_FORMAT", "json"));
    let address = address_of(&mut store);
    (store, address)
}

fn lines(process: &Process) -> Vec<Value> {
    let text = process.stderr();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}")))
        .collect()
}

/// The types of the fields that the document lists.
fn documented() -> BTreeMap<String, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/logs.md");
    let text = fs::read_to_string(path).expect("the document");
    let rows = text.lines().flat_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, names, kind, _, _] = cells[..] else {
            return Vec::new();
        };
        let names = names.split(", ").filter_map(|name| {
            let name = name.strip_prefix('`')?.strip_suffix('`')?;
            Some((name.to_owned(), kind.to_owned()))
        });
        names.collect()
    });
    let fields: BTreeMap<_, _> = rows.collect();
    assert!(fields.len() > 30, "the tables of fields: {fields:?}");
    fields
}

#[track_caller]
fn check(process: &Process) {
    let fields = documented();
    for line in lines(process) {
        for (name, value) in line.as_object().expect("an object") {
            let kind = fields.get(name).map(String::as_str);
            let is_right = match kind {
                Some("number") => value.is_u64(),
                Some("text") => value.is_string(),
                _ => false,
            };
            assert!(is_right, "{name} is not a {kind:?} of docs/logs.md: {line}");
        }
    }
}

#[test]
fn lines_of_a_store_and_of_a_candidate_have_the_fields_of_one_list() {
    let (store, address) = json_store();
    let url = format!("http://{address}");
    let run = ["run", "--server", &url, "--election", "tests/job"];
    let mut run = command(&run);
    run.args(["--candidate", "worker-1", "--lease-duration", "3s"]);
    run.args(["--", "sleep", "600"]);
    run.env("TENURE_LOG_FORMAT", "json");
    let started = |process: &Process| {
        let mut lines = lines(process).into_iter();
        lines.find(|line| line["message"] == "command started")
    };
    let mut leader = Process::spawn(&mut run);
    let line = wait_for("a leader", || started(&leader));
    let granted = lines(&store)
        .into_iter()
        .find(|line| line["message"] == "granted")
        .expect("a line of the grant");
    for field in ["election", "epoch", "candidate"] {
        assert_eq!(line[field], granted[field], "{line} {granted}");
    }
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.wait().code(), Some(0));
    check(&leader);

    // Lines about failures.
    let mut leader = Process::spawn(&mut run);
    wait_for("a leader", || started(&leader));
    check(&store);
    drop(store);
    wait_for("the end of the term", || {
        leader.stderr().contains("leadership lost").then_some(())
    });
    leader.signal(Signal::SIGTERM);
    let _ = leader.wait();
    assert!(leader.stderr().contains("retrying"));
    check(&leader);
}

#[test]
fn a_line_about_a_change_has_the_trace_of_the_request_that_made_it() {
    let (store, address) = json_store();
    let trace = |number: u32| format!("{number:032x}");
    let post = move |lease: &str, verb: &str, number: u32, body: &Value| {
        let path = format!("tests/leases/{lease}/{verb}");
        let head = format!("traceparent: 00-{number:032x}-00f067aa0ba902b7-00\r\n");
        let (status, view) = ask_with(address, "POST", &path, &head, body);
        assert_eq!(status, 200, "{view}");
        view
    };
    let id = |number: u32| format!("6f1c9a64-3a52-4c0e-9d43-{number:012}");
    let acquire = |number: u32, duration: u32| json!({"holder": "c", "duration_ms": duration, "lease_id": id(number), "wait_ms": 30_000});
    // The number of a lease id is also that of the trace in which it is acquired.
    post("job", "acquire", 1, &acquire(1, 60_000));
    let second = acquire(2, 60_000);
    let waiting = thread::spawn(move || post("job", "acquire", 2, &second));
    wait_for("a waiter", || {
        let (_, view) = ask_with(address, "GET", "tests/leases/job", "", &Value::Null);
        (view["waiters"] == 1).then_some(())
    });
    post("job", "release", 3, &json!({"lease_id": id(1)}));
    waiting.join().expect("a grant");
    post("job", "break", 4, &json!({"break_period_ms": 0}));
    post("short", "acquire", 5, &acquire(5, 1_000));
    post("short", "acquire", 6, &acquire(6, 60_000));

    let expected = [
        ("tests/job", "granted", Some(1)),
        ("tests/job", "released", Some(3)),
        ("tests/job", "granted", Some(2)),
        ("tests/job", "broken", Some(4)),
        ("tests/short", "granted", Some(5)),
        ("tests/short", "expired", None),
        ("tests/short", "granted", Some(6)),
    ];
    let lines = wait_for("all lines", || {
        let lines = lines(&store).into_iter();
        let changes: Vec<_> = lines.filter(|line| line["election"].is_string()).collect();
        (changes.len() == expected.len()).then_some(changes)
    });
    for (line, (election, message, number)) in lines.iter().zip(expected) {
        let found = (&line["election"], &line["message"], &line["trace_id"]);
        let trace_id = json!(number.map(trace));
        let expected = (&json!(election), &json!(message), &trace_id);
        assert_eq!(found, expected, "{line}");
    }
}
