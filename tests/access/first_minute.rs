//! Tests of the steps from an empty machine to a running leader, with the commands of the
//! documents.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::tls::TlsInfo;
use reqwest::{Certificate, Client};
use tenure_tests::process::{Process, output};
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

use crate::tokens::{candidate, create, wait_until_leads};
use crate::{Place, read, wait_for_count};

/// Returns all files with their contents.
fn snapshot(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![place.folder.path().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).expect("a file");
                files.insert(path, bytes);
            }
        }
    }
    files
}

#[test]
fn a_leader_runs_within_a_minute_and_no_secret_is_seen() {
    let (place, start) = (Place::new(), Instant::now());
    let printed = place.init();
    let store = place.serve();
    place.succeed(&["list"]);
    let bundle = place.create("worker");
    let token = read(&place.path("worker.toml"));
    let token = token
        .lines()
        .find_map(|line| line.strip_prefix("token = \"tnr1_"));
    let token = token.expect("a token").trim_end_matches('"').to_owned();
    let script = "cat /proc/$PPID/cmdline; env; cat /proc/self/environ";
    let mut run = place.command(&[
        "run",
        "--once",
        "--config",
        &bundle,
        "--election",
        "tests/job",
        "--",
        "sh",
        "-c",
        script,
    ]);
    run.env("TENURE_LOG", "debug");
    let ran = output(&mut run);
    assert!(ran.status.success(), "{ran:?}");
    assert!(start.elapsed() < Duration::from_secs(60));
    // The token in the environment of the candidate is not in the environment of its command.
    let (whole, ca) = (format!("tnr1_{token}"), place.text("etc/tls/ca.pem"));
    let url = place.url();
    let mut run = place.command(&[
        "run",
        "--once",
        "--server",
        &url,
        "--ca-file",
        &ca,
        "--election",
        "tests/job",
        "--",
        "env",
    ]);
    let by_variable = output(run.env("TENURE_TOKEN", whole));
    assert!(by_variable.status.success(), "{by_variable:?}");
    for seen in [
        printed.as_bytes(),
        store.stdout().as_bytes(),
        store.stderr().as_bytes(),
        &ran.stdout,
        &ran.stderr,
        &by_variable.stdout,
        &by_variable.stderr,
    ] {
        let text = String::from_utf8_lossy(seen);
        assert!(!text.contains(&token) && !text.contains("tnr1_"), "{text}");
    }
    for (name, mode) in [
        ("etc/access.toml", 0o640),
        ("etc/tls/store.key", 0o600),
        ("etc/tls/ca.key", 0o600),
        ("home/tenure/config.toml", 0o600),
        ("worker.toml", 0o600),
    ] {
        let metadata = fs::metadata(place.path(name)).expect("a file");
        let found = metadata.mode() & 0o777;
        // The group of the service may read the key.
        assert!(
            found == mode || name.ends_with("store.key") && found == 0o640,
            "{name}"
        );
    }
    assert!(place.path("data/GUARDED").exists());
}

#[test]
fn a_second_init_changes_nothing() {
    let place = Place::new();
    place.init();
    let before = snapshot(&place);
    let (dir, data) = (place.text("etc"), place.text("data"));
    let again = [
        "init",
        "--name",
        "localhost",
        "--dir",
        &dir,
        "--data-dir",
        &data,
    ];
    let error = place.fail(2, &again);
    assert!(error.contains("exists already"), "{error}");
    // The file contains only the context of the administrator.
    let other = place.text("other");
    let error = place.fail(2, &["init", "--dir", &other, "--data-dir", &data]);
    assert!(error.contains("--context-file"), "{error}");
    assert_eq!(snapshot(&place), before);
}

#[test]
fn a_renewed_certificate_is_of_the_same_authority() {
    let place = Place::new();
    place.init();
    let _store = place.serve();
    let before = snapshot(&place);
    let listen = format!("0.0.0.0:{}", place.port);
    let dir = place.text("etc");
    place.succeed(&[
        "init",
        "--renew",
        "--name",
        "localhost",
        "--dir",
        &dir,
        "--listen",
        &listen,
    ]);
    let after = snapshot(&place);
    let changed = before
        .iter()
        .filter(|(path, bytes)| after[*path] != **bytes);
    let changed: Vec<_> = changed.map(|(path, _)| path.file_name().unwrap()).collect();
    assert_eq!(changed, ["store.key", "store.pem"]);
    drop(_store);
    let store =
        Process::spawn(&mut place.command(&["serve", "--config", &place.text("etc/tenure.toml")]));
    wait_for("the start", || {
        store.stdout().contains("listening").then_some(())
    });
    place.succeed(&["list"]);
}

/// Returns the certificate that the store presents to a new client, which trusts this CA only.
fn presented(place: &Place, ca: &str) -> Vec<u8> {
    let ca = Certificate::from_pem(ca.as_bytes()).expect("a certificate");
    let client = Client::builder()
        .no_proxy()
        .tls_certs_only([ca])
        .tls_info(true);
    let client = client.build().expect("a client");
    let answer = client.get(format!("{}/livez", place.url())).send();
    let answer = Runtime::new().expect("a runtime").block_on(answer);
    let answer = answer.expect("an answer");
    let info = answer.extensions().get::<TlsInfo>().expect("TLS");
    info.peer_certificate().expect("a certificate").to_owned()
}

#[test]
fn a_certificate_is_renewed_under_a_store_and_a_leader() {
    let place = Place::new();
    place.init();
    let token = create(&place, "worker");
    let store = place.serve();
    let leader = candidate(&place, "one", &token);
    wait_until_leads(&leader);
    let ca = read(&place.path("etc/tls/ca.pem"));
    let before = presented(&place, &ca);
    let dir = place.text("etc");
    for count in 1..=2 {
        // Without names the command uses the names of the old certificate.
        let renewed = place.succeed(&["init", "--renew", "--dir", &dir]);
        assert!(renewed.contains("  localhost, "), "{renewed}");
        store.signal(Signal::SIGHUP);
        wait_for_count(&store, "certificate reloaded for new connections", count);
    }
    assert_ne!(presented(&place, &ca), before);
    assert_eq!(read(&place.path("etc/tls/ca.pem")), ca);
    // New clients with the previous files reach the store.
    let waiter = candidate(&place, "two", &token);
    wait_for("a waiter", || {
        let status = place.succeed(&["status", "tests/job", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        (status["waiters"] == 1).then_some(())
    });
    // A term without renewals would end within the lease duration.
    thread::sleep(Duration::from_secs(4));
    assert_eq!(place.terms("tests/job"), 1);
    assert!(!waiter.stdout().contains("leads"));
    assert!(
        !store.stderr().contains("can't reload"),
        "{}",
        store.stderr()
    );
}
