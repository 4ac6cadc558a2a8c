//! The check of metrics by Prometheus' own tool.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::needs::{can_run, has_program};

/// Checks that `promtool check metrics` has no complaint about this text. Without `promtool` the
/// test is skipped, or fails in CI.
///
/// # Panics
///
/// If there is a complaint.
pub fn check_metrics(test: &str, text: &str) {
    let has_promtool = has_program("promtool");
    if !can_run(test, "promtool (package prometheus)", has_promtool) {
        return;
    }
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut stdin = promtool.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("promtool reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("promtool ends");
    let complaints = [output.stdout, output.stderr].concat();
    let complaints = String::from_utf8_lossy(&complaints);
    assert!(
        output.status.success() && complaints.is_empty(),
        "{complaints}\n{text}"
    );
}
