//! The official Azure SDK for Python against the store, which also dies and comes back.
//!
//! It needs Python and the packages of `requirements.txt`: `TENURE_AZURE_PYTHON` names an interpreter
//! that has them (`.ci/run` makes one). Without it these tests say so and pass; where `CI=true`, they fail.

use std::path::Path;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use tenure_tests::azurite::Azurite;
use tenure_tests::process::{Process, command, output};
use tenure_tests::wait_for;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/azure/suite.py");
const KILLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/azure/killed.py");
const ELECTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/azure_leader.py");

/// An interpreter that has the SDK.
fn python() -> Option<String> {
    let named = std::env::var("TENURE_AZURE_PYTHON").ok();
    let python = named.unwrap_or_else(|| "python3".into());
    let has_it = Command::new(&python)
        .args(["-c", "import azure.storage.blob"])
        .output()
        .is_ok_and(|output| output.status.success());
    if has_it {
        return Some(python);
    }
    let how = "make a virtual environment with tests/azure/requirements.txt and name its python in \
               TENURE_AZURE_PYTHON";
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!is_ci, "{python} has no azure-storage-blob: {how}");
    eprintln!("NOT TESTED: {python} has no azure-storage-blob: {how}");
    None
}

fn serve(folder: &Path, listen: &str) -> (Process, String) {
    let folder = folder.to_str().expect("a path of text");
    let arguments = [
        "serve",
        "--azure-dev",
        "--listen",
        listen,
        "--data-dir",
        folder,
    ];
    let process = Process::start(&arguments);
    let url = wait_for("the store", || {
        let stdout = process.stdout();
        let line = stdout.lines().next()?;
        Some(line.strip_prefix("listening on ")?.to_owned())
    });
    (process, url)
}

fn assert_success(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

#[test]
fn the_official_sdk_finds_every_cell_as_azure_documents_it() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (_store, url) = serve(folder.path(), "127.0.0.1:0");
    // It waits for leases that really expire, which is longer than other tests wait for a process.
    let ran = Command::new(python).args([SUITE, &url]).output();
    let text = assert_success(&ran.expect("the suite runs"));
    let count = text
        .lines()
        .last()
        .and_then(|line| line.split(' ').next()?.parse::<u32>().ok());
    assert!(count.is_some_and(|count| count > 500), "{text}");
}

/// Azurite is the emulator of Azure's storage (the npm package `azurite`). Where it is installed, the same
/// requests go to it: it differs where `azurite.txt` and `docs/azure.md` say so, and nowhere else.
#[test]
fn azurite_differs_only_where_the_documents_say_so() {
    let Some(azurite) = Azurite::start() else {
        return;
    };
    let Some(python) = python() else { return };
    let url = format!("http://{}", azurite.address());
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/azure/azurite.txt");
    let ran = Command::new(python).args([SUITE, &url, known]).output();
    assert_success(&ran.expect("the suite runs"));
}

#[test]
fn a_store_that_is_killed_between_acquire_and_renewal_lets_the_holder_go_on() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (mut store, url) = serve(folder.path(), "127.0.0.1:0");
    let killed =
        |step: &str| assert_success(&output(Command::new(&python).args([KILLED, &url, step])));
    killed("acquire");
    for _ in 0..3 {
        store.signal(Signal::SIGKILL);
        store.wait();
        let listen = url.strip_prefix("http://").expect("a URL");
        store = serve(folder.path(), listen).0;
        killed("go-on");
    }
}

#[test]
fn the_pattern_s_sample_elects_one_leader_after_the_other() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (_store, url) = serve(folder.path(), "127.0.0.1:0");
    let start = || {
        let mut command = Command::new(&python);
        command.args(["-u", ELECTION, &url]);
        Process::spawn(&mut command)
    };
    let leads = |process: &Process| process.stdout().contains("leading with epoch");
    let mut candidates = vec![start(), start(), start()];
    for _ in 0..2 {
        let leader = wait_for("a leader", || candidates.iter().position(&leads));
        assert_eq!(
            candidates.iter().filter(|process| leads(process)).count(),
            1
        );
        // It gives the lease up at its end.
        let mut process = candidates.remove(leader);
        process.signal(Signal::SIGTERM);
        assert!(process.wait().success(), "{}", process.stderr());
    }
}

#[test]
fn the_development_account_is_for_loopback_addresses_alone() {
    let output = output(&mut command(&[
        "serve",
        "--azure-dev",
        "--listen",
        "0.0.0.0:0",
    ]));
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("--azure-dev") && said.contains("loopback"),
        "{said}"
    );
}

#[test]
fn accounts_that_can_t_be_are_refused_without_showing_their_keys() {
    for (accounts, part) in [
        ("", "accounts is not set"),
        ("good", "has 0 keys"),
        ("good:c2VjcmV0", "key 1 must be base64 of 16 bytes"),
        ("No:c2VjcmV0c2VjcmV0c2VjcmV0", "lower-case"),
    ] {
        let mut serve = command(&["serve", "--azure", "--listen", "127.0.0.1:0"]);
        let output = output(serve.env("TENURE_AZURE_ACCOUNTS", accounts));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part) && !said.contains("c2Vjc"), "{said}");
    }
}
