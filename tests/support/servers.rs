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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_fails_a_test_unless_the_gate_builds_it() {
        let inner = "TENURE_TESTS_HAVE_NO_SERVER";
        if std::env::var_os(inner).is_some() {
            assert!(server("journey", "etcd-3.6").is_none());
            return;
        }
        let empty = tempfile::tempdir().unwrap();
        let this = "servers::tests::a_missing_server_fails_a_test_unless_the_gate_builds_it";
        let run = |is_optional: bool| {
            let optional = is_optional.then_some(("TENURE_SERVERS_OPTIONAL", "true"));
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", this])
                .envs([(inner, ""), ("CI", "true")])
                .env("TENURE_SERVERS", empty.path())
                .env_remove("TENURE_SERVERS_OPTIONAL")
                .envs(optional)
                .output()
                .unwrap()
        };
        assert!(!run(false).status.success());
        let output = run(true);
        assert!(output.status.success(), "{output:?}");
        // `.ci/run` counts these lines.
        let line = "SKIPPED journey: it needs the server etcd-3.6 (tests/servers/build etcd-3.6)";
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.lines().any(|it| it == line), "{stderr}");
    }
}
