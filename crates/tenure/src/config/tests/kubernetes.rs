//! The settings of a Kubernetes lease.

use super::load;
use crate::Guarantee;
use crate::config::{Config, Strategy};

/// The settings without which a configuration is incomplete outside of a pod.
const PLACE: &str = "url = \"http://127.0.0.1:8001\"\nnamespace = \"jobs\"\n";

/// Loads a configuration with `before` at its top level and `table` in its table.
fn kubernetes(before: &str, table: &str) -> Result<Config, String> {
    let text = format!(
        "election = \"billing/nightly\"\nstrategy = \"kubernetes\"\n{before}\n[kubernetes]\n{table}"
    );
    load(&text, &[])
}

#[test]
fn an_object_has_the_name_of_the_election_or_a_configured_name() {
    let shown = |table: &str| match kubernetes("", &format!("{PLACE}{table}")).unwrap() {
        Config {
            strategy: Strategy::Kubernetes(lease),
            ..
        } => lease.to_string(),
        other => panic!("{other:?}"),
    };
    let own = shown("token_file = \"\"");
    assert_eq!(own, "jobs/billing.nightly at http://127.0.0.1:8001/");
    let named = shown("lease = \"controller\"");
    assert_eq!(named, "jobs/controller at http://127.0.0.1:8001/");
    let config = kubernetes("", PLACE).unwrap();
    assert_eq!(config.guarantee(), Guarantee::FencedLease);
}

#[test]
fn wrong_settings_of_an_object_are_refused_with_a_valid_alternative() {
    for (before, table, told) in [
        (
            "lease_duration = \"2500ms\"",
            "",
            "tenure.toml:3: lease_duration = \"2500ms\": a Kubernetes Lease lasts whole seconds",
        ),
        (
            "lock_delay = \"5s\"",
            "",
            "tenure.toml:3: lock_delay = \"5s\": a Kubernetes Lease has no lock delay",
        ),
        (
            "",
            "lease = \"Nightly\"",
            "kubernetes.lease = \"Nightly\": \"Nightly\" is not the name of a Lease object",
        ),
        (
            "",
            "token_file = \"/nowhere\"",
            "kubernetes.token_file = \"/nowhere\": /nowhere: No such file",
        ),
        (
            "",
            "ca_file = \"/nowhere\"",
            "kubernetes.ca_file = \"/nowhere\": /nowhere: No such file",
        ),
        (
            "",
            "leese = \"a\"",
            "unknown key kubernetes.leese; did you mean kubernetes.lease?",
        ),
        (
            "fallback.node = 1",
            "",
            "other programs that compete for the Lease object know nothing of these members",
        ),
    ] {
        let error = kubernetes(before, &format!("{PLACE}{table}")).unwrap_err();
        assert!(error.contains(told), "{told}\n{error}");
    }
    let text = format!(
        "election = \"Billing_1/nightly\"\nstrategy = \"kubernetes\"\n[kubernetes]\n{PLACE}"
    );
    let error = load(&text, &[]).unwrap_err();
    assert!(
        error.contains("name another one as kubernetes.lease"),
        "{error}"
    );
}
