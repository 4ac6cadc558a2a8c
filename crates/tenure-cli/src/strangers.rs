//! Environment variables that look like settings and are none.

use tenure::__cli::nearest;
use tracing::warn;

use crate::section::lossy;
use crate::{azure, serve, tls};

/// What begins so is this project's.
const PREFIX: &str = "TENURE_";

/// Variables that are no settings: of logs, what `tenure run` tells its command, and of the tests.
const OTHERS: &[&str] = &[
    "TENURE_LOG",
    "TENURE_LOG_FORMAT",
    "TENURE_EPOCH",
    "TENURE_SEED",
    "TENURE_SEEDS",
    "TENURE_AZURITE",
    "TENURE_AZURE_NODE",
    "TENURE_AZURE_PYTHON",
];

/// Warns of variables that nothing here knows: one that is misspelt would be without effect, and nobody
/// would be told. It is no error, because others may make such names, too.
pub(crate) fn warn_of_strangers() {
    let sections = [serve::SECTION, tls::SECTION, azure::SECTION];
    let known: Vec<String> = tenure::__cli::variables()
        .chain(sections.iter().flat_map(|section| section.variables()))
        .chain(OTHERS.iter().map(|&name| name.to_owned()))
        .collect();
    let known: Vec<&str> = known
        .iter()
        .filter_map(|name| name.strip_prefix(PREFIX))
        .collect();
    for (name, _) in std::env::vars_os() {
        let name = lossy(&name);
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        // Settings are taken in small letters, too.
        let rest = rest.to_ascii_uppercase();
        if known.contains(&rest.as_str()) || is_of_a_service(&name) {
            continue;
        }
        match nearest(&rest, known.iter().copied()) {
            Some(meant) => {
                warn!("environment variable {name} is no setting; did you mean {PREFIX}{meant}?");
            }
            None => warn!("environment variable {name} is no setting"),
        }
    }
}

/// Whether Kubernetes and Docker make such a name for a service that is called tenure, or tenure-something.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_for_services_is_nobody_s_typo() {
        for name in [
            "TENURE_PORT",
            "TENURE_PORT_7400_TCP",
            "TENURE_PORT_7400_TCP_ADDR",
            "TENURE_SERVICE_HOST",
            "TENURE_STORE_SERVICE_PORT_HTTP",
        ] {
            assert!(is_of_a_service(name), "{name}");
        }
        for name in ["TENURE_MAX_HISTRY", "TENURE_PORT_", "TENURE_SERVICE"] {
            assert!(!is_of_a_service(name), "{name}");
        }
    }
}
