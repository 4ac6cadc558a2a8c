//! Invalid configurations and states.

use std::fs;

use tenure_tests::process::{command, output};

use super::group;
use super::three::free_addresses;

/// The stderr of a member that cannot start.
fn refusal(run: &mut std::process::Command) -> String {
    let output = output(run);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn invalid_settings_are_refused_with_their_names() {
    let group = group();
    let mut run = group.run(1);
    let key = group.folder().join("key");
    fs::remove_file(&key).unwrap();
    let stderr = refusal(&mut run);
    let named = stderr.contains("--key-file") && stderr.contains(key.to_str().unwrap());
    assert!(named, "{stderr}");
}

#[test]
fn a_damaged_or_missing_state_file_is_a_data_error() {
    let state = tempfile::tempdir().unwrap();
    let address = &free_addresses(1)[0];
    let mut alone = command(&["run", "--election", "tests/job", "--strategy", "bully"]);
    alone
        .args(["--node", "1", "--peers", &format!("1=http://{address}")])
        .args(["--once", "--state-dir"])
        .arg(state.path())
        .args(["--", "true"])
        .env("TENURE_BULLY_LISTEN", address)
        .env("TENURE_BULLY_KEY", "a secret of the environment");
    assert_eq!(output(&mut alone).status.code(), Some(0));
    let record = state.path().join("record");
    let before = fs::read(&record).unwrap();
    fs::write(&record, &before[..before.len() - 2]).unwrap();
    let damaged = output(&mut alone);
    assert_eq!(damaged.status.code(), Some(65), "{damaged:?}");
    fs::remove_file(&record).unwrap();
    let gone = output(&mut alone);
    assert_eq!(gone.status.code(), Some(65), "{gone:?}");
    fs::write(&record, before).unwrap();
    assert_eq!(output(&mut alone).status.code(), Some(0));
}
