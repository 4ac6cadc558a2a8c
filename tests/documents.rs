//! The documents name tests as the keepers of promises: they must exist.

use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[test]
fn every_test_that_keeps_a_promise_exists() {
    let promises = fs::read_to_string(format!("{ROOT}/docs/promises.md")).expect("the promises");
    let sources = sources(Path::new(ROOT));
    let named: Vec<&str> = promises
        .lines()
        .filter(|line| line.starts_with("| **"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|name| {
            name.contains('_') && name.chars().all(|c| c == '_' || c.is_ascii_lowercase())
        })
        .collect();
    assert!(named.len() > 20, "the table names its tests");
    for name in named {
        let is_there = sources
            .iter()
            .any(|source| source.contains(&format!("fn {name}(")));
        assert!(
            is_there,
            "docs/promises.md names a test {name} that does not exist"
        );
    }
}

/// All Rust sources below a folder, but for what is built.
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
