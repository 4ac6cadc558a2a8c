//! Processes that must not outlive the process that started them, and orphans.

use anyhow::ensure;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

/// Makes the kernel kill this process when `parent`, which started it, ends.
pub(crate) fn end_with(parent: i32) -> anyhow::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The parent may have ended before the call; then this process has another parent by now.
    ensure!(
        getppid() == Pid::from_raw(parent),
        "process {parent}, which started this one, has ended"
    );
    Ok(())
}

/// Makes orphans among the descendants of this process its children, so that it can find them.
pub(crate) fn adopt_orphans() -> anyhow::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}
