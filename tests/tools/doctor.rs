//! `tenure doctor`.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tenure_tests::ports::free_address;
use tenure_tests::process::run;

use super::{Bench, code, fake, json_of, problem, stdout};

#[test]
fn doctor_passes_all_checks_for_a_healthy_store() {
    let bench = Bench::new();
    let output = bench.run(&["doctor"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let text = stdout(&output);
    for part in [
        "CLOCK_BOOTTIME",
        "ready",
        "round trip",
        "clock offset  below 1 s",
        "all checks passed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("max_connections"), "{text}");
    let text = stdout(&bench.run(&["doctor", "--verbose"]));
    // The value of max_connections depends on the limit of open files.
    for limit in ["max_connections = ", "request_time_ms = 10000"] {
        assert!(text.contains(limit), "{limit}: {text}");
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
fn doctor_reports_a_missing_store_and_a_server_that_is_not_a_store() {
    let nobody = format!("http://{}", free_address());
    let output = run(&["doctor", "--server", &nobody]);
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(stdout(&output).contains("not reachable"), "{output:?}");
    let other = fake(Duration::ZERO, |_| (404, "hello".into()));
    let output = run(&["doctor", "--server", &format!("http://{other}")]);
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(!stdout(&output).contains("not reachable"), "{output:?}");
    assert!(
        stdout(&output).contains("answers, but not like"),
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
fn doctor_advises_a_longer_lease_for_long_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    fs::write(&path, "lease_duration = \"2s\"").unwrap();
    // Four attempts of 200 ms do not fit into the 667 ms between renew interval and renew deadline.
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
