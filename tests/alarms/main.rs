//! Tests of the alerts for Prometheus and of the dashboard for Grafana: their files, and a run of
//! Prometheus against stores and candidates under faults.

mod dashboard;
mod files;
mod installation;
mod live;
mod prometheus;
mod rules;
mod runbooks;

use std::fs;

use tenure_tests::needs::{can_run, has_program};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Whether Prometheus and promtool are here.
fn has_prometheus(test: &str) -> bool {
    let is_here = has_program("prometheus") && has_program("promtool");
    can_run(test, "Prometheus (the Debian package prometheus)", is_here)
}

/// The text of a file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{path}")).unwrap_or_else(|error| panic!("{path}: {error}"))
}
