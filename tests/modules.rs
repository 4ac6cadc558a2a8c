//! Checks that the modules of each crate use each other without a cycle, and so do the modules of
//! each folder below them, from their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders whose modules have a cycle.
const CYCLES: &[&str] = &[
    // Each strategy uses the timings of a lease, and the candidate for a lease is a strategy.
    "tenure-core/src",
    // The loader calls the readers of the sections, which use its functions for secrets.
    "tenure/src/config",
    // One machine or one service, in files that use each other's types.
    "tenure-azure/src/client",
    "tenure-azure/src/server",
    "tenure-core/src/bully",
    "tenure-core/src/lease",
    "tenure-server/src/access",
    "tenure-server/src/http",
    "tenure-server/src/store",
    // The simulator, and experiments, which nothing depends on.
    "tenure-lab/src/links",
    "tenure-lab/src/measure",
    "tenure-lab/src/paper",
    "tenure-lab/src/report",
    "tenure-sim/src/check",
    "tenure-sim/src/contestant",
    "tenure-sim/src/sim",
];

/// The files of a root.
const ROOTS: [&str; 3] = ["lib.rs", "main.rs", "mod.rs"];

/// The modules that each module uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_modules_of_a_crate_and_of_its_folders_use_each_other_without_a_cycle() {
    let mut wrong = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    for folder in folders(&crates) {
        let src = crates.join(&folder).join("src");
        let modules = folders(&src)
            .into_iter()
            .map(|name| format!("{folder}/src/{name}"));
        for folder in std::iter::once(format!("{folder}/src")).chain(modules) {
            let cycle = cycle(&read(&crates.join(&folder), &src));
            match (cycle, CYCLES.contains(&folder.as_str())) {
                (Some(cycle), false) => wrong.push(format!("{folder}: {}", cycle.join(" -> "))),
                (None, true) => wrong.push(format!("{folder} has no cycle: remove its exception")),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "cycles of modules:\n{}", wrong.join("\n"));
}

/// The names of the folders in this folder.
fn folders(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder");
    let paths = files.map(|file| file.expect("a file").path());
    let names = paths.filter(|path| path.is_dir());
    let mut names: Vec<String> = names
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
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
        graph(&sources.collect(), "crate::")
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

/// The graph of the sources in this folder of a crate.
fn read(folder: &Path, src: &Path) -> Graph {
    let (mut sources, mut open) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for file in fs::read_dir(&next).expect("a folder") {
            let path = file.expect("a file").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let path = path.strip_prefix(folder).expect("a path in it").to_owned();
                sources.insert(path, text);
            }
        }
    }
    let module = folder.strip_prefix(src).expect("a folder in it");
    let path: String = module
        .iter()
        .map(|name| format!("{}::", name.display()))
        .collect();
    graph(&sources, &format!("crate::{path}"))
}

/// The graph of these sources by their paths, in the module with the path `root`. Tests may use
/// everything.
fn graph(sources: &BTreeMap<PathBuf, String>, root: &str) -> Graph {
    let modules: BTreeSet<String> = sources.keys().filter_map(|path| module(path)).collect();
    let is_root = |path: &&PathBuf| ROOTS.iter().any(|root| path == root);
    let roots = sources.iter().filter(|(path, _)| is_root(path));
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
        for first in first_names(&code(text), root, depth) {
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
    (!is_test && !["lib", "main", "mod"].contains(&first)).then(|| first.to_owned())
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

/// The first names of all paths that begin at this root.
fn first_names(code: &str, root: &str, depth: usize) -> Vec<String> {
    let from_parents = "super::".repeat(depth);
    let mut names = Vec::new();
    for start in [root, from_parents.as_str()] {
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
