//! `tenure doctor`.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use tenure_tests::process::run;

use super::{Bench, code, fake, json_of, problem, stdout};

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
        // How many depends on how many files may be open.
        "max_connections = ",
        "request_time_ms = 10000",
        "all well",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = json_of(&bench.run(&["doctor", "--json"]));
    assert_eq!(report["findings"], json!([]));
    assert_eq!(report["stores"][0]["wall_clock_ahead_s"], 0);
    assert_eq!(report["stores"][0]["limits"]["max_history"], 100);
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
    let other = fake(Duration::ZERO, |_| (404, "hello".into()));
    let output = run(&["doctor", "--server", &format!("http://{other}")]);
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(!stdout(&output).contains("not reachable"), "{output:?}");
    assert!(
        stdout(&output).contains("answers, and not as"),
        "{output:?}"
    );
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
        text.contains("choose a lease_duration of at least"),
        "{text}"
    );
}
