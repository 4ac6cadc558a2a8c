//! The descendants of this process.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// Makes orphans among the descendants of this process its children, so that it can find them.
pub(super) fn adopt_orphans() -> anyhow::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// The living descendants of a process, parents first.
pub(super) fn descendants(process: Pid) -> Vec<Pid> {
    let mut all = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().flat_map(str::parse) {
            let child = Pid::from_raw(child);
            if is_alive(child) {
                all.push(child);
            }
            all.extend(descendants(child));
        }
    }
    all
}

/// Whether a process lives and is not a zombie.
fn is_alive(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    !after_name.is_empty() && !after_name.starts_with(" Z")
}

/// Kills and collects all descendants of this process, and returns their number. A process may start
/// another one just before it is killed, and that one is then an orphan. So this repeats until none
/// is left.
pub(super) fn kill_all() -> usize {
    let mut killed = BTreeSet::new();
    loop {
        let left = descendants(Pid::this());
        for &process in &left {
            let _ = kill(process, Signal::SIGKILL);
        }
        killed.extend(left.iter().copied());
        while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status.pid().is_some())
        {
        }
        if left.is_empty() {
            return killed.len();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

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
