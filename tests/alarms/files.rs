//! The rules, their tests and the example for Prometheus.

use std::process::Command;

use serde_json::Value;

use crate::rules::{Alert, alerts, document};
use crate::{ROOT, has_prometheus};

/// Runs promtool in the folder of the rules.
#[track_caller]
fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(format!("{ROOT}/deploy/prometheus"))
        .output()
        .expect("promtool");
    assert!(
        output.status.success(),
        "promtool {arguments:?}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn promtool_accepts_the_rules_and_the_example() {
    if has_prometheus("promtool_accepts_the_rules_and_the_example") {
        promtool(&["check", "rules", "rules.yaml"]);
        // The example names files that are not here.
        promtool(&["check", "config", "--syntax-only", "prometheus.yaml"]);
    }
}

#[test]
fn the_tests_of_the_rules_pass() {
    if has_prometheus("the_tests_of_the_rules_pass") {
        promtool(&["test", "rules", "rules_test.yaml"]);
    }
}

#[test]
fn every_alert_has_a_healthy_a_not_yet_and_a_firing_case() {
    let tests = document("rules_test.yaml");
    let tests = tests["tests"].as_array().expect("tests");
    let alerts = alerts();
    assert!(alerts.len() > 20, "{} alerts", alerts.len());
    for alert in &alerts {
        // The group of the alert, and groups with more cases: "NAME: ...".
        let groups = tests.iter().filter(|test| {
            let name = test["name"].as_str().expect("a name");
            name.split(": ").next() == Some(&alert.name)
        });
        let cases: Vec<Case> = groups.flat_map(cases).collect();
        let has = |state: State| cases.iter().any(|case| case.state(alert) == state);
        let name = format!("{} ({})", alert.name, alert.severity);
        assert!(has(State::Fires), "{name} has no firing case");
        assert!(has(State::Healthy), "{name} has no healthy case");
        // An alert without `for` is never pending: it is healthy just before it fires.
        if alert.has_for {
            assert!(has(State::NotYet), "{name} has no case of not yet");
        } else {
            let healthy = cases
                .iter()
                .filter(|case| case.state(alert) == State::Healthy);
            assert!(healthy.count() > 1, "{name} has no case of not yet");
        }
    }
    for test in tests {
        let name = test["name"].as_str().expect("a name");
        let of = name.split(": ").next().unwrap_or(name);
        let is_known = alerts.iter().any(|alert| alert.name == of) || of == "all is well";
        assert!(is_known, "{name:?} names no alert");
    }
}

/// The state of an alert in a case.
#[derive(PartialEq, Eq)]
enum State {
    /// No alert is firing or pending.
    Healthy,
    NotYet,
    Fires,
    /// Only other alerts fire, or are pending.
    Other,
}

/// The labels of all alerts at a moment.
struct Case(Vec<String>);

impl Case {
    fn state(&self, alert: &Alert) -> State {
        let has = |state: &str| {
            let parts = [
                format!("alertname=\"{}\"", alert.name),
                format!("severity=\"{}\"", alert.severity),
                format!("alertstate=\"{state}\""),
            ];
            let has_all = |labels: &String| parts.iter().all(|part| labels.contains(part));
            self.0.iter().any(has_all)
        };
        match (has("firing"), has("pending")) {
            (true, _) => State::Fires,
            (false, true) => State::NotYet,
            (false, false) if self.0.is_empty() => State::Healthy,
            (false, false) => State::Other,
        }
    }
}

/// The cases of a group. Each lists all alerts, so that a case also fails if another alert fires.
fn cases(test: &Value) -> impl Iterator<Item = Case> {
    let cases = test["promql_expr_test"].as_array().expect("cases").iter();
    cases.map(|case| {
        assert_eq!(case["expr"], "ALERTS", "{}", test["name"]);
        let samples = case["exp_samples"].as_array().expect("samples").iter();
        let labels = samples.map(|sample| sample["labels"].as_str().expect("labels").to_owned());
        Case(labels.collect())
    })
}
