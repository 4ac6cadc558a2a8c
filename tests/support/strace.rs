//! Faults of system calls, by strace.

use std::fs;
use std::process::Command;

use nix::unistd::Pid;

use crate::needs::{can_run, has_program};
use crate::process::Process;
use crate::wait_for;

/// The calls that make a change durable.
pub const SYNC: &str = "fsync,fdatasync";

/// Whether there is strace; a test without it cannot run.
#[must_use]
pub fn has_strace(test: &str) -> bool {
    can_run(test, "strace", has_program("strace"))
}

/// From now on these calls of a process have this fault, until the strace that is returned is
/// dropped. `how` has the syntax of `strace --inject`, and `filter` are further arguments.
///
/// # Panics
///
/// If strace does not attach to the process.
#[must_use]
pub fn inject(process: Pid, filter: &[&str], calls: &str, how: &str) -> Process {
    let pid = process.to_string();
    let mut strace = Command::new("strace");
    strace.args(filter);
    strace.args(["-f", "-p", &pid, "-e"]);
    strace.arg(format!("trace={calls}"));
    strace.args(["-e", &format!("inject={calls}:{how}")]);
    let strace = Process::spawn(&mut strace);
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    wait_for("strace to attach", || {
        let held = |task: fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0")
        };
        threads().flatten().all(held).then_some(())
    });
    strace
}
