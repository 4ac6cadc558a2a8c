//! `tenure cluster` against a store that is in no cluster, and against no store.

use tenure_tests::process::run;

use super::{Bench, code, stderr};

#[test]
fn a_store_that_is_in_no_cluster_is_named_as_such() {
    let bench = Bench::new();
    let url = bench.store.url();
    let url = url.as_str();
    for arguments in [
        &["cluster", "status", "--server", url][..],
        &["cluster", "status", "--json", "--server", url],
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 3, "{output:?}");
        assert!(stderr(&output).contains("is not a cluster"), "{output:?}");
    }
    let output = run(&["cluster", "hand-over", "--server", url]);
    assert_eq!(code(&output), 3, "{output:?}");
    let output = run(&["cluster", "status", "--server", "http://127.0.0.1:1"]);
    assert_eq!(code(&output), 69, "{output:?}");
}

#[test]
fn a_recovery_is_never_made_by_accident() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    let text = "[serve]\nhome = \"etcd://127.0.0.1:1\"\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let output = run(&["cluster", "recover", "--config", file]);
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(stderr(&output).contains("--yes"), "{output:?}");
    // A home that can't be reached is one thing, a wrong setting another.
    for arguments in [
        &["cluster", "recover", "--yes", "--config", file][..],
        &["cluster", "init", "--config", file],
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 69, "{output:?}");
    }
    std::fs::write(file, "[serve]\nhome = \"memory\"\n").unwrap();
    let output = run(&["cluster", "init", "--config", file]);
    assert_eq!(code(&output), 2, "{output:?}");
}
