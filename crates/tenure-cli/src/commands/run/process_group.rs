//! The process group of a command.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::time::sleep;

use super::orphans;

/// How often to check whether a group is gone.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long a drop waits at most until a killed group is gone. The kernel needs less than a
/// millisecond, unless a process is stuck in a system call.
const DROP_TIMEOUT: Duration = Duration::from_millis(50);

/// The groups that exist, for an end of this process that drops nothing.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A process group of the command or of the health command. A drop kills all its processes, so that
/// they end with the task that runs them.
#[derive(Debug)]
pub(super) struct ProcessGroup(Pid);

/// Kills all groups at once, and waits until they are gone, for at most this time each. The function
/// blocks, so that no task of this thread sees the end of its command and releases a lease.
pub(super) fn kill_all(timeout: Duration) {
    let groups = GROUPS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    for group in &groups {
        let _ = killpg(*group, Signal::SIGKILL);
    }
    for group in groups {
        kill_within(group, timeout);
    }
}

/// Kills a group until it is gone, for at most this time. Blocks.
fn kill_within(group: Pid, timeout: Duration) {
    let begun = Instant::now();
    while !is_gone(group) && begun.elapsed() < timeout {
        let _ = killpg(group, Signal::SIGKILL);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether no process is left. Collects those of the group that have ended, including adopted
/// orphans, and no others: the exit statuses of other children are read elsewhere.
fn is_gone(group: Pid) -> bool {
    let all = Pid::from_raw(-group.as_raw());
    let ended = || waitpid(all, Some(WaitPidFlag::WNOHANG)).ok()?.pid();
    while ended().is_some() {}
    killpg(group, None) == Err(Errno::ESRCH)
}

impl ProcessGroup {
    pub(super) fn new(leader: Pid) -> Self {
        GROUPS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(leader);
        Self(leader)
    }

    pub(super) fn signal(&self, signal: Signal) {
        // The only possible error is that no process is left.
        let _ = killpg(self.0, signal);
    }

    /// Kills all processes and waits until none is left. The exit status of the leader must have
    /// been collected.
    pub(super) async fn kill(&self) {
        while !is_gone(self.0) {
            self.signal(Signal::SIGKILL);
            sleep(POLL_INTERVAL).await;
        }
        orphans::collect();
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|group| *group != self.0);
        drop(groups);
        kill_within(self.0, DROP_TIMEOUT);
    }
}
