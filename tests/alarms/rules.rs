//! The rules of `deploy/prometheus`, and their form for a faster run.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use yaml_rust2::{Yaml, YamlLoader};

use crate::read;

/// An alert.
#[derive(Debug)]
pub(crate) struct Alert {
    pub(crate) name: String,
    pub(crate) severity: String,
    pub(crate) expr: String,
    /// Whether the expression must hold for some time.
    pub(crate) has_for: bool,
    pub(crate) annotations: Value,
}

/// All alerts.
pub(crate) fn alerts() -> Vec<Alert> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let rules = document("rules.yaml");
    let groups = rules["groups"].as_array().expect("groups").iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().expect("rules"));
    rules
        .map(|rule| Alert {
            name: text(&rule["alert"]),
            severity: text(&rule["labels"]["severity"]),
            expr: text(&rule["expr"]),
            has_for: !rule["for"].is_null(),
            annotations: rule["annotations"].clone(),
        })
        .collect()
}

/// A file of `deploy/prometheus`.
pub(crate) fn document(name: &str) -> Value {
    let text = read(&format!("deploy/prometheus/{name}"));
    let documents =
        YamlLoader::load_from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let [document] = &documents[..] else {
        panic!("{name} has {} documents", documents.len());
    };
    as_json(document)
}

fn as_json(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::String(text) | Yaml::Real(text) => json!(text),
        Yaml::Integer(number) => json!(number),
        Yaml::Boolean(flag) => json!(flag),
        Yaml::Array(items) => items.iter().map(as_json).collect(),
        Yaml::Hash(items) => {
            let key = |key: &Yaml| key.as_str().expect("a key of text").to_owned();
            let items = items.iter().map(|(name, item)| (key(name), as_json(item)));
            Value::Object(items.collect())
        }
        Yaml::Null => Value::Null,
        other => panic!("{other:?} is not expected in these files"),
    }
}

/// The rules with all durations divided by this number: those of `for`, of windows and of offsets.
/// JSON is valid YAML.
pub(crate) fn faster_rules(factor: u64) -> Value {
    let mut rules = document("rules.yaml");
    let groups = rules["groups"].as_array_mut().expect("groups").iter_mut();
    for rule in groups.flat_map(|group| group["rules"].as_array_mut().expect("rules")) {
        rule["expr"] = json!(faster(rule["expr"].as_str().expect("a text"), factor));
        if let Some(time) = rule["for"].as_str() {
            rule["for"] = json!(divided(time, factor));
        }
    }
    rules
}

/// An expression whose windows (`[5m]`) and offsets (`offset 1h`) are divided by this number.
fn faster(expr: &str, factor: u64) -> String {
    let mut faster = String::new();
    let mut rest = expr;
    while let Some(at) = ["[", " offset "]
        .iter()
        .filter_map(|start| Some(rest.find(start)? + start.len()))
        .min()
    {
        let (before, time) = rest.split_at(at);
        let end = time.find(|c: char| !c.is_ascii_alphanumeric());
        let (time, after) = time.split_at(end.unwrap_or(time.len()));
        faster += before;
        faster += &divided(time, factor);
        rest = after;
    }
    faster + rest
}

/// A duration of Prometheus, divided by this number.
fn divided(time: &str, factor: u64) -> String {
    let unit = time.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = time[..time.len() - unit.len()].parse().expect("a number");
    let millis = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => panic!("{time:?} is not a duration with one of the units s, m, h and d"),
    };
    format!("{}ms", number * millis / factor)
}

/// The names of the metrics in an expression, without the endings of a histogram's series.
pub(crate) fn metrics_of(expr: &str) -> BTreeSet<String> {
    // Text in quotes has no metrics.
    let code: String = expr.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = code.split(|c| !is_of_name(c));
    let names = words.filter(|word| word.starts_with("tenure_") || word.starts_with("process_"));
    names
        .map(|name| {
            let endings = ["_bucket", "_sum", "_count"];
            let ending = endings.iter().find_map(|ending| name.strip_suffix(ending));
            ending.unwrap_or(name).to_owned()
        })
        .collect()
}

#[test]
fn all_durations_of_an_expression_are_divided_and_nothing_else() {
    let expr = "increase(a{b=\"1h\"}[15m]) > 0 or (a > 60 unless last_over_time(a[1d] offset 1h))";
    let expected = "increase(a{b=\"1h\"}[30000ms]) > 0 or (a > 60 unless \
                    last_over_time(a[2880000ms] offset 120000ms))";
    assert_eq!(faster(expr, 30), expected);
    assert_eq!(faster("a offset 1m == 1", 30), "a offset 2000ms == 1");
    assert_eq!(faster("up == 0", 30), "up == 0");
}

#[test]
fn metrics_are_found_in_an_expression() {
    let expr = "rate(tenure_a_seconds_bucket{x=\"tenure_b\"}[5m]) / on (job) process_c > tenure_d";
    let found: Vec<_> = metrics_of(expr).into_iter().collect();
    assert_eq!(found, ["process_c", "tenure_a_seconds", "tenure_d"]);
}
