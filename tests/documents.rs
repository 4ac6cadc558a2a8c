//! docs/promises.md names tests for promises: they must exist.

use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[test]
fn every_test_that_keeps_a_promise_exists() {
    let promises = fs::read_to_string(format!("{ROOT}/docs/promises.md")).expect("the promises");
    let sources = sources(Path::new(ROOT));
    let mut count = 0;
    for promise in promises.lines().filter(|line| is_promise(line)) {
        let quoted = promise.split('`').skip(1).step_by(2);
        let names: Vec<&str> = quoted.filter(|text| is_test_name(text)).collect();
        assert!(!names.is_empty(), "no test keeps {promise}");
        for name in &names {
            assert!(
                sources.iter().any(|source| has_test(source, name)),
                "docs/promises.md names a test {name} that does not exist, or is not run"
            );
        }
        count += names.len();
    }
    assert!(count > 20, "the table names its tests");
}

fn is_promise(line: &str) -> bool {
    line.starts_with("| **")
}

fn is_test_name(text: &str) -> bool {
    text.contains('_') && text.chars().all(|c| c == '_' || c.is_ascii_lowercase())
}

/// Whether this test exists and runs.
fn has_test(source: &str, name: &str) -> bool {
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else {
        return false;
    };
    // The lines before it, up to an empty line: its attributes and comments.
    let above = before.rsplit("\n\n").next().unwrap_or_default();
    let attribute = |of: &str| above.lines().any(|line| line.trim_start().starts_with(of));
    let is_test = attribute("#[test]") || attribute("#[tokio::test");
    is_test && !attribute("#[ignore")
}

#[test]
fn a_test_is_distinguished_from_other_functions_with_its_name() {
    assert!(has_test("#[test]\nfn a_b() {", "a_b"));
    assert!(has_test("}\n\n#[tokio::test(x)]\nasync fn a_b() {", "a_b"));
    assert!(!has_test("#[test]\nfn c() {}\n\nfn a_b() {", "a_b"));
    assert!(!has_test(
        "#[test]\n#[ignore = \"slow\"]\nfn a_b() {",
        "a_b"
    ));
    assert!(!has_test("#[test]\nfn a_b_c() {", "a_b"));
}

/// All Rust sources below a folder, without build output.
fn sources(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder of the repository");
    let mut sources = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources.extend(self::sources(&path));
        } else if name.ends_with(".rs") {
            sources.push(fs::read_to_string(&path).expect("a source"));
        }
    }
    sources
}
