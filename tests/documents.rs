//! The tests that `docs/promises.md` names must exist.

use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[test]
fn every_test_that_keeps_a_promise_exists() {
    let page = fs::read_to_string(format!("{ROOT}/docs/promises.md")).expect("the promises");
    let (promises, tests) = page.split_once("\n## Tests\n").expect("a section of tests");
    let sources = sources(Path::new(ROOT));
    let mut count = 0;
    for promise in promises.lines().filter_map(promise_number) {
        let names = tests_of(tests, promise);
        assert!(!names.is_empty(), "no test keeps {promise}");
        for name in &names {
            assert!(
                sources.iter().any(|source| has_test(source, name)),
                "docs/promises.md names a test {name} that does not exist, or is not run"
            );
        }
        count += names.len();
    }
    assert!(count > 20, "the section names the tests of each promise");
}

/// The number of the promise that begins on this line: `P` for safety, `D` for durability.
fn promise_number(line: &str) -> Option<&str> {
    let (number, _) = line.strip_prefix("- **")?.split_once("** ")?;
    number.starts_with(['P', 'D']).then_some(number)
}

/// The names of the tests under the heading of this promise.
fn tests_of<'a>(section: &'a str, promise: &str) -> Vec<&'a str> {
    let heading = format!("### {promise}");
    let lines = section.lines().skip_while(|line| *line != heading).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("### "));
    lines
        .filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`'))
        .collect()
}

/// Whether the source has a test of this name that is run.
fn has_test(source: &str, name: &str) -> bool {
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else {
        return false;
    };
    // The lines above the function, up to an empty line: its attributes and its documentation.
    let above = before.rsplit("\n\n").next().unwrap_or_default();
    let attribute = |of: &str| above.lines().any(|line| line.trim_start().starts_with(of));
    let is_test = attribute("#[test]") || attribute("#[tokio::test");
    is_test && !attribute("#[ignore")
}

#[test]
fn a_function_without_a_test_attribute_is_no_test() {
    assert!(has_test("#[test]\nfn a_b() {", "a_b"));
    assert!(has_test("}\n\n#[tokio::test(x)]\nasync fn a_b() {", "a_b"));
    assert!(!has_test("#[test]\nfn c() {}\n\nfn a_b() {", "a_b"));
    assert!(!has_test(
        "#[test]\n#[ignore = \"slow\"]\nfn a_b() {",
        "a_b"
    ));
    assert!(!has_test("#[test]\nfn a_b_c() {", "a_b"));
}

/// All Rust sources below a folder, without build results.
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
