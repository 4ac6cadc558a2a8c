//! Tests of the store with the official Azure SDKs for Python and JavaScript, also across a kill
//! and a restart of the store. The emulator gets the same requests.
//!
//! They need Python with the packages of `requirements.txt`, and Node with those of `package.json`:
//! `TENURE_AZURE_PYTHON` names an interpreter, and `TENURE_AZURE_NODE` a folder with `node_modules`
//! (`.ci/run` makes both). Without them these tests print a message and pass; if `CI=true`, they
//! fail.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use tenure_tests::azurite::Azurite;
use tenure_tests::needs::{can_run, output_of};
use tenure_tests::process::{Process, command, output};
use tenure_tests::wait_for;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/azure/suite.py");
const KILLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/azure/killed.py");
const SECURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/azure/secure.py");
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/azure/files.py");
const PATTERN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/azure/pattern.js");
const ELECTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/azure_leader.py");

/// An interpreter with the SDK, for this test.
fn python(test: &str) -> Option<String> {
    let named = std::env::var("TENURE_AZURE_PYTHON").ok();
    let python = named.unwrap_or_else(|| "python3".into());
    let has_it =
        output_of(Command::new(&python).args(["-c", "import azure.storage.blob, adlfs"])).is_some();
    let needs = "the packages of tests/azure/requirements.txt, in a virtual environment whose python \
                 TENURE_AZURE_PYTHON names";
    can_run(test, needs, has_it).then_some(python)
}

/// Node with the SDK, for this test.
fn node(test: &str) -> Option<Command> {
    let folder = std::env::var("TENURE_AZURE_NODE").unwrap_or_else(|_| ".".into());
    let node = || {
        let mut node = Command::new("node");
        node.env("NODE_PATH", Path::new(&folder).join("node_modules"));
        node
    };
    let has_it = output_of(node().args(["-e", "require('@azure/storage-blob')"])).is_some();
    let needs =
        "the packages of tests/azure/package.json, in a folder that TENURE_AZURE_NODE names";
    can_run(test, needs, has_it).then(node)
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
    // The clients write some bodies and blocks that are larger than the default permits.
    let mut serve = command(&arguments);
    let process = Process::spawn(serve.env("TENURE_AZURE_MAX_BLOB_BYTES", "1048576"));
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
fn every_cell_of_azures_table_holds_for_the_official_sdk() {
    let Some(python) = python("every_cell_of_azures_table_holds_for_the_official_sdk") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (_store, url) = serve(folder.path(), "127.0.0.1:0");
    // The suite waits for real expiries, which takes longer than the usual limit for a process.
    let ran = Command::new(python).args([SUITE, &url]).output();
    let text = assert_success(&ran.expect("the suite runs"));
    let count = text
        .lines()
        .last()
        .and_then(|line| line.split(' ').next()?.parse::<u32>().ok());
    assert!(count.is_some_and(|count| count > 500), "{text}");
}

/// The emulator gets the same requests: it differs only where `azurite.txt` and `docs/azure.md`
/// describe it.
#[test]
fn azurite_differs_only_where_documented() {
    let Some(azurite) = Azurite::start("azurite_differs_only_where_documented") else {
        return;
    };
    let Some(python) = python("azurite_differs_only_where_documented") else {
        return;
    };
    let url = format!("http://{}", azurite.address());
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/azure/azurite.txt");
    let ran = Command::new(python).args([SUITE, &url, known]).output();
    assert_success(&ran.expect("the suite runs"));
}

#[test]
fn the_official_sdk_for_javascript_elects_by_the_pattern() {
    let Some(mut node) = node("the_official_sdk_for_javascript_elects_by_the_pattern") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (_store, url) = serve(folder.path(), "127.0.0.1:0");
    assert_success(&output(node.args([PATTERN, &url])));
}

#[test]
fn a_file_system_on_blobs_writes_reads_and_removes_files() {
    let Some(python) = python("a_file_system_on_blobs_writes_reads_and_removes_files") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (_store, url) = serve(folder.path(), "127.0.0.1:0");
    assert_success(&output(Command::new(python).args([FILES, &url])));
}

#[test]
fn the_official_sdk_works_over_tls_with_keys_and_with_tokens() {
    let Some(python) = python("the_official_sdk_works_over_tls_with_keys_and_with_tokens") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
    let made = made.expect("a certificate");
    let (pem, keys) = (path("both.pem"), path("keys.json"));
    let both = made.cert.pem() + &made.signing_key.serialize_pem();
    fs::write(&pem, both).expect("a file");
    // The public key of the key with which the program signs its tokens.
    let set = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519",
        "x": "I7xUkSwebpLEqGglyGfif_3FVb_71CRPF6Jqv__ull0"}]}"#;
    fs::write(&keys, set).expect("a file");
    let mut serve = command(&["serve", "--azure-dev", "--home", "memory"]);
    serve
        .args(["--listen", "127.0.0.1:0"])
        .args(["--tls-certificate", &pem, "--tls-key", &pem])
        .env("TENURE_AZURE_BEARER_KEYS", &keys)
        .env("TENURE_AZURE_BEARER_ISSUER", "https://issuer");
    let store = Process::spawn(&mut serve);
    let url = wait_for("the store", || {
        let stdout = store.stdout();
        let line = stdout.lines().next()?;
        Some(line.strip_prefix("listening on ")?.to_owned())
    });
    assert_success(&output(Command::new(python).args([SECURE, &url, &pem])));
}

#[test]
fn a_holder_can_renew_after_a_kill_and_restart_of_the_store() {
    let Some(python) = python("a_holder_can_renew_after_a_kill_and_restart_of_the_store") else {
        return;
    };
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
fn the_sample_of_the_pattern_elects_one_leader_after_the_other() {
    let Some(python) = python("the_sample_of_the_pattern_elects_one_leader_after_the_other") else {
        return;
    };
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
        // The leader releases the lease at its end.
        let mut process = candidates.remove(leader);
        process.signal(Signal::SIGTERM);
        assert!(process.wait().success(), "{}", process.stderr());
    }
}

#[test]
fn the_development_account_works_on_loopback_addresses_only() {
    let output = output(&mut command(&[
        "serve",
        "--azure-dev",
        "--listen",
        "0.0.0.0:0",
    ]));
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.contains("--azure-dev") && stderr.contains("loopback"),
        "{stderr}"
    );
}

#[test]
fn invalid_accounts_are_refused_without_showing_their_keys() {
    for (accounts, part) in [
        ("", "accounts is not set"),
        ("good", "has 0 keys"),
        ("good:c2VjcmV0", "key 1 must be base64 of 16 bytes"),
        ("No:c2VjcmV0c2VjcmV0c2VjcmV0", "lower-case"),
    ] {
        let mut serve = command(&["serve", "--azure", "--listen", "127.0.0.1:0"]);
        let output = output(serve.env("TENURE_AZURE_ACCOUNTS", accounts));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains(part) && !stderr.contains("c2Vjc"),
            "{stderr}"
        );
    }
}
