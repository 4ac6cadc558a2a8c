//! Checks the documents: the tests that they name exist, their links have targets, the book has all
//! pages, and the commands of the pages work.

mod commands;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[test]
fn every_test_of_a_promise_exists() {
    let page = fs::read_to_string(format!("{ROOT}/docs/promises.md")).expect("the promises");
    let (promises, tests) = page.split_once("\n## Tests\n").expect("a section of tests");
    let sources = sources(Path::new(ROOT));
    let mut count = 0;
    for promise in promises.lines().filter_map(promise_number) {
        let names = tests_of(tests, promise);
        let needs_one = !promise.starts_with('A');
        assert!(!names.is_empty() || !needs_one, "{promise} has no tests");
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

/// The number of the promise that begins on this line: `P` for safety, `D` for durability; or `A` of
/// an assumption.
fn promise_number(line: &str) -> Option<&str> {
    let (number, _) = line.strip_prefix("- **")?.split_once("** ")?;
    number.starts_with(['P', 'D', 'A']).then_some(number)
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
fn every_test_of_a_threat_exists() {
    let page = fs::read_to_string(format!("{ROOT}/docs/security.md")).expect("the threats");
    let sources = sources(Path::new(ROOT));
    let rows = page.lines().filter(|line| line.starts_with("| T"));
    for row in rows.clone() {
        let (_, tests) = row.rsplit_once(" | ").expect("a column of tests");
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{row} has no tests");
        for name in names {
            assert!(
                sources.iter().any(|source| has_test(source, name)),
                "docs/security.md names a test {name} that does not exist, or is not run"
            );
        }
    }
    assert!(rows.count() > 10, "the table lists the threats");
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

#[test]
fn every_link_between_documents_has_a_target() {
    let pages = files(Path::new(ROOT), ".md");
    let mut broken = Vec::new();
    let mut count = 0;
    for (page, text) in &pages {
        for target in links(text) {
            count += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => page.clone(),
                file => page.parent().expect("a folder").join(file),
            };
            let is_found = match fs::read_to_string(&file) {
                Ok(text) => anchor.is_empty() || anchors(&text).any(|found| found == anchor),
                // A folder or an image.
                Err(_) => file.exists() && anchor.is_empty(),
            };
            if !is_found {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(count > 100, "the pages link to each other");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The targets of all links to files of the repository.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.contains(['\n', ' ', '`']))
}

/// The anchors of all headings, as GitHub makes them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        heading
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    })
}

#[test]
fn every_item_of_the_papers_has_a_mark() {
    let pages = files(&Path::new(ROOT).join("docs/papers"), ".md");
    let rows: Vec<&str> = pages.iter().flat_map(|(_, text)| text.lines()).collect();
    let mut counts = BTreeMap::new();
    for (letter, items) in [("A", 29), ("B", 10), ("C", 10), ("D", 18), ("E", 28)] {
        for number in 1..=items {
            let item = format!("{letter}{number}");
            let begin = format!("| {item} | ");
            let of: Vec<_> = rows.iter().filter(|row| row.starts_with(&begin)).collect();
            assert_eq!(of.len(), 1, "one row of docs/papers is about {item}");
            let mark = of[0].split(" | ").nth(2).expect("a mark");
            assert!(["yes", "partly", "no"].contains(&mark), "{item}: {mark:?}");
            *counts.entry(mark).or_insert(0) += 1;
        }
    }
    let of = |mark| counts.get(mark).copied().unwrap_or(0);
    let sum = format!(
        "Of 95 items {} are here, {} partly, and {} not.",
        of("yes"),
        of("partly"),
        of("no")
    );
    assert!(
        rows.contains(&&sum[..]),
        "docs/papers/README.md must say: {sum}"
    );
}

#[test]
fn an_anchor_is_made_from_its_heading() {
    let mut found = anchors("text\n## The strategy `azure-blob`\n");
    assert_eq!(found.next().as_deref(), Some("the-strategy-azure-blob"));
    let text = "[a](b.md#c), [d](https://example.org) and [e](#f)";
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md#c", "#f"]);
}

#[test]
fn the_book_has_every_page() {
    let summary = fs::read_to_string(format!("{ROOT}/docs/SUMMARY.md")).expect("the summary");
    let named: Vec<&str> = links(&summary).collect();
    let entries = fs::read_dir(format!("{ROOT}/docs")).expect("the pages");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let pages: Vec<_> = names
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect();
    assert!(pages.len() > 20, "{pages:?}");
    for page in &pages {
        assert!(
            named.contains(&page.as_str()),
            "docs/SUMMARY.md does not name {page}"
        );
    }
}

/// All Rust sources below a folder.
fn sources(folder: &Path) -> Vec<String> {
    let files = files(folder, ".rs");
    files.into_iter().map(|(_, text)| text).collect()
}

/// All files below a folder whose names end like this, without build results.
fn files(folder: &Path, ending: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).expect("a folder of the repository");
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_result = ["target", "dist"].contains(&name.as_str()) || name.starts_with('.');
        if path.is_dir() && !is_result {
            files.extend(self::files(&path, ending));
        } else if name.ends_with(ending) {
            let text = fs::read_to_string(&path).expect("a text file");
            files.push((path, text));
        }
    }
    files
}
