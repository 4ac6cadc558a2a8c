//! `tenure run` by the lease of a blob.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tenure_tests::process::{Process, command, output};
use tenure_tests::store::LocalStore;
use tenure_tests::{Limit, wait_for};

use super::{ELECTION, connection_string};

/// Writes its epoch again and again, so that two leaders at once would be seen.
const BEAT: &str = r#"env > "$0.env"; while :; do echo "$TENURE_EPOCH" >> "$0"; sleep 0.02; done"#;

fn by_blob(store: &LocalStore, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("TENURE_STRATEGY", "azure-blob").env(
        "TENURE_AZURE_BLOB_CONNECTION_STRING",
        connection_string(store.address()),
    );
    command
}

fn beats(journal: &Path) -> Vec<u64> {
    let text = fs::read_to_string(journal).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

fn status(store: &LocalStore) -> Value {
    let output = output(&mut by_blob(store, &["status", ELECTION, "--json"]));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[test]
fn a_run_by_a_blob_that_is_killed_is_followed_after_its_lease_and_no_secret_is_passed_on() {
    let _limit = Limit::start();
    let store = LocalStore::start_with_azure();
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let run = |candidate: &str| {
        let mut run = by_blob(
            &store,
            &[
                "run",
                "--election",
                ELECTION,
                "--candidate",
                candidate,
                "--",
            ],
        );
        Process::spawn(run.args(["sh", "-c", BEAT]).arg(&journal))
    };
    let next = |after| {
        wait_for("the next leader's command", || {
            beats(&journal).into_iter().find(|epoch| *epoch > after)
        })
    };
    let first = run("first");
    let epoch = next(0);
    assert_eq!(status(&store)["holder"], "first");
    let environment = fs::read_to_string(folder.path().join("journal.env")).unwrap();
    assert!(environment.contains("TENURE_EPOCH="), "{environment}");
    assert!(!environment.contains("CONNECTION_STRING"), "{environment}");

    let mut second = run("second");
    let killed = Instant::now();
    first.signal(Signal::SIGKILL);
    let epoch = next(epoch);
    // It was renewed at most a renew interval and a tenth before.
    assert!(killed.elapsed() > Duration::from_millis(9_000));
    let lease = status(&store);
    assert_eq!(
        (&lease["holder"], &lease["epoch"]),
        (&"second".into(), &epoch.into())
    );
    assert!(beats(&journal).is_sorted(), "two commands ran at once");

    second.signal(Signal::SIGTERM);
    assert!(second.wait().success(), "{}", second.stderr());
    assert_eq!(status(&store)["state"], "available");
}

#[test]
fn a_check_tells_the_blob_and_warns_of_a_signature_that_others_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let check = |table: &str| {
        let text = format!("election = \"{ELECTION}\"\nstrategy = \"azure-blob\"\n{table}");
        fs::write(&path, text).unwrap();
        let output = output(&mut command(&["config", "check", path.to_str().unwrap()]));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let told = check("");
    assert!(
        told.contains("blob       /tests/job; no credential is set here"),
        "{told}"
    );
    let told = check("[azure_blob]\nconnection_string = \"UseDevelopmentStorage=true\"");
    let blob = "blob       http://127.0.0.1:10000/devstoreaccount1/tests/job\n";
    assert!(told.contains(blob) && !told.contains("warning"), "{told}");
    let told = check("[azure_blob]\nurl = \"http://store/acct\"\nsas = \"sv=1&sig=c2VjcmV0\"");
    assert!(
        told.contains("blob       http://store/acct/tests/job\nwarning    plain http"),
        "{told}"
    );
    assert!(!told.contains("c2Vjc"), "{told}");
}

#[test]
fn a_wrong_key_is_told_and_what_asks_a_store_is_refused() {
    let store = LocalStore::start_with_azure();
    let mut run = command(&["run", "--election", ELECTION, "--strategy", "azure-blob"]);
    run.env("TENURE_AZURE_BLOB_ACCOUNT", "devstoreaccount1")
        .env("TENURE_AZURE_BLOB_KEY", "c2VjcmV0c2VjcmV0")
        .env(
            "TENURE_AZURE_BLOB_URL",
            format!("http://{}/devstoreaccount1", store.address()),
        );
    let refused = output(run.args(["--", "true"]));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{said}");
    for part in ["403 AuthenticationFailed", "is the key", "request id"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("c2Vjc"), "{said}");

    for arguments in [
        &["list"][..],
        &["history", ELECTION],
        &["watch", ELECTION],
        &["break", ELECTION],
        &["handover", ELECTION, "--to", "x"],
    ] {
        let refused = output(&mut by_blob(&store, arguments));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("az storage blob lease break"), "{said}");
    }
    let nobody = output(&mut by_blob(&store, &["status", ELECTION]));
    assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
    let well = output(&mut by_blob(&store, &["doctor"]));
    assert_eq!(well.status.code(), Some(0), "{well:?}");
}
