//! The watchdogs of a command: two processes that kill the command when `tenure run` does not.
//!
//! `tenure run` stops the command by itself when the term ends. But `tenure run` may be killed, or
//! frozen while the command is not (`kill -STOP`, a debugger). So may a watchdog. A frozen process can't
//! kill the command, and a killed one leaves the command's children alive, so two watchdogs guard each
//! command: at least one of the three processes acts unless all of them are frozen or killed.
//!
//! The first watchdog leads the command's process group, starts the command and tells how it ended. The
//! second one is a member of that group and only guards. Each of them has a pipe of its own from
//! `tenure run`, and kills the group, itself included, when the pipe ends or the last deadline has passed.
//! The deadline is on the clock that the term is counted on. Both are members of the group, so its number
//! can't pass to other processes while one of them lives.
//!
//! | `tenure run` | first watchdog | who kills the group, and when |
//! |---|---|---|
//! | alive | alive, frozen | `tenure run`, when the term ends |
//! | alive | killed | the kernel kills the command at once, then `tenure run` the group |
//! | frozen | alive, frozen | a watchdog, at the deadline |
//! | frozen | killed | the kernel kills the command at once, the second watchdog the group at the deadline |
//! | killed | alive, frozen, killed | a watchdog, at once |

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, close, getpgid, getpgrp, getpid, getppid, setpgid};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

use super::{is_ignored, orphans};
use crate::cli::{SecondWatchdog, Watchdog, Watched};
use crate::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND, code_of};
use crate::parent;

/// How often the clock is looked at, at least: timers stand still while a machine is suspended.
const LOOK: Duration = Duration::from_millis(100);

/// How long background processes that the command has left behind get to stop by themselves.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// How often to look whether they have.
const LEFTOVER_LOOK: Duration = Duration::from_millis(5);

/// The clock of deadlines: the one that terms are counted on.
pub(super) fn now() -> Duration {
    // If the clock can't be read, every deadline has passed.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from)
}

pub(crate) fn watchdog(arguments: &Watchdog) -> Result<ExitCode, Failure> {
    orphans::adopt()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(watch_over(arguments))
}

async fn watch_over(arguments: &Watchdog) -> Result<ExitCode, Failure> {
    // The command gets the signals of its group; this process outlives them to tell how it ended.
    // Handlers, because ignored signals would be inherited by the command. `nohup` wants the command to inherit it.
    let is_left_alone = |kind| kind == SignalKind::hangup() && is_ignored(Signal::SIGHUP);
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::alarm(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    let handled = kinds.into_iter().filter(|kind| !is_left_alone(*kind));
    let _handled: Vec<_> = handled.map(signal).collect();
    // By its number: at last this process leaves it.
    let group = getpgrp();
    let mut deadline = follow(arguments.deadlines, group)?;
    // A term that has passed before the command has begun is not begun.
    deadline
        .wait_for(|deadline| !deadline.is_zero())
        .await
        .context("no deadline was told")?;
    kill_if_passed(group, &deadline);

    let mut child = start(arguments)?;
    let pid = child.id();
    let code = loop {
        let left = deadline.borrow().saturating_sub(now());
        tokio::select! {
            status = child.wait() => break code_of(status?),
            () = sleep(left.min(LOOK)) => {
                kill_if_passed(group, &deadline);
                orphans::collect_except(pid);
            }
        }
    };
    // Here, and not in `tenure run`: the deadline holds for what was left behind, too.
    if !orphans::collect_own_group() {
        let _ = killpg(group, Signal::SIGTERM);
        let patience = now() + LEFTOVER_GRACE;
        while !orphans::collect_own_group() && now() < patience {
            kill_if_passed(group, &deadline);
            sleep(LEFTOVER_LOOK).await;
        }
    }
    kill_the_others(group);
    Ok(ExitCode::from(code))
}

/// Guards the group and does nothing else. It is told the first deadline before the command starts.
///
/// It inherits a mask that blocks all signals: the group's signals are for the command.
pub(crate) fn second_watchdog(arguments: &SecondWatchdog) -> Result<ExitCode, Failure> {
    let group = getpgrp();
    let deadline = follow(arguments.deadlines, group)?;
    loop {
        let told = *deadline.borrow();
        if told.is_zero() {
            std::thread::sleep(LOOK);
            continue;
        }
        kill_if_passed(group, &deadline);
        std::thread::sleep(told.saturating_sub(now()).min(LOOK));
    }
}

/// Kills who is left of the group, the second watchdog included: this process ends next, and `tenure run`, which
/// would kill it, may be frozen. No member escapes by starting another one: one signal goes to all, and who has it
/// pending can't fork.
fn kill_the_others(group: Pid) {
    // SIGKILL spares nobody in the group, and this process still has to tell how the command ended: it
    // goes over to the group of `tenure run`. If that is gone, nobody asks how it ended.
    if let Ok(elsewhere) = getpgid(Some(getppid())) {
        let _ = setpgid(Pid::from_raw(0), elsewhere);
    }
    let _ = killpg(group, Signal::SIGKILL);
}

fn start(arguments: &Watchdog) -> anyhow::Result<Child> {
    // By way of this program once more, see `watched`. This thread ends with the process: the kernel
    // takes the end of the thread that has started a process for the end of its parent.
    Command::new("/proc/self/exe")
        .arg0("tenure")
        .arg("watched")
        .arg("--parent")
        .arg(getpid().to_string())
        .arg("--")
        .args(&arguments.command)
        .spawn()
        .context("can't start the command")
}

/// Becomes the command, which the kernel kills when the watchdog is gone: also if `tenure run`, which
/// would see that, is killed at the same time. It holds for this process alone, not for its children.
pub(crate) fn watched(arguments: &Watched) -> Result<ExitCode, Failure> {
    parent::end_with(arguments.parent)?;
    let (program, program_arguments) = (&arguments.command[0], &arguments.command[1..]);
    let error = std::process::Command::new(program)
        .args(program_arguments)
        .exec();
    let missing = error.kind() == ErrorKind::NotFound;
    let code = if missing { NOT_FOUND } else { NOT_EXECUTABLE };
    let error = anyhow::Error::new(error);
    let error = error.context(format!("can't run {}", program.display()));
    Err(Failure::new(code, error))
}

/// Kills the whole group, this process with it, once the deadline has passed.
fn kill_if_passed(group: Pid, deadline: &watch::Receiver<Duration>) {
    if now() >= *deadline.borrow() {
        let _ = killpg(group, Signal::SIGKILL);
    }
}

/// Reads deadlines from an inherited pipe, on a thread of its own. The end of the pipe is the end
/// of `tenure run`: the group is killed.
fn follow(pipe: i32, group: Pid) -> anyhow::Result<watch::Receiver<Duration>> {
    // Opened anew it is closed when the command starts; the inherited one would not be.
    let mut file = File::open(format!("/proc/self/fd/{pipe}")).context("can't open the pipe")?;
    close(pipe)?;
    let (sender, receiver) = watch::channel(Duration::ZERO);
    std::thread::spawn(move || {
        // Whole deadlines, because each is written at once. Only the newest one of those that wait counts: a watchdog
        // that starts late must not judge by one that has passed meanwhile.
        let mut told = [0; 128 * size_of::<u64>()];
        loop {
            match file.read(&mut told) {
                Ok(length) => match told[..length].last_chunk() {
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
    Ok(receiver)
}
