//! The process group of a command.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

/// How often to look whether a group is gone.
const LOOK: Duration = Duration::from_millis(5);

/// A process group. When it is dropped, all of it is killed: whatever takes the task that runs a
/// command takes the command, too.
#[derive(Debug)]
pub(super) struct Group(Pid);

/// Makes orphans below this process its own children, so that it can see when the last process of
/// a group is gone.
pub(super) fn adopt_orphans() -> std::io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

impl Group {
    pub(super) const fn new(leader: Pid) -> Self {
        Self(leader)
    }

    pub(super) fn signal(&self, signal: Signal) {
        // The only error that can be is that nobody is left.
        let _ = killpg(self.0, signal);
    }

    /// Waits until nobody of the group is left, with SIGTERM now and SIGKILL after `grace`. The
    /// leader's exit must have been collected.
    pub(super) async fn end(&self, grace: Duration) {
        if self.is_gone() {
            return;
        }
        self.signal(Signal::SIGTERM);
        let patience = Instant::now() + grace;
        let mut killed = false;
        while !self.is_gone() {
            if !killed && Instant::now() >= patience {
                killed = true;
                self.signal(Signal::SIGKILL);
            }
            sleep(LOOK).await;
        }
    }

    /// Whether nobody is left; collects those that have ended, adopted orphans too.
    fn is_gone(&self) -> bool {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status.pid().is_none() {
                break;
            }
        }
        killpg(self.0, None) == Err(Errno::ESRCH)
    }
}

/// Most that a drop waits for a killed group to be gone: the kernel needs less than a millisecond,
/// unless a process is stuck in it.
const DROP_PATIENCE: u32 = 50;

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        for _ in 0..DROP_PATIENCE {
            if self.is_gone() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
