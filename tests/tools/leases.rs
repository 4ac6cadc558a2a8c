//! Handovers and term histories.

use std::time::Duration;

use serde_json::json;
use tenure_tests::process::{command, run};
use tenure_tests::wait_for;

use super::{Bench, ELECTION, code, fake, json_of, problem, stderr, stdout};

#[test]
fn an_operator_hands_a_lease_over_to_the_named_candidate() {
    let bench = Bench::new();
    let _first = bench.candidate("first", &[]);
    bench.wait_for_leader("first");

    let early = bench.run(&["status", ELECTION, "--json"]);
    assert_eq!(json_of(&early)["waiters"], 0);
    let _others = [
        bench.candidate("other", &["--priority", "1"]),
        bench.candidate("heir", &[]),
    ];
    wait_for("two waiters", || {
        let view = json_of(&bench.run(&["status", ELECTION, "--json"]));
        (view["waiters"] == 2).then_some(())
    });
    let both = stdout(&bench.run(&["status", ELECTION]));
    let [other, heir] = ["waiting   other for ", "waiting   heir for "].map(|row| both.find(row));
    assert!(other.is_some() && other < heir, "{both}");
    let waiting = json_of(&bench.run(&["status", ELECTION, "--json"]))["waiting"].clone();
    assert_eq!(
        (&waiting[0]["holder"], &waiting[1]["holder"]),
        (&json!("other"), &json!("heir"))
    );
    let output = bench.run(&["handover", ELECTION, "--to", "hair", "--within", "2s"]);
    assert_eq!(code(&output), 3, "{output:?}");
    let said = stderr(&output);
    assert!(
        said.contains("hair does not wait") && said.contains("other, heir"),
        "{said}"
    );
    let output = bench.run(&["handover", ELECTION, "--to", "heir", "--within", "2s"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(stdout(&output).contains("state     breaking"), "{output:?}");
    assert!(
        !stderr(&output).contains("no candidate waits"),
        "{output:?}"
    );
    bench.wait_for_leader("heir");
}

#[test]
fn a_forced_handover_warns_without_waiters_and_bad_arguments_are_refused() {
    let bench = Bench::new();
    let _first = bench.candidate("first", &[]);
    bench.wait_for_leader("first");
    let output = bench.run(&[
        "handover", ELECTION, "--to", "nobody", "--within", "1s", "--json", "--force",
    ]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(json_of(&output)["state"], "breaking");
    let status = stdout(&bench.run(&["status", ELECTION]));
    assert!(status.contains("reserved  for nobody until "), "{status}");
    assert!(stderr(&output).contains("no candidate waits"), "{output:?}");

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
fn a_handover_to_the_holder_prints_a_warning() {
    let bench = Bench::new();
    let _first = bench.candidate("first", &[]);
    bench.wait_for_leader("first");
    let output = bench.run(&[
        "handover", ELECTION, "--to", "first", "--within", "1s", "--force",
    ]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("holds the lease now"), "{said}");
    assert!(!said.contains("no candidate waits"), "{said}");
}

#[test]
fn a_history_and_a_status_show_when_a_term_was_led_without_the_store() {
    let once = json!({"periods": 1, "from": "2026-11-21T02:00:00.385Z", "to": "2026-11-21T02:05:00.385Z",
        "total_ms": 300_000});
    let often = json!({"periods": 3, "from": "2026-11-21T01:10:00Z", "to": "2026-11-21T01:50:00Z",
        "total_ms": 65_000});
    let terms = json!({"terms": [
        {"epoch": 8, "holder": "worker-2", "began_at": "2026-11-21T02:05:10.385Z",
         "ended_at": null, "end": null, "reason": null, "without_store": once.clone()},
        {"epoch": 7, "holder": "worker-1", "began_at": "2026-11-21T01:05:10.385Z",
         "ended_at": "2026-11-21T02:05:09Z", "end": "released", "reason": null, "without_store": often},
        {"epoch": 6, "holder": "worker-1", "began_at": "2026-11-21T00:05:10.385Z",
         "ended_at": "2026-11-21T00:05:09Z", "end": "released", "reason": null},
    ], "next": null});
    let view = json!({"namespace": "tests", "lease": "job", "state": "leased", "holder": "worker-2", "epoch": 8,
        "duration_ms": 15_000, "remaining_ms": 9_000, "granted_at": "2026-11-21T02:05:10.385Z",
        "metadata": {}, "waiters": 0, "revision": 7, "without_store": once});
    let (history, status) = (terms.to_string(), view.to_string());
    let store = fake(Duration::ZERO, move |path| match path {
        "/v1/namespaces/tests/leases/job/history" => (200, history.clone()),
        "/v1/namespaces/tests/leases/job" => (200, status.clone()),
        _ => (404, problem("unknown_lease")),
    });
    let url = format!("http://{store}");
    let text = |verb: &str| {
        let mut command = command(&[verb, ELECTION, "--server", &url]);
        stdout(&command.env("TZ", "UTC").output().unwrap())
    };
    let of_term = "2026-11-21 02:00:00 to 2026-11-21 02:05:00 (5m)";
    let table = text("history");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("LED WITHOUT THE STORE"), "{table}");
    assert!(lines[1].contains(of_term), "{table}");
    let several = "2026-11-21 01:10:00 to 2026-11-21 01:50:00 (3 times, 1m 5s in total)";
    assert!(lines[2].contains(several), "{table}");
    assert!(lines[3].trim_end().ends_with('-'), "{table}");
    let status = text("status");
    assert!(status.contains(&format!("no store  {of_term}")), "{status}");
    let output = run(&["history", ELECTION, "--json", "--server", &url]);
    assert_eq!(json_of(&output), terms);
    let output = run(&["status", ELECTION, "--json", "--server", &url]);
    assert_eq!(json_of(&output), view);
}

#[test]
fn a_history_is_a_table_or_the_json_of_the_store() {
    let terms = json!({"terms": [
        {"epoch": 8, "holder": "worker-2", "began_at": "2026-11-21T02:05:10.385Z",
         "ended_at": null, "end": null, "reason": null},
        {"epoch": 7, "holder": "worker-1", "began_at": "2026-11-21T01:05:10.385Z",
         "ended_at": "2026-11-21T02:05:09Z", "end": "handed_over", "reason": "bad\u{1b}[31m"},
    ], "next": null});
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
        lines[2].contains("handed over") && lines[2].contains(r"bad\u001b"),
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
