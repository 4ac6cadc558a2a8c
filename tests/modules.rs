//! Checks that the top-level modules of a crate use each other without a cycle, from their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose modules form layers.
const CRATES: &[&str] = &["tenure-server", "tenure-cli"];

/// The modules that each module uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_modules_of_a_crate_use_each_other_without_a_cycle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    for name in CRATES {
        let graph = read(&crates.join(name).join("src"));
        assert!(graph.len() > 1, "{name} has modules: {graph:?}");
        if let Some(cycle) = cycle(&graph) {
            panic!("{name} has a cycle of modules: {}", cycle.join(" -> "));
        }
    }
}

#[test]
fn a_cycle_is_found_and_printed_from_its_first_module() {
    let sources = [
        (
            "lib.rs",
            "mod a;\nmod b;\nmod c;\nmod d;\npub use d::Shown;",
        ),
        ("a.rs", "use crate::{b::{self, B}, c};"),
        ("b/mod.rs", "mod inner;\nfn f() { crate::c::g() }"),
        ("b/inner.rs", "use super::super::c;\nuse super::f;"),
        (
            "c.rs",
            "// use crate::a;\nconst A: &str = \"crate::a\";\n#[cfg(test)]\nmod tests { use crate::a; }",
        ),
        ("c/tests.rs", "use crate::a;"),
        ("d.rs", "use crate::a;"),
    ];
    let graph_of = |sources: &[(&str, &str)]| {
        let sources = sources
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()));
        graph(&sources.collect())
    };
    let uses = |graph: &Graph, module: &str| graph[module].iter().cloned().collect::<Vec<_>>();
    let found = graph_of(&sources);
    assert_eq!(uses(&found, "a"), ["b", "c"]);
    assert_eq!(uses(&found, "b"), ["c"]);
    assert!(uses(&found, "c").is_empty());
    assert_eq!(cycle(&found), None);

    // An item of the root belongs to the module that it comes from.
    let mut with_cycle = sources;
    with_cycle[4].1 = "fn f(shown: crate::Shown) {}";
    let found = graph_of(&with_cycle);
    let names = ["a", "b", "c", "d", "a"].map(String::from);
    let cycle = cycle(&found).unwrap();
    assert!(
        cycle == names || cycle == ["a", "c", "d", "a"].map(String::from),
        "{cycle:?}"
    );
}

/// The graph of the sources in this folder.
fn read(src: &Path) -> Graph {
    let (mut sources, mut folders) = (BTreeMap::new(), vec![src.to_owned()]);
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(&folder).expect("a folder") {
            let path = file.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let path = path.strip_prefix(src).expect("a path in it").to_owned();
                sources.insert(path, text);
            }
        }
    }
    graph(&sources)
}

/// The graph of these sources by their paths. Tests may use everything.
fn graph(sources: &BTreeMap<PathBuf, String>) -> Graph {
    let modules: BTreeSet<String> = sources.keys().filter_map(|path| module(path)).collect();
    let root = |path: &&PathBuf| ["lib.rs", "main.rs"].iter().any(|root| path == root);
    let roots = sources.iter().filter(|(path, _)| root(path));
    let exports: BTreeMap<String, String> = roots
        .flat_map(|(_, text)| exports(&code(text), &modules))
        .collect();
    let mut graph: Graph = modules
        .iter()
        .map(|name| (name.clone(), BTreeSet::new()))
        .collect();
    for (path, text) in sources {
        let Some(of) = module(path) else {
            continue;
        };
        let depth = depth(path);
        for first in first_names(&code(text), depth) {
            let target = modules.get(&first).or_else(|| exports.get(&first));
            if let Some(target) = target.filter(|target| **target != of) {
                graph.entry(of.clone()).or_default().insert(target.clone());
            }
        }
    }
    graph
}

/// The top-level module that a file belongs to; `None` for the root and for tests.
fn module(path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let is_test = parts
        .iter()
        .any(|part| *part == "tests" || *part == "tests.rs");
    let first = parts.first()?.trim_end_matches(".rs");
    (!is_test && !["lib", "main"].contains(&first)).then(|| first.to_owned())
}

/// The depth of a file's module below the root.
fn depth(path: &Path) -> usize {
    let is_folder_root = path.file_name().is_some_and(|name| name == "mod.rs");
    path.iter().count() - usize::from(is_folder_root)
}

/// The source without comments, string literals and its tests, which come last.
fn code(text: &str) -> String {
    let text = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let mut code = String::new();
    for line in text.lines() {
        // Every second part is a string literal.
        for part in line.split('"').step_by(2) {
            match part.split_once("//") {
                Some((before, _)) => {
                    code.push_str(before);
                    break;
                }
                None => code.push_str(part),
            }
        }
        code.push('\n');
    }
    code
}

/// The first names of all paths that begin at the root of the crate.
fn first_names(code: &str, depth: usize) -> Vec<String> {
    let from_parents = "super::".repeat(depth);
    let mut names = Vec::new();
    for start in ["crate::", from_parents.as_str()] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            // `pub(in crate::a)`, `$crate::`, and a longer chain of `super` that ends here.
            let is_path = before.is_none_or(|it| !it.is_alphanumeric() && !"_$:".contains(it));
            if is_path && !code[..at].ends_with("(in ") {
                names.extend(heads(&code[at + start.len()..]));
            }
        }
    }
    names
}

/// The first names of a path, or of all paths in braces.
fn heads(path: &str) -> Vec<String> {
    let Some(list) = path.strip_prefix('{') else {
        return vec![name(path)];
    };
    let (mut heads, mut depth, mut is_start) = (Vec::new(), 0, true);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            letter if is_start && !letter.is_whitespace() => {
                heads.push(name(&list[at..]));
                is_start = false;
            }
            _ => {}
        }
    }
    heads
}

fn name(path: &str) -> String {
    let is_name = |letter: &char| letter.is_alphanumeric() || *letter == '_';
    path.chars().take_while(is_name).collect()
}

/// The items that the root exports, and the modules that they come from.
fn exports(code: &str, modules: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut exports = Vec::new();
    for statement in code.split(';') {
        let Some((visibility, path)) = statement.rsplit_once("use ") else {
            continue;
        };
        if !visibility.trim_end().ends_with("pub") && !visibility.trim_end().ends_with(')') {
            continue;
        }
        let path = path
            .trim_start_matches("crate::")
            .trim_start_matches("self::");
        let Some((module, items)) = path.split_once("::") else {
            continue;
        };
        if let Some(module) = modules.get(module) {
            let words = items.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let items = words.filter(|word| !word.is_empty());
            exports.extend(items.map(|item| (item.to_owned(), module.clone())));
        }
    }
    exports
}

/// A cycle, from a module back to it.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    fn visit(graph: &Graph, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        let last = path[path.len() - 1].clone();
        for next in &graph[&last] {
            if let Some(start) = path.iter().position(|module| module == next) {
                path.drain(..start);
                path.push(next.clone());
                return true;
            }
            if !done.contains(next) {
                path.push(next.clone());
                if visit(graph, path, done) {
                    return true;
                }
                path.pop();
            }
        }
        done.insert(last);
        false
    }
    let mut done = BTreeSet::new();
    for module in graph.keys() {
        let mut path = vec![module.clone()];
        if !done.contains(module) && visit(graph, &mut path, &mut done) {
            return Some(path);
        }
    }
    None
}
