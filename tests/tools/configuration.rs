//! `tenure config`, and the limits of a store.

use std::fs;

use serde_json::json;
use tenure_tests::process::{command, run};

use super::{code, json_of, stderr, stdout};

#[test]
fn the_example_configuration_is_valid() {
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
fn a_check_of_peers_prints_the_bound_of_peers_and_not_that_of_a_lease() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let text = "strategy = \"bully\"\n[bully]\nnode = 1\n\
                peers = [\"1=http://a:1\", \"2=http://b:1\", \"3=http://c:1\"]\n";
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let output = run(&["config", "check", path]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(stdout(&output).contains("bounds"), "{output:?}");
    assert!(!stdout(&output).contains("at worst 15s"), "{output:?}");
    let checked = json_of(&run(&["config", "check", path, "--json"]));
    assert_eq!(checked["peers"]["worst_without_leader_ms"], 17_500);
    assert!(checked["timings"]["worst_without_leader_ms"].is_null());
}

#[test]
fn a_check_without_an_election_prints_no_time_without_a_leader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    fs::write(&path, "strategy = \"static\"\n").unwrap();
    let path = path.to_str().unwrap();
    let output = run(&["config", "check", path]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(!stdout(&output).contains("without a leader"), "{output:?}");
    let checked = json_of(&run(&["config", "check", path, "--json"]));
    assert!(checked["timings"]["worst_without_leader_ms"].is_null());
}

#[test]
fn an_unknown_variable_is_reported_with_the_nearest_setting() {
    let check = |name: &str| {
        let mut check = command(&["config", "show"]);
        let output = check.env(name, "7").output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        stderr(&output)
    };
    for (name, told) in [
        ("TENURE_MAX_HISTRY", "did you mean TENURE_MAX_HISTORY?"),
        ("TENURE_SERVRES", "did you mean TENURE_SERVERS?"),
        ("TENURE_BULLY_NOED", "did you mean TENURE_BULLY_NODE?"),
        ("TENURE_OF_MY_OWN_MAKING", "is not a setting"),
    ] {
        let said = check(name);
        assert!(said.contains(name) && said.contains(told), "{said}");
    }
    for name in [
        "TENURE_EPOCH",
        "TENURE_CANDIDATE",
        "TENURE_MAX_HISTORY",
        "TENURE_PORT_7400_TCP_ADDR",
        "TENURE_SERVICE_HOST",
        "TENURES",
    ] {
        assert_eq!(check(name), "", "{name}");
    }
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
        ("candidate", "on_overrun", json!("exit"), "default".into()),
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
