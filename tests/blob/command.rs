//! `tenure run` with the lease of a blob.

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

/// Writes its epoch again and again, so that an overlap would be visible.
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
fn a_killed_run_by_a_blob_has_a_successor_after_its_lease_and_commands_get_no_secrets() {
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
    // The last renewal was at most a renew interval plus a tenth before.
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
fn a_check_shows_the_blob_and_warns_of_a_signature_over_plain_http() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let check = |table: &str| {
        let text = format!("election = \"{ELECTION}\"\nstrategy = \"azure-blob\"\n{table}");
        fs::write(&path, text).unwrap();
        let output = output(&mut command(&["config", "check", path.to_str().unwrap()]));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = check("");
    assert!(
        shown.contains("blob       /tests/job; no credential is set here"),
        "{shown}"
    );
    let shown = check("[azure_blob]\nconnection_string = \"UseDevelopmentStorage=true\"");
    let blob = "blob       http://127.0.0.1:10000/devstoreaccount1/tests/job\n";
    assert!(
        shown.contains(blob) && !shown.contains("warning"),
        "{shown}"
    );
    let shown = check("[azure_blob]\nurl = \"http://store/acct\"\nsas = \"sv=1&sig=c2VjcmV0\"");
    assert!(
        shown.contains("blob       http://store/acct/tests/job\nwarning    plain http"),
        "{shown}"
    );
    assert!(!shown.contains("c2Vjc"), "{shown}");
}

#[test]
fn a_wrong_key_is_reported_and_commands_that_need_a_store_are_refused() {
    let store = LocalStore::start_with_azure();
    let mut run = command(&["run", "--election", ELECTION, "--strategy", "azure-blob"]);
    run.env("TENURE_AZURE_BLOB_ACCOUNT", "devstoreaccount1")
        .env("TENURE_AZURE_BLOB_KEY", "c2VjcmV0c2VjcmV0")
        .env(
            "TENURE_AZURE_BLOB_URL",
            format!("http://{}/devstoreaccount1", store.address()),
        );
    let refused = output(run.args(["--", "true"]));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    for part in ["403 AuthenticationFailed", "is the key", "request id"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(!stderr.contains("c2Vjc"), "{stderr}");

    for arguments in [
        &["list"][..],
        &["history", ELECTION],
        &["watch", ELECTION],
        &["break", ELECTION],
        &["handover", ELECTION, "--to", "x"],
    ] {
        let refused = output(&mut by_blob(&store, arguments));
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains("az storage blob lease break"), "{stderr}");
    }
    let free = output(&mut by_blob(&store, &["status", ELECTION]));
    assert_eq!(free.status.code(), Some(3), "{free:?}");
    let well = output(&mut by_blob(&store, &["doctor"]));
    assert_eq!(well.status.code(), Some(0), "{well:?}");
}
