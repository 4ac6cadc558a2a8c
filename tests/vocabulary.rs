//! Checks that no two public types share a name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that could name a type in several modules, with the file of the only type that has the
/// name. A word without a file must be part of a longer name, as in `PeerMessage`.
const OWNED: [(&str, &str); 7] = [
    ("Change", "tenure-core/src/lease/apply/mod.rs"),
    ("Event", ""),
    ("Message", ""),
    ("Output", "tenure-core/src/election/output.rs"),
    ("Reply", "tenure/src/peers/transport/inbox.rs"),
    ("Row", ""),
    ("Term", "tenure-core/src/election/term.rs"),
];

struct Definition {
    name: String,
    file: String,
    is_public: bool,
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The name of the type that this line defines, and whether it is `pub` without a restriction.
fn defined(line: &str) -> Option<(&str, bool)> {
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    let line = line.strip_prefix("pub").unwrap_or(line).trim_start();
    let (line, is_public) = match line.strip_prefix('(') {
        Some(restricted) => (restricted.split_once(')')?.1.trim_start(), false),
        None => (line, true),
    };
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some((&rest[..end.unwrap_or(rest.len())], is_public))
}

/// All types of the crates except those of `mod tests` and associated types: both are indented.
fn definitions() -> Vec<Definition> {
    let root = crates();
    let mut files = Vec::new();
    for package in fs::read_dir(&root).expect("the crates") {
        let source = package.expect("an entry").path().join("src");
        sources(&source, &mut files);
    }
    let of = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a source file");
        let file = path.strip_prefix(&root).expect("below the crates");
        let file = file.to_str().expect("plain names").to_owned();
        let public = |line: &str| line.starts_with("pub");
        let types: Vec<Definition> = text
            .lines()
            .filter_map(|line| {
                let (name, unrestricted) = defined(line)?;
                Some(Definition {
                    name: name.to_owned(),
                    file: file.clone(),
                    is_public: public(line) && unrestricted,
                })
            })
            .collect();
        types
    };
    files.iter().flat_map(of).collect()
}

#[test]
fn no_two_public_types_share_a_name() {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for definition in definitions().into_iter().filter(|found| found.is_public) {
        files
            .entry(definition.name)
            .or_default()
            .push(definition.file);
    }
    files.retain(|_, files| files.len() > 1);
    assert!(files.is_empty(), "{files:#?}");
}

#[test]
fn each_common_word_names_at_most_one_type() {
    let definitions = definitions();
    for (word, owner) in OWNED {
        let used = definitions.iter().filter(|found| found.name == word);
        let files: Vec<&str> = used.map(|found| found.file.as_str()).collect();
        let expected: &[&str] = if owner.is_empty() { &[] } else { &[owner] };
        assert_eq!(files, expected, "{word}");
    }
}

#[test]
fn a_definition_is_read_with_its_visibility() {
    assert_eq!(defined("pub struct Term {"), Some(("Term", true)));
    assert_eq!(defined("pub(crate) enum Row<T> {"), Some(("Row", false)));
    assert_eq!(
        defined("pub(in crate::a) type Reply = u8;"),
        Some(("Reply", false))
    );
    assert_eq!(defined("impl Term {"), None);
    assert_eq!(defined("    type Output = u8;"), None);
}
