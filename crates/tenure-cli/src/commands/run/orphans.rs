//! Processes whose parents have ended.
//!
//! A process that adopts the orphans among its descendants can see when the last process of a group
//! is gone, and must collect their exit statuses, because no other process does.

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// Collects children that have ended.
pub(super) fn collect() {
    collect_except(None);
}

/// Collects children that have ended, except this one, whose exit status is read elsewhere.
pub(super) fn collect_except(child: Option<u32>) {
    let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while let Ok(status) = waitid(Id::All, peek) {
        match status.pid() {
            Some(pid) if Some(pid.as_raw().cast_unsigned()) != child => {
                let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            }
            _ => return,
        }
    }
}

/// Collects children in this process's own group that have ended; returns whether none is left.
pub(super) fn collect_own_group() -> bool {
    loop {
        match waitpid(Pid::from_raw(0), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return false,
            Ok(_) => {}
            Err(_) => return true,
        }
    }
}
