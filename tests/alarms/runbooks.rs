//! The runbooks, and the names of metrics in the rules and in the dashboard.

use std::collections::BTreeSet;

use tenure_tests::process::{run, stdout};

use crate::dashboard::expressions;
use crate::read;
use crate::rules::{alerts, metrics_of};

const PAGE: &str = "docs/alerts.md";

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let page = read(PAGE);
    let alerts = alerts();
    for alert in &alerts {
        let text = |name: &str| alert.annotations[name].as_str().unwrap_or_default();
        assert!(!text("summary").is_empty(), "{alert:?}");
        assert!(!text("description").is_empty(), "{alert:?}");
        let anchor = alert.name.to_lowercase();
        assert_eq!(text("runbook_url"), format!("{PAGE}#{anchor}"), "{alert:?}");
        let severity = alert.severity.as_str();
        assert!(matches!(severity, "critical" | "warning"), "{alert:?}");
        // The heading makes the anchor.
        let (_, runbook) = page
            .split_once(&format!("\n## {}\n", alert.name))
            .unwrap_or_else(|| {
                panic!("{PAGE} has no runbook of {}", alert.name);
            });
        let runbook = runbook.split("\n## ").next().unwrap_or_default();
        assert!(
            runbook.to_lowercase().contains(severity),
            "{}: {severity}",
            alert.name
        );
        for part in [
            "Meaning.",
            "Impact.",
            "First step.",
            "Then.",
            "False alarm.",
        ] {
            assert!(
                runbook.contains(&format!("\n- **{part}** ")),
                "{}: {part}",
                alert.name
            );
        }
    }
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    for heading in headings {
        let is_alert = alerts.iter().any(|alert| alert.name == heading);
        assert!(
            is_alert,
            "{PAGE} has a runbook of {heading}, which is no alert"
        );
    }
}

#[test]
fn every_command_of_a_runbook_exists() {
    let page = read(PAGE).replace('\n', " ");
    let code = page.split('`').skip(1).step_by(2);
    let commands: BTreeSet<Vec<&str>> = code
        .filter_map(|code| {
            Some(
                code.trim()
                    .strip_prefix("tenure ")?
                    .split_whitespace()
                    .collect(),
            )
        })
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        // The names of the subcommand: words before the first argument or option.
        let is_name = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let names = command.iter().take_while(|word| !word.starts_with("--"));
        let names: Vec<&str> = names.take_while(is_name).copied().collect();
        let output = run(&[&names[..], &["--help"]].concat());
        assert!(output.status.success(), "{command:?}: {output:?}");
        let help = stdout(&output);
        let own = command
            .split(|word| *word == "--")
            .next()
            .unwrap_or_default();
        for option in own.iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "{command:?}: {option}");
        }
    }
}

#[test]
fn every_metric_of_the_rules_and_of_the_dashboard_is_documented() {
    let page = read("docs/metrics.md");
    let rules = alerts().into_iter().map(|alert| alert.expr);
    let panels = expressions().into_iter().map(|panel| panel.expr);
    let names: BTreeSet<String> = rules
        .chain(panels)
        .flat_map(|expr| metrics_of(&expr))
        .collect();
    assert!(names.len() > 40, "{names:?}");
    let is_documented = |name: &String| page.contains(&format!("`{name}`"));
    let missing: Vec<_> = names.iter().filter(|name| !is_documented(name)).collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks {missing:?}");
}
