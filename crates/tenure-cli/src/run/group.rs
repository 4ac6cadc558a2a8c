//! The process group of a command.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::time::sleep;

use super::orphans;

/// How often to look whether a group is gone.
const LOOK: Duration = Duration::from_millis(5);

/// Most that a drop waits for a killed group to be gone: the kernel needs less than a millisecond,
/// unless a process is stuck in it.
const DROP_PATIENCE: u32 = 50;

/// A process group. When it is dropped, all of it is killed: whatever takes the task that runs a
/// command takes the command, too.
#[derive(Debug)]
pub(super) struct Group(Pid);

impl Group {
    pub(super) const fn new(leader: Pid) -> Self {
        Self(leader)
    }

    pub(super) fn signal(&self, signal: Signal) {
        // The only error that can be is that nobody is left.
        let _ = killpg(self.0, signal);
    }

    /// Kills who is left, and waits until nobody is. The leader's end must have been collected.
    pub(super) async fn end(&self) {
        while !self.is_gone() {
            self.signal(Signal::SIGKILL);
            sleep(LOOK).await;
        }
    }

    /// Whether nobody is left; collects those that have ended, adopted orphans too.
    fn is_gone(&self) -> bool {
        orphans::collect();
        killpg(self.0, None) == Err(Errno::ESRCH)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..DROP_PATIENCE {
            if self.is_gone() {
                return;
            }
            self.signal(Signal::SIGKILL);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
