//! The watchdogs of a command: two processes that kill the command when `tenure run` does not.
//!
//! `tenure run` stops the command by itself when the term ends. But `tenure run` may be killed, or
//! frozen while the command is not (`kill -STOP`, a debugger). So may a watchdog. A frozen process
//! can't kill the command, and a killed one leaves the command's children alive, so two watchdogs
//! guard each command: at least one of the three processes acts unless all of them are frozen or
//! killed.
//!
//! The first watchdog leads the command's process group, starts the command and passes on its exit
//! code. The second one is a member of that group and only guards. Each of them has a pipe from
//! `tenure run`, and kills the group, itself included, when the pipe ends or the last deadline has
//! passed. The deadline uses the same clock as the term. Both are members of the group, so the
//! kernel can't reuse its id while one of them lives.
//!
//! | `tenure run` | first watchdog | end of the group |
//! |---|---|---|
//! | alive | alive, frozen | by `tenure run`, when the term ends |
//! | alive | killed | the command by the kernel, at once; the group by `tenure run` |
//! | frozen | alive, frozen | by a watchdog, at the deadline |
//! | frozen | killed | the command by the kernel, at once; the group by the second watchdog, at the deadline |
//! | killed | alive, frozen, killed | by a watchdog, at once |

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nix::sys::signal::{Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, close, getpgid, getpgrp, getpid, getppid, setpgid};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

use super::orphans;
use crate::exit::{self, NOT_EXECUTABLE, NOT_FOUND, code_of_status};
use crate::parent;
use crate::runtime::{self, is_ignored};
use crate::settings::stop_signal;
use crate::task_limit::explained;

/// The first watchdog.
#[derive(Debug, Args)]
pub(crate) struct Watchdog {
    /// Inherited file descriptor to read deadlines from
    #[arg(long)]
    deadlines: i32,
    /// Inherited file descriptor to write the process id of the command to
    #[arg(long)]
    started: i32,
    /// Number of the signal that asks the command to stop
    #[arg(long)]
    stop_signal: i32,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The second watchdog.
#[derive(Debug, Args)]
pub(crate) struct SecondWatchdog {
    /// Inherited file descriptor to read deadlines from
    #[arg(long)]
    deadlines: i32,
}

/// The process that becomes the command.
#[derive(Debug, Args)]
pub(crate) struct Watched {
    /// Process id of the watchdog, with which the command must end
    #[arg(long)]
    parent: i32,
    /// Inherited file descriptor to write the process id to
    #[arg(long)]
    started: i32,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The longest time between two readings of the clock: timers do not run while a machine is
/// suspended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The time that background processes of an ended command get to stop.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// How often to check whether they have stopped.
const LEFTOVER_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the time of the clock for deadlines, which also measures terms.
pub(super) fn now() -> Duration {
    // If the clock can't be read, every deadline has passed.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from)
}

impl Watchdog {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        parent::adopt_orphans()?;
        runtime::block_on(guard(self))
    }
}

async fn guard(arguments: &Watchdog) -> anyhow::Result<ExitCode> {
    // The signals of the group are for the command; this process outlives them to pass on the exit
    // code. It handles them, because the command would inherit ignored signals. Under `nohup` the
    // command must inherit the ignored SIGHUP.
    let is_left_alone = |it: &Signal| *it == Signal::SIGHUP && is_ignored(Signal::SIGHUP);
    let handled = stop_signal::SIGNALS
        .into_iter()
        .filter(|it| !is_left_alone(it));
    let handled = handled.map(|it| signal(SignalKind::from_raw(it as i32)));
    let _handled: Vec<_> = handled.collect();
    let stop_signal = Signal::try_from(arguments.stop_signal)?;
    // This keeps the id of the group, because this process leaves the group at the end.
    let group = getpgrp();
    let mut deadline = read_deadlines(arguments.deadlines, group)?;
    // If the term ends before the start of the command, the command does not start.
    deadline
        .wait_for(|deadline| !deadline.is_zero())
        .await
        .context("no deadline in the pipe")?;
    kill_if_passed(group, &deadline);

    let mut child = start(arguments)?;
    let pid = child.id();
    let code = loop {
        let left = deadline.borrow().saturating_sub(now());
        tokio::select! {
            status = child.wait() => break code_of_status(status?),
            () = sleep(left.min(POLL_INTERVAL)) => {
                kill_if_passed(group, &deadline);
                orphans::collect_except(pid);
            }
        }
    };
    // This process stops them, and not `tenure run`, because the deadline also applies to processes
    // that the command has left behind.
    if !orphans::collect_own_group() {
        let _ = killpg(group, stop_signal);
        let kill_at = now() + LEFTOVER_GRACE;
        while !orphans::collect_own_group() && now() < kill_at {
            kill_if_passed(group, &deadline);
            sleep(LEFTOVER_POLL_INTERVAL).await;
        }
    }
    kill_the_others(group);
    Ok(ExitCode::from(code))
}

impl SecondWatchdog {
    /// Guards the group. The first deadline arrives before the command starts.
    ///
    /// This process inherits a mask that blocks all signals: the signals of the group are for the
    /// command.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let group = getpgrp();
        let deadline = read_deadlines(self.deadlines, group)?;
        loop {
            let newest = *deadline.borrow();
            if newest.is_zero() {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            }
            kill_if_passed(group, &deadline);
            std::thread::sleep(newest.saturating_sub(now()).min(POLL_INTERVAL));
        }
    }
}

/// Kills the rest of the group, including the second watchdog: this process ends next, and `tenure
/// run`, which would kill the group, may be frozen. No process escapes by forking: one signal goes
/// to all, and a process with a pending SIGKILL can't fork.
fn kill_the_others(group: Pid) {
    // SIGKILL kills every process of the group, and this process still has to pass on the exit
    // code: it moves to the group of `tenure run`. If that is gone, no process waits for the exit
    // code.
    if let Ok(elsewhere) = getpgid(Some(getppid())) {
        // 0 is a group whose number comes from outside of this PID namespace. No process can move
        // there.
        let elsewhere = match elsewhere.as_raw() {
            0 => other_group().unwrap_or(group),
            _ => elsewhere,
        };
        let _ = setpgid(Pid::from_raw(0), elsewhere);
    }
    let _ = killpg(group, Signal::SIGKILL);
}

/// Starts a process in a group of its own, and returns this group. The group lasts as long as this
/// process, which does not wait for its child.
fn other_group() -> Option<Pid> {
    let child = std::process::Command::new("/proc/self/exe")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    Some(Pid::from_raw(i32::try_from(child.ok()?.id()).ok()?))
}

fn start(arguments: &Watchdog) -> anyhow::Result<Child> {
    // The child runs this program first, see `Watched`. The current thread lives as long as this
    // process. That is necessary, because for the kernel the end of the thread that has started a
    // child is the end of the parent.
    let child = Command::new("/proc/self/exe")
        .arg0("tenure")
        .arg("watched")
        .arg("--parent")
        .arg(getpid().to_string())
        .arg("--started")
        .arg(arguments.started.to_string())
        .arg("--")
        .args(&arguments.command)
        .spawn()
        .map_err(|error| explained("can't start the command", &error))?;
    // Only the child has it now, so it ends with the child or when the child becomes the command.
    close(arguments.started)?;
    Ok(child)
}

impl Watched {
    /// Becomes the command. The kernel kills this process when the watchdog is gone, even if
    /// `tenure run`, which also notices that, is killed at the same time. The kernel does not kill
    /// the children of this process.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        parent::end_with(self.parent)?;
        // The pipe ends when this process becomes the command: signals for the command would end
        // this process before.
        let mut started = File::options()
            .write(true)
            .open(format!("/proc/self/fd/{}", self.started))
            .context("can't open the pipe")?;
        close(self.started)?;
        started.write_all(&getpid().as_raw().to_le_bytes())?;
        let (program, arguments) = (&self.command[0], &self.command[1..]);
        let error = std::process::Command::new(program).args(arguments).exec();
        let code = match error.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        let error = anyhow::Error::new(error);
        let error = error.context(format!("can't run {}", program.display()));
        Err(exit::error(code, error))
    }
}

/// Kills the whole group, including this process, if the deadline has passed.
fn kill_if_passed(group: Pid, deadline: &watch::Receiver<Duration>) {
    if now() >= *deadline.borrow() {
        let _ = killpg(group, Signal::SIGKILL);
    }
}

/// Reads deadlines from an inherited pipe in a thread. The end of the pipe means that `tenure run`
/// has ended: the thread kills the group.
fn read_deadlines(pipe: i32, group: Pid) -> anyhow::Result<watch::Receiver<Duration>> {
    // A file that is opened here is closed in the command; the inherited descriptor would not be.
    let mut file = File::open(format!("/proc/self/fd/{pipe}")).context("can't open the pipe")?;
    close(pipe)?;
    let (sender, receiver) = watch::channel(Duration::ZERO);
    let thread = std::thread::Builder::new();
    let started = thread.spawn(move || {
        // A read returns whole deadlines, because each is one write. Only the newest one counts: a
        // watchdog that starts late must not use one that has passed meanwhile.
        let mut buffer = [0; 128 * size_of::<u64>()];
        loop {
            match file.read(&mut buffer) {
                Ok(length) => match buffer[..length].last_chunk() {
                    Some(nanos) => {
                        sender.send_replace(Duration::from_nanos(u64::from_le_bytes(*nanos)));
                    }
                    None => break,
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = killpg(group, Signal::SIGKILL);
    });
    started.map_err(|error| explained("can't start a thread of a watchdog", &error))?;
    Ok(receiver)
}
