//! Warnings about environment variables that look like settings and are unknown.

use std::env;
use std::sync::Once;

use crate::keys::PREFIX;
use crate::scope::{Scope, nearest};

/// Known variables that are not settings: for logs, for flags, for the commands of `tenure run`, and
/// for tests.
const OTHERS: &[&str] = &[
    "TENURE_LOG",
    "TENURE_LOG_FORMAT",
    "TENURE_CONTEXT",
    "TENURE_EPOCH",
    "TENURE_SEED",
    "TENURE_SEEDS",
    "TENURE_API_PYTHON",
    "TENURE_ADVISORIES",
    "TENURE_AZURITE",
    "TENURE_AZURE_NODE",
    "TENURE_AZURE_PYTHON",
    "TENURE_BROWSER_NODE",
    "TENURE_TEST_BINARY",
    "TENURE_PACKAGING_PYTHON",
    "TENURE_KUBERNETES_KUBE",
    "TENURE_KUBERNETES_PYTHON",
];

/// Warns about unknown variables, once for each process: a misspelt one would silently have no
/// effect. It is not an error, because other programs may use such names as well.
pub fn warn_of_unknown_variables(scope: Scope) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (name, _) in env::vars_os() {
            if let Some(problem) = problem(scope, &name.to_string_lossy()) {
                tracing::warn!("{problem}");
            }
        }
    });
}

/// Returns the warning about a variable with this name; `None` if it is known, or not of tenure.
pub(crate) fn problem(scope: Scope, name: &str) -> Option<String> {
    // Settings may be in lower case as well.
    let rest = name.strip_prefix(PREFIX)?.to_ascii_uppercase();
    let others = OTHERS.iter().map(|&name| name.to_owned());
    let known: Vec<String> = scope.known_variables().chain(others).collect();
    let known = known.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let is_of_other_program = rest
        .split_once('_')
        .is_some_and(|(table, _)| scope.is_ignored(&table.to_ascii_lowercase()));
    if known.clone().any(|known| known == rest) || is_of_other_program || is_of_a_service(name) {
        return None;
    }
    let near = || nearest(&rest, known).map(|near| format!("{PREFIX}{near}"));
    let meant = scope
        .variable_of_full_name(&rest)
        .map(str::to_owned)
        .or_else(near);
    let meant = meant.map(|meant| format!("; did you mean {meant}?"));
    Some(format!(
        "environment variable {name} is not a setting{}",
        meant.unwrap_or_default()
    ))
}

/// Returns whether Kubernetes or Docker set such a variable for a service named `tenure` or
/// `tenure-*`.
fn is_of_a_service(name: &str) -> bool {
    let is_port = name
        .split("_PORT_")
        .nth(1)
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    is_port
        || name.ends_with("_PORT")
        || name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
}
