//! Processes that must not outlive the one that started them.

use anyhow::bail;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

/// Has the kernel kill this process when `parent`, which started it, ends.
pub(crate) fn end_with(parent: i32) -> anyhow::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // It may have ended before that; then there is another parent by now.
    if getppid() != Pid::from_raw(parent) {
        bail!("process {parent}, which started this one, has ended");
    }
    Ok(())
}
