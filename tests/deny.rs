//! The rules of `deny.toml` that need no network: licences, banned crates and sources.
//! `cargo deny check` reads the same file, and also checks advisories.

use std::fs;
use std::path::Path;

use cargo_metadata::{Metadata, MetadataCommand, Package};
use toml::{Table, Value};

fn rules() -> Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deny.toml");
    let text = fs::read_to_string(file).expect("deny.toml");
    text.parse().expect("a TOML file")
}

fn strings<'a>(rules: &'a Table, section: &str, key: &str) -> Vec<&'a str> {
    let values = rules[section][key].as_array().expect("an array");
    values
        .iter()
        .map(|value| value.as_str().expect("a string"))
        .collect()
}

/// The packages that a build for Linux with all features uses.
fn metadata() -> Metadata {
    let options = [
        "--locked",
        "--all-features",
        "--filter-platform=x86_64-unknown-linux-gnu",
    ];
    MetadataCommand::new()
        .other_options(options.map(str::to_owned))
        .exec()
        .expect("cargo metadata")
}

fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    // Some old crates separate alternatives by a slash.
    let expression = expression.replace('/', " OR ");
    let parsed = spdx::Expression::parse(&expression).expect("an SPDX expression");
    parsed.evaluate(|requirement| {
        let id = requirement.license.id();
        id.is_some_and(|id| allowed.contains(&id.name))
    })
}

/// Returns the features of the build that are not allowed.
fn features(metadata: &Metadata, rules: &Table) -> Vec<String> {
    let rules = rules["bans"]["features"].as_array().expect("an array");
    let nodes = &metadata.resolve.as_ref().expect("a graph").nodes;
    let mut found = Vec::new();
    for rule in rules {
        let name = rule["crate"].as_str().expect("a name");
        let allowed = rule["allow"].as_array().expect("an array");
        let node = nodes
            .iter()
            .find(|node| metadata[&node.id].name.as_str() == name);
        let node = node.unwrap_or_else(|| panic!("{name} is no dependency: remove its rule"));
        for feature in &node.features {
            let is_allowed = |allowed: &Value| allowed.as_str() == Some(feature.as_str());
            if !allowed.iter().any(is_allowed) {
                found.push(format!("{name} has the feature {feature}"));
            }
        }
    }
    found
}

fn violations(packages: &[Package], rules: &Table) -> Vec<String> {
    let licences = strings(rules, "licenses", "allow");
    let registries = strings(rules, "sources", "allow-registry");
    let banned = rules["bans"]["deny"].as_array().expect("an array");
    let banned: Vec<&str> = banned
        .iter()
        .filter_map(|entry| entry.get("crate").and_then(Value::as_str))
        .collect();
    let mut found = Vec::new();
    for package in packages {
        let name = package.name.as_str();
        match &package.license {
            None => found.push(format!("{name} has no licence")),
            Some(licence) if !is_allowed(licence, &licences) => {
                found.push(format!("{name} has the licence {licence}"));
            }
            Some(_) => {}
        }
        if banned.contains(&name) {
            found.push(format!("{name} is banned"));
        }
        let source = package.source.as_ref().map(|source| source.repr.as_str());
        let is_known = |source: &str| registries.iter().any(|known| source.ends_with(known));
        if source.is_some_and(|source| !is_known(source)) {
            found.push(format!("{name} comes from {source:?}"));
        }
    }
    found
}

#[test]
fn every_dependency_keeps_the_rules_of_deny_toml() {
    let (metadata, rules) = (metadata(), rules());
    let mut found = violations(&metadata.packages, &rules);
    found.extend(features(&metadata, &rules));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn each_rule_finds_its_violation() {
    let metadata = metadata();
    let package = |name: &str| {
        let mut packages = metadata.packages.iter();
        packages
            .find(|package| package.name.as_str() == name)
            .expect("a dependency")
            .clone()
    };
    let rules = rules();
    let mut copyleft = package("serde");
    copyleft.license = Some("GPL-3.0-only".to_owned());
    let mut unlicensed = package("serde");
    unlicensed.license = None;
    let mut foreign = package("serde");
    let source = "git+https://example.org/serde".to_owned();
    foreign.source = serde_json::from_value(source.into()).expect("a source");
    for package in [copyleft, unlicensed, foreign] {
        assert_eq!(violations(&[package], &rules).len(), 1);
    }
    let rule = "[[bans.features]]\ncrate = \"serde\"\nallow = [\"std\"]";
    let found = features(&metadata, &rule.parse().expect("a rule"));
    assert!(
        found.contains(&"serde has the feature derive".to_owned()),
        "{found:?}"
    );
    assert!(
        is_allowed("MIT/Apache-2.0", &["MIT"]) && !is_allowed("MIT AND GPL-2.0-only", &["MIT"])
    );
}
