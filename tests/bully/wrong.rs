//! What can't be.

use tenure_tests::process::output;

use super::group;

/// What a member says that can not start.
fn refusal(run: &mut std::process::Command) -> String {
    let output = output(run);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_can_not_be_is_refused_with_its_name() {
    let group = group();
    let mut run = group.run(1);
    let key = group.folder().join("key");
    std::fs::remove_file(&key).unwrap();
    let stderr = refusal(&mut run);
    let named = stderr.contains("--key-file") && stderr.contains(key.to_str().unwrap());
    assert!(named, "{stderr}");
}

#[test]
fn a_state_folder_that_can_not_be_used_is_told_once() {
    let group = group();
    let file = group.folder().join("file");
    std::fs::write(&file, "").unwrap();
    let stderr = refusal(group.run(1).env("TENURE_BULLY_STATE_DIR", &file));
    assert!(stderr.contains("the state of this member"), "{stderr}");
    assert_eq!(
        stderr.matches(file.to_str().unwrap()).count(),
        1,
        "{stderr}"
    );
}
