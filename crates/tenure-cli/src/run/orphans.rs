//! Processes whose parents have ended.
//!
//! A process that adopts the orphans below it sees when the last one of a group is gone, and must
//! collect them: nobody else does.

use nix::sys::prctl;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// Makes orphans below this process its own children.
pub(super) fn adopt() -> std::io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// Collects children that have ended.
pub(super) fn collect() {
    collect_except(None);
}

/// Collects children that have ended, but leaves this one's end to who waits for it.
pub(super) fn collect_except(child: Option<u32>) {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while let Ok(status) = waitid(Id::All, look) {
        match status.pid() {
            Some(pid) if Some(pid.as_raw().cast_unsigned()) != child => {
                let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            }
            _ => return,
        }
    }
}

/// Collects children of this process's own group that have ended; true if there are no more.
pub(super) fn collect_own_group() -> bool {
    loop {
        match waitpid(Pid::from_raw(0), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return false,
            Ok(_) => {}
            Err(_) => return true,
        }
    }
}
