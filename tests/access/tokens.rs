//! Tests of tokens of candidates and of people.

use std::fs;
use std::os::unix::fs::chown;
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Uid;
use tenure_tests::needs::can_run;
use tenure_tests::process::{Process, output};
use tenure_tests::wait_for;

use crate::{Place, read};

pub(crate) fn candidate(place: &Place, name: &str, token: &str) -> Process {
    let (url, ca) = (place.url(), place.text("etc/tls/ca.pem"));
    let script = format!("echo {name} leads; while true; do sleep 0.1; done");
    Process::spawn(&mut place.command(&[
        "run",
        "--server",
        &url,
        "--ca-file",
        &ca,
        "--token-file",
        token,
        "--election",
        "tests/job",
        "--candidate",
        name,
        "--lease-duration",
        "3s",
        "--",
        "sh",
        "-c",
        &script,
    ]))
}

pub(crate) fn wait_until_leads(process: &Process) {
    wait_for("a leader", || {
        process.stdout().contains("leads").then_some(())
    });
}

pub(crate) fn create(place: &Place, name: &str) -> String {
    let token = place.text(&format!("{name}.token"));
    place.token_command(&[
        "create",
        name,
        "--role",
        "candidate",
        "--namespace",
        "tests",
        "--output",
        &token,
    ]);
    token
}

#[test]
fn a_token_is_rotated_under_a_leader() {
    let place = Place::new();
    place.init();
    let store = place.serve();
    let token = create(&place, "worker");
    let leader = candidate(&place, "one", &token);
    wait_until_leads(&leader);
    let old = place.id_of("worker");
    let next = place.text("next.token");
    place.token_command(&["rotate", "worker", "--output", &next]);
    fs::rename(&next, &token).expect("the new token");
    place.token_command(&["revoke", &old]);
    wait_for("a reload", || {
        let reloads = store.stderr().matches("access file reloaded").count();
        (reloads >= 2).then_some(())
    });
    // The candidate reads the new token when the store refuses the old one. A term without renewals
    // would end within the lease duration.
    thread::sleep(Duration::from_secs(4));
    assert_eq!(place.terms("tests/job"), 1);
    assert!(
        !leader.stderr().contains("can't read"),
        "{}",
        leader.stderr()
    );
}

#[test]
fn a_revoked_leader_leads_until_its_renew_deadline_and_another_follows() {
    let place = Place::new();
    place.init();
    let _store = place.serve();
    let (one, two) = (create(&place, "one"), create(&place, "two"));
    let first = candidate(&place, "one", &one);
    wait_until_leads(&first);
    let second = candidate(&place, "two", &two);
    wait_for("a waiter", || {
        let list = place.succeed(&["status", "tests/job", "--json"]);
        let view: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        (view["waiters"] == 1).then_some(())
    });
    let revoked = Instant::now();
    place.token_command(&["revoke", "--principal", "one"]);
    wait_until_leads(&second);
    // The renew deadline is 2 s after the last renewal that succeeded.
    assert!(
        revoked.elapsed() > Duration::from_millis(900),
        "{:?}",
        revoked.elapsed()
    );
    assert!(revoked.elapsed() < Duration::from_secs(15));
    wait_for("the reason", || {
        first.stderr().contains("unauthenticated").then_some(())
    });
}

#[test]
fn a_candidate_that_is_never_let_in_ends_with_77() {
    let place = Place::new();
    place.init();
    let store = place.serve();
    let token = create(&place, "worker");
    let (url, ca) = (place.url(), place.text("etc/tls/ca.pem"));
    let run = |election: &str, more: &[&str]| {
        let run = [
            "run",
            "--server",
            &url,
            "--ca-file",
            &ca,
            "--election",
            election,
        ];
        let rest = ["--", "true"];
        place.fail(77, &[&run[..], more, &rest].concat())
    };
    let error = run("tests/job", &[]);
    assert!(
        error.contains("no token is set") && error.contains("unauthenticated"),
        "{error}"
    );
    place.wait_until_known(&token);
    let error = run("other/job", &["--token-file", &token]);
    for part in ["forbidden", "other/job", "\"worker\"", "worker.token"] {
        assert!(error.contains(part), "{error}");
    }
    place.token_command(&["revoke", "--principal", "worker"]);
    // Requests to the store would count as failures of this address.
    wait_for("the revocation", || {
        let reloads = store.stderr().matches("access file reloaded").count();
        (reloads >= 2).then_some(())
    });
    let error = run("tests/job", &["--token-file", &token]);
    assert!(error.contains("unauthenticated"), "{error}");
}

#[test]
fn a_token_is_not_sent_to_another_machine_without_tls() {
    let place = Place::new();
    place.init();
    let token = create(&place, "worker");
    let server = ["--server", "http://10.0.0.1:7400", "--token-file", &token];
    let error = place.fail(2, &[&["list"], &server[..]].concat());
    assert!(error.contains("unencrypted"), "{error}");
    let run = [
        &["run", "--election", "tests/job"],
        &server[..],
        &["--", "true"],
    ]
    .concat();
    let error = place.fail(2, &run);
    assert!(error.contains("unencrypted"), "{error}");
}

#[test]
fn a_configuration_with_a_token_is_for_its_owner_and_the_group_of_a_file_of_root() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    place.init();
    let bundle = place.create("worker");
    fs::set_permissions(&bundle, fs::Permissions::from_mode(0o644)).expect("another mode");
    let error = place.fail(2, &["list", "--config", &bundle]);
    assert!(
        error.contains("chmod go-rwx") && !error.contains("tnr1_"),
        "{error}"
    );
    let run = [
        "run",
        "--election",
        "tests/job",
        "--config",
        &bundle,
        "--",
        "true",
    ];
    let error = place.fail(2, &run);
    assert!(error.contains(&format!("chmod go-rwx {bundle}")), "{error}");
    if can_run(
        "the group of a file of root",
        "root",
        Uid::effective().is_root(),
    ) {
        let store = place.serve();
        for mode in [0o640, 0o440] {
            fs::set_permissions(&bundle, fs::Permissions::from_mode(mode)).expect("another mode");
            place.succeed(&["list", "--namespace", "tests", "--config", &bundle]);
        }
        drop(store);
        chown(&bundle, Some(1), None).expect("another owner");
        let error = place.fail(2, &["list", "--config", &bundle]);
        assert!(error.contains("mode 0440"), "{error}");
    }
    // The check includes the contexts of a person, which contain tokens.
    let contexts = place.path("home/tenure/config.toml");
    fs::set_permissions(&contexts, fs::Permissions::from_mode(0o604)).expect("another mode");
    let error = place.fail(2, &["list"]);
    assert!(
        error.contains("chmod go-rwx") && !error.contains("tnr1_"),
        "{error}"
    );
}

#[test]
fn contexts_are_added_listed_and_used() {
    let place = Place::new();
    place.init();
    let _store = place.serve();
    let bundle = place.create("worker");
    place.succeed(&["context", "add", "as-worker", &bundle]);
    let list = place.succeed(&["context", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list[0]["name"], "as-worker", "{list}");
    assert_eq!(list[1]["current"], true, "{list}");
    place.succeed(&["list", "--namespace", "other"]);
    place.succeed(&["context", "use", "as-worker"]);
    place.fail(77, &["list", "--namespace", "other"]);
    place.succeed(&["list", "--namespace", "other", "--context", "default"]);
    place.fail(2, &["list", "--context", "nonsense"]);
    // The token of a context is sent to the store of that context only.
    let (url, ca) = (place.url(), place.text("etc/tls/ca.pem"));
    place.fail(77, &["list", "--server", &url, "--ca-file", &ca]);
    let text = read(&place.path("home/tenure/config.toml"));
    assert!(
        text.contains("[context.default]") && text.contains("[context.as-worker]"),
        "{text}"
    );
}

#[test]
fn a_token_command_names_what_is_wrong() {
    let place = Place::new();
    place.init();
    let file = place.text("etc/access.toml");
    let token = |arguments: &[&str]| {
        let arguments = [&["token"], arguments, &["--file", &file]].concat();
        output(&mut place.command(&arguments))
    };
    let before = read(&place.path("etc/access.toml"));
    for (arguments, code, part) in [
        (
            &["create", "ada", "--role", "read", "--namespace", "a"][..],
            2,
            "rotate ada",
        ),
        (
            &["create", "x", "--role", "boss", "--namespace", "a"],
            2,
            "read, candidate",
        ),
        (&["create", "x", "--role", "read"], 2, "namespace"),
        (&["create", "a b", "--role", "metrics"], 2, "visible ASCII"),
        (
            &[
                "create",
                "x",
                "--role",
                "metrics",
                "--output",
                "etc/access.toml",
            ],
            2,
            "exists already",
        ),
        (&["rotate", "nobody"], 3, "no principal"),
        (&["revoke", "aaaaaaaa"], 3, "no token"),
        (&["revoke", "--principal", "nobody"], 3, "no principal"),
    ] {
        let output = token(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
    assert_eq!(read(&place.path("etc/access.toml")), before);
    assert!(!place.path("x.token").exists());
}
