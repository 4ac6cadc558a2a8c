//! `tenure backup` and `tenure restore`, with a store that runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::process::{self, StoreProcess, command, run};

use super::{acquire, ask, stderr, stdout};

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn backup(data: &Path, file: &Path, more: &[&str]) -> Output {
    run(&[&["backup", path(file), "--data-dir", path(data)], more].concat())
}

fn restore(file: &Path, data: &Path, more: &[&str]) -> Output {
    run(&[&["restore", path(file), "--data-dir", path(data)], more].concat())
}

/// The JSON document of a command that has succeeded.
fn json_of(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    process::json_of(output)
}

fn release(store: &StoreProcess, lease: &str, granted: &Value) {
    let proof = json!({"lease_id": granted["lease_id"]});
    let (status, view) = ask(store.address(), "POST", &format!("{lease}/release"), &proof);
    assert_eq!(status, 200, "{view}");
}

#[test]
fn a_store_is_backed_up_under_load_killed_and_restored_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("leases.backup");
    let mut store = StoreProcess::start(&data);
    let address = store.address();
    let kept = acquire(address, "tests/kept", "leader");
    // A client acquires and releases until the store is killed.
    let busy = thread::spawn(move || {
        let mut last = 0;
        loop {
            let body = json!({"holder": "busy", "duration_ms": 60_000});
            let path = "tests/leases/busy/acquire";
            let asked = std::panic::catch_unwind(|| ask(address, "POST", path, &body));
            let Ok((200, view)) = asked else {
                return last;
            };
            last = view["epoch"].as_u64().unwrap();
            let proof = json!({"lease_id": view["lease_id"]});
            let path = "tests/leases/busy/release";
            let _ = std::panic::catch_unwind(|| ask(address, "POST", path, &proof));
        }
    });
    let mut revision = 0;
    for _ in 0..5 {
        let before = acquire(address, "tests/mark", "marker");
        let contents = json_of(&backup(&data, &file, &["--force", "--json"]));
        release(&store, "tests/leases/mark", &before);
        assert!(contents["revision"].as_u64() >= before["revision"].as_u64());
        assert!(contents["last_epoch"].as_u64() >= before["epoch"].as_u64());
        assert!(contents["revision"].as_u64() > Some(revision), "{contents}");
        revision = contents["revision"].as_u64().unwrap();
        assert_eq!(contents["longest_ms"], 60_000);
    }
    store.process.signal(Signal::SIGKILL);
    store.process.wait();
    let last = busy.join().unwrap();

    // The backups have not damaged the log.
    let mut store = StoreProcess::start(&data);
    let (_, view) = ask(store.address(), "GET", "tests/leases/kept", &Value::Null);
    assert_eq!(view["epoch"], kept["epoch"]);
    let (_, view) = ask(store.address(), "GET", "tests/leases/busy", &Value::Null);
    assert!(
        view["epoch"].is_null() || view["epoch"].as_u64() >= Some(last),
        "{view}"
    );
    store.process.signal(Signal::SIGTERM);
    assert!(store.process.wait().success());

    let elsewhere = folder.path().join("elsewhere");
    let contents = json_of(&restore(&file, &elsewhere, &["--json"]));
    assert_eq!(contents["revision"].as_u64(), Some(revision));
    assert!(contents["epochs_above"].as_u64() > Some(last));
    assert!(contents["revisions_above"].as_u64() > contents["revision"].as_u64());
    let store = StoreProcess::start(&elsewhere);
    let proof = json!({"lease_id": kept["lease_id"]});
    let (status, view) = ask(store.address(), "POST", "tests/leases/kept/renew", &proof);
    assert_eq!((status, &view["epoch"]), (200, &kept["epoch"]), "{view}");
    release(&store, "tests/leases/kept", &kept);
    for lease in ["tests/kept", "tests/never-before"] {
        let granted = acquire(store.address(), lease, "next");
        assert!(granted["epoch"].as_u64() > Some(last), "{granted}");
    }
}

#[test]
fn backup_and_restore_print_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("leases.backup");
    let store = StoreProcess::start(&data);
    acquire(store.address(), "tests/job", "leader");
    let output = backup(&data, &file, &[]);
    let said = stdout(&output);
    for part in [
        "leases.backup: 1 leases, 1 of them held",
        "greatest epoch",
        "secret",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let elsewhere = folder.path().join("elsewhere");
    let said = stdout(&restore(&file, &elsewhere, &[]));
    for part in [
        "elsewhere: 1 leases",
        "epochs continue above",
        "old store is stopped",
        "1m",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn an_impossible_backup_or_restore_has_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("leases.backup");
    let store = StoreProcess::start(&data);
    acquire(store.address(), "tests/job", "leader");
    assert_eq!(backup(&data, &file, &[]).status.code(), Some(0));
    let refused = |output: &Output, code: i32, parts: &[&str]| {
        let said = stderr(output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(output.stdout.is_empty());
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
    };
    refused(
        &backup(&data, &file, &[]),
        1,
        &["leases.backup exists", "--force"],
    );
    let inside = data.join("x");
    refused(&backup(&data, &inside, &[]), 2, &["in the store's folder"]);
    let nothing = folder.path().join("nothing");
    refused(
        &backup(&nothing, &file, &["--force"]),
        2,
        &["no store in", "nothing"],
    );
    refused(&restore(&file, &data, &[]), 1, &["another store uses"]);
    let mut usual = command(&["restore", path(&file)]);
    refused(&usual.output().unwrap(), 2, &["--data-dir"]);
    fs::write(&file, "words").unwrap();
    let elsewhere = folder.path().join("elsewhere");
    refused(
        &restore(&file, &elsewhere, &[]),
        65,
        &["leases.backup", "damaged"],
    );

    // An interrupted restore.
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("snapshot.restoring"), "").unwrap();
    let listen = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        path(&elsewhere),
    ];
    refused(&run(&listen), 65, &["snapshot.restoring", "repeat it"]);
}

#[test]
fn a_copied_data_directory_is_refused_until_it_is_accepted_with_greater_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let [data, copy] = ["data", "copy"].map(|name| folder.path().join(name));
    let store = StoreProcess::start(&data);
    let granted = acquire(store.address(), "tests/kept", "leader");
    let mut cp = Command::new("cp");
    assert!(
        cp.arg("-a")
            .args([&data, &copy])
            .status()
            .unwrap()
            .success()
    );
    let refused = run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        path(&copy),
    ]);
    assert_eq!(refused.status.code(), Some(65), "{refused:?}");
    let text = stderr(&refused);
    let command = format!("tenure restore {}", copy.display());
    for part in [path(&copy), path(&data), "is a copy of", &command] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The folder of the other store is none.
    drop(store);
    let own = run(&["restore", path(&data)]);
    assert_ne!(own.status.code(), Some(0), "{own:?}");

    let accepted = json_of(&run(&["restore", path(&copy), "--json"]));
    assert_eq!(accepted["held"], 1, "{accepted}");
    let above = accepted["epochs_above"].as_u64().unwrap();
    assert!(above > granted["epoch"].as_u64().unwrap(), "{accepted}");
    for data in [&data, &copy] {
        let store = StoreProcess::start(data);
        let (_, view) = ask(store.address(), "GET", "tests/leases/kept", &Value::Null);
        assert_eq!(view["epoch"], granted["epoch"], "{view}");
        let next = acquire(store.address(), "tests/next", "leader");
        let is_above = next["epoch"].as_u64() > Some(above);
        assert_eq!(is_above, data == &copy, "{next}");
    }
}
