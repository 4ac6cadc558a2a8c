//! The addresses of a store: passwords in them are not shown, and proxies are not used.

use std::fs;
use std::process::Output;

use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command};
use tenure_tests::wait_for;

use super::{Bench, ELECTION, code, stderr, stdout};

const PASSWORD: &str = "open-sesame";

/// An address without a listener, with a user and a password.
fn nobody() -> String {
    format!("http://worker:{PASSWORD}@{}", free_address())
}

#[test]
fn a_password_in_an_address_is_shown_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (folder.path().join("right"), folder.path().join("wrong"));
    let servers = |url: &str| format!("servers = [\"{url}\"]\n");
    fs::write(&right, servers(&nobody())).unwrap();
    fs::write(&wrong, servers(&nobody().replace("http", "ftp"))).unwrap();
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    let assert_masked = |text: &str| {
        assert!(text.contains("worker:***@127.0.0.1"), "{text}");
        assert!(!text.contains(PASSWORD), "{text}");
    };
    for arguments in [
        &["config", "show"][..],
        &["config", "show", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["list"],
        &["status", ELECTION],
    ] {
        let output = command(arguments).args(["--config", right]).output();
        let output: Output = output.unwrap();
        assert_masked(&(stdout(&output) + &stderr(&output)));
    }
    let output = command(&["config", "check", wrong]).output().unwrap();
    assert_eq!(code(&output), 2, "{output:?}");
    assert_masked(&stderr(&output));

    let mut run = command(&["run", "--election", ELECTION, "--config", right]);
    let run = Process::spawn(run.args(["--", "true"]).env("RUST_LOG", "trace"));
    let logged = wait_for("a warning", || {
        let logged = run.stderr();
        logged.contains("retrying").then_some(logged)
    });
    assert_masked(&logged);
}

#[test]
fn a_proxy_in_the_environment_is_not_used() {
    let bench = Bench::new();
    let dead = nobody();
    let url = bench.store.url();
    let mut list = command(&["list", "--server", &url]);
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        list.env(name, &dead);
    }
    let output = list.env_remove("no_proxy").env_remove("NO_PROXY").output();
    let output = output.unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
}
