//! The dashboard for Grafana: the fields that Grafana needs, and its expressions. Grafana itself does
//! not run here.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::{has_prometheus, read};

/// An expression of a panel, with values in place of the variables.
#[derive(Debug)]
pub(crate) struct PanelExpression {
    /// The title of the panel, and the letter of the query.
    pub(crate) name: String,
    pub(crate) expr: String,
}

fn dashboard() -> Value {
    serde_json::from_str(&read("deploy/grafana/tenure.json")).expect("JSON")
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let items = value[name].as_array();
    items
        .unwrap_or_else(|| panic!("{name} of {value}"))
        .as_slice()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    let text = value[name].as_str().unwrap_or_default();
    assert!(!text.is_empty(), "{name} of {value}");
    text
}

/// All expressions, for all jobs and namespaces, as Grafana sends them.
pub(crate) fn expressions() -> Vec<PanelExpression> {
    let dashboard = dashboard();
    let panels = items(&dashboard, "panels").iter();
    let targets =
        panels.flat_map(|panel| items(panel, "targets").iter().map(move |it| (panel, it)));
    targets
        .map(|(panel, target)| {
            let expr = text(target, "expr");
            let expr = expr.replace("$job", ".*").replace("$namespace", ".*");
            let expr = expr.replace("$__rate_interval", "1m");
            assert!(
                !expr.replace("\"$1\"", "").contains('$'),
                "a variable of {expr}"
            );
            let name = format!("{} {}", text(panel, "title"), text(target, "refId"));
            PanelExpression { name, expr }
        })
        .collect()
}

#[test]
fn promtool_accepts_every_expression_of_the_dashboard() {
    if !has_prometheus("promtool_accepts_every_expression_of_the_dashboard") {
        return;
    }
    let rules = expressions()
        .into_iter()
        .enumerate()
        .map(|(number, panel)| json!({"record": format!("panel:{number}"), "expr": panel.expr}));
    let rules: Vec<Value> = rules.collect();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = json!({"groups": [{"name": "panels", "rules": rules}]});
    fs::write(file.path(), text.to_string()).expect("a file");
    let check = Command::new("promtool")
        .args(["check", "rules"])
        .arg(file.path())
        .output();
    let check = check.expect("promtool");
    assert!(check.status.success(), "{check:?}");
}

#[test]
fn the_dashboard_has_the_fields_that_grafana_needs() {
    let dashboard = dashboard();
    for name in ["title", "uid"] {
        text(&dashboard, name);
    }
    assert!(
        dashboard["schemaVersion"]
            .as_u64()
            .is_some_and(|version| version >= 36)
    );
    assert!(
        dashboard["id"].is_null(),
        "the id belongs to one installation of Grafana"
    );
    let variables = items(&dashboard["templating"], "list");
    let names: Vec<_> = variables
        .iter()
        .map(|variable| text(variable, "name"))
        .collect();
    assert_eq!(names, ["datasource", "job", "namespace"]);
    assert_eq!(
        (text(&variables[0], "type"), text(&variables[0], "query")),
        ("datasource", "prometheus")
    );
    for variable in &variables[1..] {
        assert_eq!(text(variable, "type"), "query");
        assert_eq!(text(&variable["datasource"], "uid"), "${datasource}");
        assert!(text(&variable["query"], "query").starts_with("label_values("));
        assert_eq!(text(variable, "allValue"), ".*");
    }
    // Each installation of Grafana has other data sources.
    let annotations = items(&dashboard["annotations"], "list");
    for annotation in annotations {
        assert_eq!(text(&annotation["datasource"], "uid"), "${datasource}");
    }
    let panels = items(&dashboard, "panels");
    assert!(panels.len() > 12, "{} panels", panels.len());
    let ids: BTreeSet<_> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().expect("an id"))
        .collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    for panel in panels {
        let kinds = ["stat", "table", "timeseries", "state-timeline"];
        assert!(kinds.contains(&text(panel, "type")), "{panel}");
        text(panel, "title");
        text(panel, "description");
        assert!(panel["fieldConfig"]["defaults"].is_object() && panel["options"].is_object());
        let targets = items(panel, "targets");
        let letters: BTreeSet<_> = targets.iter().map(|target| text(target, "refId")).collect();
        assert_eq!(letters.len(), targets.len(), "{panel}");
        assert!(!targets.is_empty(), "{panel}");
        for of in targets.iter().chain([panel]) {
            assert_eq!(text(&of["datasource"], "type"), "prometheus", "{of}");
            assert_eq!(text(&of["datasource"], "uid"), "${datasource}", "{of}");
        }
        // The expression of a store's metric depends on the chosen stores.
        for target in targets {
            let expr = text(target, "expr");
            let is_chosen = expr.contains("$job") || expr.contains("tenure_candidate_");
            assert!(is_chosen, "{expr}");
        }
    }
}
