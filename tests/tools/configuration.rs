//! `tenure config`, and the limits of a store.

use std::fs;

use serde_json::json;
use tenure_tests::process::{Process, command, run};
use tenure_tests::wait_for;

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
fn a_warning_is_logged_for_limits_that_contradict_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let text = "[serve]\nhome = \"memory\"\nlisten = \"127.0.0.1:0\"\nmax_connections = 100\n\
                max_body_bytes = 1024\n";
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let output = run(&["config", "check", path]);
    assert_eq!(code(&output), 0, "{output:?}");
    let told = |text: &str| {
        let is_told = |limits| text.contains(limits);
        is_told("max_connections = 100 is not above max_waiting = 50000")
            && is_told("max_metadata_bytes = 4096 does not fit into max_body_bytes = 1024")
            && is_told("max_connections_per_address = 1000 is not below max_connections = 100")
    };
    assert!(told(&stdout(&output)), "{output:?}");
    let checked = json_of(&run(&["config", "check", path, "--json"]));
    assert_eq!(
        checked["warnings"].as_array().unwrap().len(),
        3,
        "{checked}"
    );
    let store = Process::start(&["serve", "--config", path]);
    wait_for("the warnings", || told(&store.stderr()).then_some(()));
}

#[test]
fn candidates_of_a_cluster_whose_timings_do_not_survive_a_take_over_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let check = |candidate: &str, ownership: &str| {
        let text = format!(
            "{candidate}\n[serve]\nhome = \"etcd://127.0.0.1:1\"\n[cluster]\nownership = \"{ownership}\"\n"
        );
        fs::write(&path, text).unwrap();
        let output = run(&["config", "check", path.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{output:?}");
        stdout(&output)
    };
    // By default a leader has 5 s.
    for (candidate, ownership, needed) in [
        ("", "3.9s", None),
        ("", "4s", Some("takes over up to 5.0s")),
        (
            "lease_duration = \"11s\"",
            "3s",
            Some("takes over up to 3.8s"),
        ),
        (
            "lease_duration = \"36s\"\nrenew_deadline = \"24s\"\nrenew_interval = \"10s\"",
            "10s",
            None,
        ),
    ] {
        let text = check(candidate, ownership);
        let is_told = text.contains("another server of the store takes over");
        assert_eq!(is_told, needed.is_some(), "{text}");
        assert!(needed.is_none_or(|needed| text.contains(needed)), "{text}");
    }
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
        "TENURE_MAX_HISTORY",
        "TENURE_SERVICE_HOST",
        "TENURES",
    ] {
        assert_eq!(check(name), "", "{name}");
    }
}

#[test]
fn a_store_keeps_to_the_limits_that_are_set() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    fs::write(
        &path,
        "[serve]\nhome = \"memory\"\nlisten = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    let mut serve = command(&["serve", "--config", path.to_str().unwrap()]);
    let store = Process::spawn(serve.env("TENURE_MAX_LEASES_PER_NAMESPACE", "1"));
    let url = wait_for("the store to listen", || {
        let line = store.stdout();
        Some(line.strip_prefix("listening on ")?.trim_end().to_owned())
    });
    let once = |election: &str| {
        run(&[
            "run",
            "--once",
            "--election",
            election,
            "--server",
            &url,
            "--",
            "true",
        ])
    };
    assert_eq!(code(&once("tests/one")), 0);
    let mut second = Process::start(&[
        "run",
        "--election",
        "tests/two",
        "--server",
        &url,
        "--",
        "true",
    ]);
    wait_for("the log line about the limit", || {
        let told = second.stderr().contains("over_limit");
        (told || second.has_ended()).then_some(())
    });
    assert!(
        second.stderr().contains("over_limit"),
        "{}",
        second.stderr()
    );
}

#[test]
fn a_wrong_configuration_is_reported_with_file_and_line() {
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
fn a_limit_is_refused_outside_of_its_range_with_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let check = |key: &str, value: &str| {
        fs::write(&path, format!("[serve]\n{key} = {value}\n")).unwrap();
        run(&["config", "check", path.to_str().unwrap()])
    };
    for (key, least, below, most, above) in [
        ("worker_threads", "1", "0", "1024", "1025"),
        ("max_body_bytes", "1024", "1023", "1048576", "1048577"),
        ("max_waiting", "0", "-1", "1000000000", "1000000001"),
        ("max_history", "1", "0", "10000", "99999999999999999999"),
        ("header_time", "\"10ms\"", "\"9ms\"", "\"5m\"", "\"301s\""),
    ] {
        for fine in [least, most] {
            let output = check(key, fine);
            assert_eq!(code(&output), 0, "{key} = {fine}: {output:?}");
        }
        let no_number = if key.ends_with("time") { "5" } else { "1.5" };
        for wrong in [below, above, no_number, "true", "[1]", "\"1\""] {
            let output = check(key, wrong);
            let said = stderr(&output);
            assert_eq!(code(&output), 2, "{key} = {wrong}: {said}");
            let place = format!("tenure.toml:2: {key} = {wrong}: ");
            assert!(said.contains(&place), "{said}");
            let range = match wrong {
                _ if [below, above].contains(&wrong) && key.ends_with("time") => {
                    "must be 10ms to 5m"
                }
                _ if key.ends_with("time") => "a number and a unit, such as \"15s\"",
                _ => &format!("must be a whole number, {least} to {most}"),
            };
            assert!(said.contains(range), "{said}");
        }
    }
}

#[test]
fn each_value_in_effect_is_shown_with_its_origin() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let text = "election = \"billing/nightly\"\nlease_duration = \"30s\"\n[metadata]\nzone = \"a\"\n\
        [serve]\nhome = \"memory\"\n";
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
        ("serve", "home", json!("memory"), format!("{file}:6")),
    ] {
        assert_eq!(
            shown[part][key],
            json!({"value": value, "origin": origin}),
            "{key}: {shown}"
        );
    }
    let text = stdout(&show(&[]));
    assert!(
        text.starts_with("KEY ") && text.contains("serve.home"),
        "{text}"
    );
    assert_eq!(
        code(&show(&["--lease-duration", "4s"])),
        2,
        "a stop grace of 5s is too long"
    );
}
