//! `tenure list`.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;

use serde_json::{Value, json};
use tenure_tests::process::{command, run};

use super::{acquire, ask, memory_store, stderr, stdout};

#[test]
fn leases_are_a_table_for_people() {
    let (_store, address) = memory_store();
    let granted = acquire(address, "tests/job", "worker-1");
    let free = acquire(address, "tests/free", "worker-2");
    let proof = json!({"lease_id": free["lease_id"]});
    ask(address, "POST", "tests/leases/free/release", &proof);
    acquire(address, "others/job", "worker-3");

    let url = format!("http://{address}");
    let text = stdout(&run(&["list", "--namespace", "tests", "--server", &url]));
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 3, "{text}");
    assert_eq!(
        rows[0],
        [
            "NAME", "STATE", "HOLDER", "EPOCH", "LEFT", "WAITERS", "SINCE"
        ]
    );
    assert_eq!(rows[1], ["free", "available", "-", "-", "-", "0", "-"]);
    let epoch = granted["epoch"].to_string();
    assert_eq!(rows[2][..4], ["job", "leased", "worker-1", &epoch]);
}

#[test]
fn leases_are_json_for_scripts_with_the_field_names_of_the_api() {
    let (_store, address) = memory_store();
    acquire(address, "tests/one", "worker-1");
    acquire(address, "tests/two", "worker-2");
    let url = format!("http://{address}");
    let output = run(&["list", "--namespace", "tests", "--json", "--server", &url]);
    let without_time = |mut list: Value| {
        for view in list["leases"].as_array_mut().unwrap() {
            assert!(view["remaining_ms"].is_u64());
            view["remaining_ms"] = Value::Null;
        }
        list
    };
    let shown = without_time(serde_json::from_slice(&output.stdout).unwrap());
    let (_, list) = ask(address, "GET", "tests/leases", &Value::Null);
    assert_eq!(shown, without_time(list));
}

#[test]
fn all_pages_are_listed_and_a_reader_may_leave_early() {
    let (_store, address) = memory_store();
    for number in 0..1_050 {
        acquire(address, &format!("tests/{number:04}"), "worker");
    }
    let url = format!("http://{address}");
    let arguments = ["list", "--namespace", "tests", "--server", &url];
    let text = stdout(&run(&arguments));
    assert_eq!(text.lines().count(), 1_051);

    let mut list = command(&arguments);
    let mut list = list
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 4];
    list.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"NAME");
    let output = list.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_full_disk_behind_stdout_is_reported() {
    let (_store, address) = memory_store();
    let url = format!("http://{address}");
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut list = command(&["list", "--server", &url]);
    let output = list.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(
        error.contains("cannot write to standard output: No space left"),
        "{error}"
    );
}
