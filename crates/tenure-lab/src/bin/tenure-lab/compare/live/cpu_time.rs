//! Processor time of processes.

use std::fs;
use std::time::Duration;

use nix::unistd::Pid;

use crate::processes::descendants;

/// The processor time of all descendants of this process, without the leaders' tasks; `None` where
/// the system does not report it.
pub(super) fn cpu_time() -> Option<Duration> {
    let is_task = |process: &Pid| {
        let arguments = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        arguments.split('\0').nth(1) == Some("compare-worker")
    };
    let processes = descendants(Pid::this()).into_iter();
    processes
        .filter(|process| !is_task(process))
        .map(of_process)
        .sum()
}

fn of_process(process: Pid) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let of_thread = |thread: fs::DirEntry| {
        let statistics = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanos = statistics.split(' ').next()?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    };
    threads.flatten().map(of_thread).sum()
}
