//! A process of the demo.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a process may take to stop when it is asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// A process that does not outlive its owner.
#[derive(Debug)]
pub(super) struct Process(pub(super) Child);

/// This program, to be started with these arguments. What the environment says of it is for the user's own work.
pub(super) fn this_program(arguments: &[&str]) -> Command {
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
    pub(super) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        kill(pid, signal).with_context(|| format!("can't send {signal} to {pid}"))
    }

    /// Waits for the end that was asked for.
    pub(super) fn ends_well(&mut self, name: &str) -> anyhow::Result<()> {
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
