//! The servers and candidates of other projects that `tests/servers/build` has built.

use std::path::PathBuf;
use std::process::Command;

use crate::needs::{can_run, output_of, skipped};

/// The path of a program by its name there; `None` if it is missing, and the test cannot run.
///
/// The gate builds some of them beside the tests. It sets `TENURE_SERVERS_OPTIONAL`, so that a
/// missing one fails no test, and counts the messages.
///
/// # Panics
///
/// If it is missing, `CI=true`, and `TENURE_SERVERS_OPTIONAL` is not set.
#[must_use]
pub fn server(test: &str, name: &str) -> Option<PathBuf> {
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/servers/build");
    let path = output_of(Command::new(build).args(["--cached", name]));
    let needs = format!("the server {name} (tests/servers/build {name})");
    if path.is_none() && std::env::var_os("TENURE_SERVERS_OPTIONAL").is_some() {
        skipped(test, &format!("it needs {needs}"));
    } else {
        let _ = can_run(test, &needs, path.is_some());
    }
    path.map(PathBuf::from)
}
