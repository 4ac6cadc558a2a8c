//! Tests of the steps from an empty machine to a running leader, with the commands of the
//! documents.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tenure_tests::process::{Process, output};
use tenure_tests::wait_for;

use crate::{Place, read};

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
