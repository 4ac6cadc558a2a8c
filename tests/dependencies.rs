//! Checks the dependencies between crates against `docs/architecture.md`, with `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// The crates of the workspace that each crate may use outside of its own tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("tenure-core", &[]),
    ("tenure-azure", &["tenure-core", "tenure-server"]),
    ("tenure-config", &["tenure-core"]),
    ("tenure", &["tenure-azure", "tenure-config", "tenure-core"]),
    ("tenure-register", &["tenure-core"]),
    ("tenure-server", &["tenure-core", "tenure-register"]),
    (
        "tenure-sim",
        &["tenure-core", "tenure-register", "tenure-server"],
    ),
    ("tenure-lab", &["tenure", "tenure-core", "tenure-sim"]),
    (
        "tenure-cli",
        &[
            "tenure",
            "tenure-azure",
            "tenure-config",
            "tenure-core",
            "tenure-server",
        ],
    ),
    ("tenure-examples", &[]),
    (
        "tenure-tests",
        &[
            "tenure",
            "tenure-azure",
            "tenure-core",
            "tenure-lab",
            "tenure-register",
            "tenure-server",
            "tenure-sim",
        ],
    ),
];

/// The only external crates that the pure core may use: none of them has a clock, a socket or a
/// runtime.
const CORE_USES: &[&str] = &["libm", "schemars", "serde", "thiserror", "uuid"];

fn normal_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .expect("cargo metadata");
    let of = |package: &cargo_metadata::Package| {
        let normal = package
            .dependencies
            .iter()
            .filter(|d| d.kind == DependencyKind::Normal);
        normal.map(|dependency| dependency.name.clone()).collect()
    };
    metadata
        .packages
        .iter()
        .map(|package| (package.name.to_string(), of(package)))
        .collect()
}

#[test]
fn crates_depend_on_each_other_only_as_planned() {
    let dependencies = normal_dependencies();
    let known: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    for (package, uses) in &dependencies {
        let allowed = ALLOWED.iter().find(|(name, _)| name == package);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{package} is not in the list"));
        for ours in uses.iter().filter(|name| known.contains(&name.as_str())) {
            assert!(
                allowed.contains(&ours.as_str()),
                "{package} must not depend on {ours}"
            );
        }
    }
    assert_eq!(
        dependencies.len(),
        known.len(),
        "every crate of the list exists"
    );
}

#[test]
fn the_core_uses_nothing_with_a_clock_or_a_socket() {
    for name in &normal_dependencies()["tenure-core"] {
        assert!(
            CORE_USES.contains(&name.as_str()),
            "tenure-core must not depend on {name}"
        );
    }
}

#[test]
fn the_core_is_no_std() {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/tenure-core/src/lib.rs"
    );
    let root = std::fs::read_to_string(root).expect("the core's root");
    assert!(root.contains("\n#![no_std]\n"));
}
