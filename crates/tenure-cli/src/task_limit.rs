//! Limits of processes and threads, which the system counts together.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::anyhow;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use crate::exit::{self, SYSTEM};

/// The path of this program's file.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The stack of a thread that only counts.
const STACK_BYTES: usize = 64 * 1024;

/// Fails if the system does not let this process start as many threads and processes as `command`
/// needs. They are started late, for example when a term begins, and then it would be too late for
/// an error. The function starts that many threads at a time, and ends them.
pub(crate) fn require(tasks: usize, command: &str) -> anyhow::Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // The threads wait until this guard is dropped, so that they exist at the same time.
        let _closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
        for started in 0..tasks {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            let started = thread
                .spawn_scoped(scope, || drop(gate.lock()))
                .map_err(|error| {
                    let what = format!(
                        "{command} needs {tasks} more processes and threads, and the system allows {started}"
                    );
                    explained(&what, &error)
                });
            started?;
        }
        Ok(())
    })
}

/// Fails if this program can't start its own file as a child process, because there is no `/proc`.
pub(crate) fn require_this_program() -> anyhow::Result<()> {
    fs::metadata(THIS_PROGRAM).map(drop).map_err(|error| {
        let error = anyhow!("can't read {THIS_PROGRAM}: {error}; mount /proc");
        exit::error(SYSTEM, error)
    })
}

/// The error of a process or thread that the system did not start, with its exit code. If a limit
/// may be the reason, the text names the limits.
pub(crate) fn explained(what: &str, error: &io::Error) -> anyhow::Error {
    let is_limit = error.raw_os_error() == Some(Errno::EAGAIN as i32);
    let limits = if is_limit { limits() } else { String::new() };
    exit::error(SYSTEM, anyhow!("{what}: {error}{limits}"))
}

/// The error of a process that has ended because the system did not start its own threads or
/// processes. Its log has the reason.
pub(crate) fn not_started(what: &str) -> anyhow::Error {
    exit::error(SYSTEM, anyhow!("{what}{}", limits()))
}

fn limits() -> String {
    let of_user = match getrlimit(Resource::RLIMIT_NPROC) {
        Ok((soft, _)) if soft < u64::from(u32::MAX) => soft.to_string(),
        _ => "unlimited".into(),
    };
    let of_group = pids_max().unwrap_or_else(|| "unlimited".into());
    format!(
        "; the limits are {of_user} for the user (ulimit -u, LimitNPROC=) and {of_group} for the cgroup \
         (pids.max, TasksMax=)"
    )
}

/// The limit of the nearest cgroup of this process that has one.
fn pids_max() -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().find_map(|line| {
        // `0::/path` in the unified hierarchy, `4:pids:/path` in the older one.
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|it| it == "pids") => "/sys/fs/cgroup/pids",
            _ => return None,
        };
        Path::new(path).ancestors().find_map(|group| {
            let group = group.strip_prefix("/").unwrap_or(group);
            let limit = fs::read_to_string(Path::new(root).join(group).join("pids.max")).ok()?;
            let limit = limit.trim().to_owned();
            limit.parse::<u64>().is_ok().then_some(limit)
        })
    })
}
