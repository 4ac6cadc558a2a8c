//! The process group of a command.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::time::sleep;

use super::orphans;

/// How often to check whether a group is gone.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How many milliseconds a drop waits at most until a killed group is gone. The kernel needs less
/// than one, unless a process is stuck in a system call.
const DROP_TIMEOUT_MS: u32 = 50;

/// A process group of the command or of the health command. A drop kills all its processes, so that
/// they end with the task that runs them.
#[derive(Debug)]
pub(super) struct ProcessGroup(Pid);

impl ProcessGroup {
    pub(super) const fn new(leader: Pid) -> Self {
        Self(leader)
    }

    pub(super) fn signal(&self, signal: Signal) {
        // The only possible error is that no process is left.
        let _ = killpg(self.0, signal);
    }

    /// Kills all processes and waits until none is left. The exit status of the leader must have
    /// been collected.
    pub(super) async fn kill(&self) {
        while !self.is_gone() {
            self.signal(Signal::SIGKILL);
            sleep(POLL_INTERVAL).await;
        }
        orphans::collect();
    }

    /// Whether no process is left. Collects those of the group that have ended, including adopted
    /// orphans, and no others: the exit statuses of other children are read elsewhere.
    fn is_gone(&self) -> bool {
        let group = Pid::from_raw(-self.0.as_raw());
        let ended = || waitpid(group, Some(WaitPidFlag::WNOHANG)).ok()?.pid();
        while ended().is_some() {}
        killpg(self.0, None) == Err(Errno::ESRCH)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        for _ in 0..DROP_TIMEOUT_MS {
            if self.is_gone() {
                return;
            }
            self.signal(Signal::SIGKILL);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
