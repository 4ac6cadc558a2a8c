//! `tenure status` and `tenure break`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};
use tenure_tests::ports::free_address;
use tenure_tests::process::run;

use super::{acquire, ask, memory_store, stderr, stdout};

/// An address without a listener.
fn nowhere() -> String {
    format!("http://{}", free_address())
}

/// The value of a line of `tenure status`.
fn row(text: &str, key: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(key));
    let line = line.unwrap_or_else(|| panic!("no {key} in {text}"));
    line[key.len()..].trim().to_owned()
}

/// Starts a server that answers every request like this, and returns its address.
fn answers_with(status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn a_lease_is_shown_to_people() {
    let (_store, address) = memory_store();
    let granted = acquire(address, "tests/job", "worker-1");
    let url = format!("http://{address}");
    let text = stdout(&run(&["status", "tests/job", "--server", &url]));
    assert_eq!(row(&text, "lease"), "tests/job");
    assert_eq!(row(&text, "state"), "leased");
    assert_eq!(row(&text, "holder"), "worker-1");
    assert_eq!(row(&text, "epoch"), granted["epoch"].to_string());
    assert_eq!(row(&text, "duration"), "1m");
    let left: f64 = row(&text, "left")
        .strip_suffix('s')
        .unwrap()
        .parse()
        .unwrap();
    assert!((50.0..=60.0).contains(&left), "{text}");
    assert!(row(&text, "since").ends_with("ago)"), "{text}");
    assert!(!text.contains(granted["lease_id"].as_str().unwrap()));
}

#[test]
fn a_lease_is_shown_to_scripts_with_the_field_names_of_the_api() {
    let (_store, address) = memory_store();
    acquire(address, "tests/job", "worker-1");
    let url = format!("http://{address}");
    let output = run(&["status", "tests/job", "--json", "--server", &url]);
    let mut shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (_, mut view) = ask(address, "GET", "tests/leases/job", &Value::Null);
    assert!(shown["remaining_ms"].as_u64().unwrap() > 50_000);
    shown["remaining_ms"] = Value::Null;
    view["remaining_ms"] = Value::Null;
    view["waiting"] = json!([]);
    assert_eq!(shown, view);
    assert_eq!(shown["holder"], "worker-1");
}

#[test]
fn an_unknown_lease_is_exit_code_3() {
    let (_store, address) = memory_store();
    let url = format!("http://{address}");
    for arguments in [["status", "tests/job"], ["break", "tests/job"]] {
        let output = run(&[&arguments[..], &["--json", "--server", &url]].concat());
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
        assert!(stderr(&output).contains("job"), "{}", stderr(&output));
    }
}

#[test]
fn an_unreachable_store_is_named_with_exit_code_69() {
    let url = nowhere();
    for arguments in [&["list"][..], &["status", "a/b"], &["break", "a/b"]] {
        let output = run(&[arguments, &["--server", &url]].concat());
        assert_eq!(output.status.code(), Some(69), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(stderr(&output).contains(&url), "{}", stderr(&output));
    }
}

#[test]
fn a_break_leaves_the_holder_the_period() {
    let (_store, address) = memory_store();
    let url = format!("http://{address}");
    acquire(address, "tests/job", "worker-1");
    let arguments = ["break", "tests/job", "--period", "20s", "--json"];
    let output = run(&[
        &arguments[..],
        &["--reason", "a \"bad\" release", "--server", &url],
    ]
    .concat());
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(view["state"], "breaking");
    let left = view["remaining_ms"].as_u64().unwrap();
    assert!((15_000..=20_000).contains(&left), "{left}");

    let output = run(&["break", "tests/job", "--period", "0s", "--server", &url]);
    assert_eq!(row(&stdout(&output), "state"), "broken");
}

#[test]
fn without_a_period_a_break_and_a_handover_leave_the_holder_the_rest_of_its_lease() {
    let (_store, address) = memory_store();
    let url = format!("http://{address}");
    for arguments in [
        &["break", "tests/broken"][..],
        &["handover", "tests/given", "--to", "heir", "--force"],
    ] {
        acquire(address, arguments[1], "worker-1");
        let output = run(&[arguments, &["--json", "--server", &url]].concat());
        let view: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(view["state"], "breaking");
        let left = view["remaining_ms"].as_u64().unwrap();
        assert!((50_000..=60_000).contains(&left), "{arguments:?}: {left}");
        assert!(!stderr(&output).contains("may lead"), "{}", stderr(&output));
    }
}

#[test]
fn a_period_below_the_duration_of_the_lease_is_accepted_with_a_warning() {
    let (_store, address) = memory_store();
    let url = format!("http://{address}");
    let warned = |number: usize, verb: &str, flags: &[&str]| {
        let lease = format!("tests/job-{number}");
        acquire(address, &lease, "worker-1");
        let output = run(&[&[verb, &lease, "--server", &url], flags].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    for (number, (verb, flags, safe)) in [
        ("break", &["--period", "59s"][..], "from --period 1m on"),
        ("break", &["--period", "0s"], "from --period 1m on"),
        (
            "handover",
            &["--to", "a", "--within", "10s", "--force"],
            "from --within 1m on",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let said = warned(number, verb, flags);
        assert!(said.contains("WARN") && said.contains(safe), "{said}");
    }
    let said = warned(9, "break", &["--period", "1m"]);
    assert_eq!(said, "");
    // The limit of reservations is ten minutes.
    let body = json!({"holder": "a", "duration_ms": 1_800_000});
    assert_eq!(
        ask(address, "POST", "tests/leases/long/acquire", &body).0,
        200
    );
    let long = [
        "handover",
        "tests/long",
        "--to",
        "b",
        "--force",
        "--server",
        &url,
    ];
    let output = run(&long);
    assert!(output.status.success(), "{}", stderr(&output));
    let (_, view) = ask(address, "GET", "tests/leases/long", &Value::Null);
    assert_eq!(view["state"], "breaking");
    let left = view["remaining_ms"].as_u64().expect("a time");
    assert!(left > 1_700_000, "{view}");
}

#[test]
fn an_infinite_lease_is_broken_only_with_a_period_and_with_a_warning() {
    let (_store, address) = memory_store();
    let url = format!("http://{address}");
    let body = json!({"holder": "a", "duration_ms": "infinite"});
    assert_eq!(
        ask(address, "POST", "tests/leases/job/acquire", &body).0,
        200
    );
    for (arguments, flag) in [
        (&["break", "tests/job"][..], "--period"),
        (&["handover", "tests/job", "--to", "b"], "--within"),
    ] {
        let output = run(&[arguments, &["--server", &url]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("infinite") && said.contains(flag), "{said}");
    }
    let (_, view) = ask(address, "GET", "tests/leases/job", &Value::Null);
    assert_eq!(view["state"], "leased");
    let output = run(&["break", "tests/job", "--period", "20s", "--server", &url]);
    assert_eq!(row(&stdout(&output), "state"), "breaking");
    assert!(stderr(&output).contains("infinite"), "{}", stderr(&output));
}

#[test]
fn text_of_others_can_not_control_the_terminal_or_hide_a_part_of_itself() {
    let (_store, address) = memory_store();
    let metadata = json!({
        "note": "\u{1b}[2J\nstate     available",
        "other": "a\u{202e}b\u{200b}c\u{2028}d\u{2069}é",
    });
    let body = json!({"holder": "a", "duration_ms": 60_000, "metadata": metadata});
    let (status, _) = ask(address, "POST", "tests/leases/job/acquire", &body);
    assert_eq!(status, 200);
    let url = format!("http://{address}");
    let text = stdout(&run(&["status", "tests/job", "--server", &url]));
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(
        row(&text, "metadata"),
        r"note = \u001b[2J\nstate     available"
    );
    let shown = r"a\u202eb\u200bc\u2028d\u2069é";
    assert!(text.contains(&format!("other = {shown}")), "{text}");
    let json = stdout(&run(&["status", "tests/job", "--json", "--server", &url]));
    assert!(json.contains(&format!("\"{shown}\"")), "{json}");
    let view: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(view["metadata"], metadata);
}

#[test]
fn the_reason_of_a_refusal_can_not_reorder_the_line_of_an_error() {
    let detail = "no\u{202e}thing\u{200b}";
    let url = answers_with(
        "403 Forbidden",
        &json!({
            "type": "urn:tenure:problem:forbidden", "title": "x", "status": 403, "detail": detail,
            "code": "forbidden"
        })
        .to_string(),
    );
    let refused = stderr(&run(&["status", "tests/job", "--server", &url]));
    assert!(refused.contains(r"no\u202ething\u200b"), "{refused}");
}
