//! What can't be.

use tenure_tests::process::output;

use super::group;

#[test]
fn what_can_not_be_is_refused_with_its_name() {
    let group = group();
    let mut run = group.run(1);
    let key = group.folder().join("key");
    std::fs::remove_file(&key).unwrap();
    let output = output(&mut run);
    assert!(!output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    let named = stderr.contains("--key-file") && stderr.contains(key.to_str().unwrap());
    assert!(named, "{stderr}");
}
