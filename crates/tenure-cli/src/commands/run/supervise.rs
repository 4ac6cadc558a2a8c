//! One run of the command, as the task of a candidate.

use std::ffi::OsString;
use std::io::{IsTerminal, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::Pid;
use tenure::Leadership;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::environment::remove_secrets;
use super::process_group::ProcessGroup;
use super::watchdog::now;
use crate::exit::code_of_status;

/// The interval at which the watchdogs get a new deadline: much shorter than any margin, and cheap.
const DEADLINE_INTERVAL: Duration = Duration::from_millis(50);

/// The time from the kill of the command to the abort of this task, at most a twentieth of the stop
/// grace. In this time the task notices the end of the command, so the lease is not released before
/// that end.
const KILL_MARGIN: Duration = Duration::from_millis(100);

/// Runs the command in this term, and returns its exit code when its whole group is gone.
pub(super) async fn supervise(leadership: &Leadership, command: &[OsString]) -> anyhow::Result<u8> {
    let (reader, first_deadlines) = Deadlines::pipe()?;
    let mut child = start(leadership, command, &reader)?;
    drop(reader);
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .context("the command has no id")?;
    let group = ProcessGroup::new(Pid::from_raw(pid));
    // This pipe is created after the start of the first watchdog, which would otherwise pass it on
    // to the command.
    let (reader, second_deadlines) = Deadlines::pipe()?;
    let mut second = start_second(leadership, pid, &reader)?;
    drop(reader);
    // The first deadline starts the command, so both watchdogs run before it.
    let mut deadlines = [first_deadlines, second_deadlines];
    send_deadline(&mut deadlines, leadership);
    info!(election = %leadership.election(), candidate = %leadership.candidate(),
        epoch = leadership.epoch().get(), pid, "command started");
    let status = wait(leadership, &mut child, &mut second, &group, &mut deadlines).await?;
    // Processes that the command has left in its group must not outlive the term. The watchdog has
    // asked them to stop.
    group.kill().await;
    let code = code_of_status(status);
    info!(election = %leadership.election(), candidate = %leadership.candidate(),
        epoch = leadership.epoch().get(), exit_code = code, "command ended");
    Ok(code)
}

/// Starts the first watchdog, which starts the command in the group that it leads.
fn start(
    leadership: &Leadership,
    command: &[OsString],
    deadlines: &PipeReader,
) -> anyhow::Result<Child> {
    // The system stops a background group that reads from a terminal.
    let stdin = if std::io::stdin().is_terminal() {
        Stdio::null()
    } else {
        Stdio::inherit()
    };
    watchdog("watchdog", leadership, deadlines)?
        .arg("--")
        .args(command)
        .stdin(stdin)
        .process_group(0)
        .spawn()
        .context("can't start the watchdog")
}

/// Starts the second watchdog in the group of the first one.
fn start_second(
    leadership: &Leadership,
    group: i32,
    deadlines: &PipeReader,
) -> anyhow::Result<Child> {
    let mut watchdog = watchdog("second-watchdog", leadership, deadlines)?;
    watchdog
        // The allocator's huge pages would be most of its memory. It has no children that inherit
        // the variable.
        .env("MIMALLOC_ALLOW_THP", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(group);
    // The watchdog inherits this mask. A signal to the group, such as the one that asks the command
    // to stop, must not end the second watchdog, not even before it could have handlers.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let second = watchdog.spawn();
    mask.thread_set_mask()?;
    second.context("can't start the second watchdog")
}

/// The command that starts a watchdog: this program, with the environment of the user's command.
fn watchdog(
    name: &str,
    leadership: &Leadership,
    deadlines: &PipeReader,
) -> anyhow::Result<Command> {
    // The watchdog inherits this end of the pipe, and no process inherits the other one (Rust makes
    // files close-on-exec): when this process ends, for any reason, the watchdog reads the end of
    // the pipe.
    fcntl(deadlines, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let mut watchdog = Command::new("/proc/self/exe");
    watchdog
        .arg0("tenure")
        .arg(name)
        .arg("--deadlines")
        .arg(deadlines.as_raw_fd().to_string())
        .env("TENURE_ELECTION", leadership.election().to_string())
        .env("TENURE_CANDIDATE", leadership.candidate().as_str())
        .env("TENURE_EPOCH", leadership.epoch().to_string());
    if let Some(context) = leadership.context() {
        // OpenTelemetry specifies this name for programs that join a trace.
        watchdog.env("TRACEPARENT", context);
    }
    // The command gets the environment of its watchdog.
    remove_secrets(&mut watchdog);
    Ok(watchdog)
}

/// Waits for the end of the command; stops it when the term ends.
async fn wait(
    leadership: &Leadership,
    child: &mut Child,
    second: &mut Child,
    group: &ProcessGroup,
    deadlines: &mut [Deadlines],
) -> anyhow::Result<ExitStatus> {
    let mut interval = tokio::time::interval(DEADLINE_INTERVAL);
    let mut kill_at = None;
    let mut has_second = true;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(status?),
            // Either the first watchdog has killed the second one and ends next, or something else
            // killed it. The command must not continue with one watchdog.
            _ = second.wait(), if has_second => {
                has_second = false;
                group.signal(Signal::SIGKILL);
            }
            reason = leadership.lost(), if kill_at.is_none() => {
                let grace = leadership.time_to_stop();
                info!(election = %leadership.election(), candidate = %leadership.candidate(),
                    epoch = leadership.epoch().get(), %reason,
                    ?grace, "stopping the command");
                group.signal(Signal::SIGTERM);
                kill_at = Some(Instant::now() + grace - KILL_MARGIN.min(grace / 20));
            }
            () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                warn!(election = %leadership.election(), candidate = %leadership.candidate(),
                    epoch = leadership.epoch().get(),
                    "the command did not stop within the stop grace, killing it");
                group.signal(Signal::SIGKILL);
                return Ok(child.wait().await?);
            }
            _ = interval.tick() => send_deadline(deadlines, leadership),
        }
    }
}

fn send_deadline(watchdogs: &mut [Deadlines], leadership: &Leadership) {
    for watchdog in watchdogs {
        watchdog.send(leadership);
    }
}

/// A pipe to a watchdog, for deadlines: without a newer one the watchdog kills the command then.
struct Deadlines {
    pipe: PipeWriter,
    last: Duration,
}

impl Deadlines {
    /// The reading end of a new pipe, for the watchdog, and the writing end.
    fn pipe() -> anyhow::Result<(PipeReader, Self)> {
        let (reader, pipe) = std::io::pipe()?;
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let last = Duration::ZERO;
        Ok((reader, Self { pipe, last }))
    }

    fn send(&mut self, leadership: &Leadership) {
        let deadline = now() + leadership.time_to_stop();
        // The deadline moves with each renewal; smaller changes are jitter of the clock readings.
        if deadline.abs_diff(self.last) > Duration::from_millis(5) {
            let nanos = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            // A full pipe means a frozen watchdog. When it continues, it kills the group by the
            // last deadline in the pipe, at the latest.
            if self.pipe.write_all(&nanos.to_le_bytes()).is_ok() {
                self.last = deadline;
            }
        }
    }
}
