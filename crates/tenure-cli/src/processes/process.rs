//! A process, and what it has started.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// How long a process may take to stop when it is asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// A process that does not outlive its owner.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

/// This program, to be started with these arguments. What the environment says of it is for the user's own work.
pub(crate) fn this_program(arguments: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .args(["--parent", &std::process::id().to_string()]);
    command
}

impl Process {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.pid();
        kill(pid, signal).with_context(|| format!("can't send {signal} to {pid}"))
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.0.try_wait()?.is_none())
    }

    /// Waits for the end that was asked for.
    pub(crate) fn ends_well(&mut self, name: &str) -> anyhow::Result<()> {
        let patience = Instant::now() + STOP_PATIENCE;
        while Instant::now() < patience {
            if let Some(status) = self.0.try_wait()? {
                anyhow::ensure!(status.success(), "{name} ended with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("{name} has not stopped within {STOP_PATIENCE:?}")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes orphans below this process its own children, so that none is lost.
pub(crate) fn adopt_orphans() -> anyhow::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// The living processes that this one has started, and those that they have started, and so on:
/// parents first.
pub(crate) fn below(process: Pid) -> Vec<Pid> {
    let mut all = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().flat_map(str::parse) {
            let child = Pid::from_raw(child);
            if is_alive(child) {
                all.push(child);
            }
            all.extend(below(child));
        }
    }
    all
}

/// Whether a process lives, and is not only not collected yet.
fn is_alive(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    !after_name.is_empty() && !after_name.starts_with(" Z")
}

/// Kills and collects these and everything else below this process, and tells how many that were. Who
/// is killed may have started another one just before, which is an orphan then: so until there are none.
pub(crate) fn end_all(mut own: Vec<Process>) -> usize {
    let mut ended = BTreeSet::new();
    loop {
        let left = below(Pid::this());
        for &process in &left {
            let _ = kill(process, Signal::SIGKILL);
        }
        ended.extend(left.iter().copied());
        // They collect themselves, and what is collected after that are orphans.
        own.clear();
        while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status.pid().is_some())
        {
        }
        if left.is_empty() {
            return ended.len();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
