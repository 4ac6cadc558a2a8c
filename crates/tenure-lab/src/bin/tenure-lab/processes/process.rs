//! Child processes and their descendants.

use std::collections::BTreeSet;
use std::fs;
use std::process::Child;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// A child process; a drop kills it.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes orphans among the descendants of this process its children, so that it can find them.
pub(crate) fn adopt_orphans() -> anyhow::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// The living descendants of a process, parents first.
pub(crate) fn descendants(process: Pid) -> Vec<Pid> {
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

/// Kills and collects these processes and all other descendants of this one, and returns their
/// number. A process may start another one just before it is killed, and that one is then an
/// orphan. So this repeats until none is left.
pub(crate) fn kill_all(mut own: Vec<Process>) -> usize {
    let mut killed = BTreeSet::new();
    loop {
        let left = descendants(Pid::this());
        for &process in &left {
            let _ = kill(process, Signal::SIGKILL);
        }
        killed.extend(left.iter().copied());
        // A drop collects each of them; all other children are orphans.
        own.clear();
        while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status.pid().is_some())
        {
        }
        if left.is_empty() {
            return killed.len();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
