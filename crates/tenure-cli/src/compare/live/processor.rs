//! How much of the processor processes take.

use std::fs;
use std::time::Duration;

use nix::unistd::Pid;

use crate::processes::below;

/// How long everything below this process has run so far, without the leaders' tasks; `None` where the
/// system does not tell.
pub(super) fn time() -> Option<Duration> {
    let elects = |process: &Pid| {
        let arguments = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        arguments.split('\0').nth(1) != Some("compare-worker")
    };
    below(Pid::this())
        .into_iter()
        .filter(elects)
        .map(of_process)
        .sum()
}

fn of_process(process: Pid) -> Option<Duration> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let of_task = |task: fs::DirEntry| {
        let told = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let nanos = told.split(' ').next()?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    };
    tasks.flatten().map(of_task).sum()
}
