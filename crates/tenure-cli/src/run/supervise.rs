//! One run of the command, in the hands of the candidate's task.

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

use super::group::Group;
use super::watchdog::now;
use super::without_secrets;
use crate::exit::code_of;

/// How often the watchdog is told of a new deadline: well within any margin, and cheap.
const TELL: Duration = Duration::from_millis(50);

/// How long before the candidate aborts this task the command is killed, so that its end is seen,
/// and the lease not released before it: at most a twentieth of the stop grace.
const SEE_THE_END: Duration = Duration::from_millis(100);

/// Runs the command under this term, and returns its exit code when its whole group is gone.
pub(super) async fn supervise(leadership: &Leadership, command: &[OsString]) -> anyhow::Result<u8> {
    let (reader, first_deadlines) = Deadlines::pipe()?;
    let mut child = start(leadership, command, &reader)?;
    drop(reader);
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .context("the command has no id")?;
    let group = Group::new(Pid::from_raw(pid));
    // The first watchdog must not inherit this pipe, because it would pass it on to the command.
    let (reader, second_deadlines) = Deadlines::pipe()?;
    let mut second = start_second(leadership, pid, &reader)?;
    drop(reader);
    // The first deadline starts the command, so both watchdogs are there before it.
    let mut deadlines = [first_deadlines, second_deadlines];
    tell(&mut deadlines, leadership);
    info!(election = %leadership.election(), epoch = %leadership.epoch(), pid, "command started");
    let status = attend(leadership, &mut child, &mut second, &group, &mut deadlines).await?;
    // What the command has left behind in its group must not outlive the term; the watchdog has
    // asked it to stop.
    group.end().await;
    let code = code_of(status);
    info!(election = %leadership.election(), epoch = %leadership.epoch(), code, "command ended");
    Ok(code)
}

/// Starts the first watchdog, which starts the command in the group that it leads.
fn start(
    leadership: &Leadership,
    command: &[OsString],
    deadlines: &PipeReader,
) -> anyhow::Result<Child> {
    // A background group that reads from a terminal is stopped by the system.
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
        // The allocator's huge pages would be most of its memory. It has no children that inherit this.
        .env("MIMALLOC_ALLOW_THP", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(group);
    // It inherits this mask. A signal to the group, such as the one that asks the command to stop, must not end
    // the second watchdog, not even before it could have handlers.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let second = watchdog.spawn();
    mask.thread_set_mask()?;
    second.context("can't start the second watchdog")
}

/// A watchdog to be started: this program once more, with what the command is told.
fn watchdog(
    name: &str,
    leadership: &Leadership,
    deadlines: &PipeReader,
) -> anyhow::Result<Command> {
    // The watchdog inherits this end of the pipe, and nobody inherits the other one (Rust makes
    // files close-on-exec): when this process ends, for whatever reason, the watchdog sees it.
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
    // The command gets the environment of its watchdog.
    without_secrets(&mut watchdog);
    Ok(watchdog)
}

/// Waits for the command's end; stops it when the term ends.
async fn attend(
    leadership: &Leadership,
    child: &mut Child,
    second: &mut Child,
    group: &Group,
    deadlines: &mut [Deadlines],
) -> anyhow::Result<ExitStatus> {
    let mut next_tell = tokio::time::interval(TELL);
    let mut kill_at = None;
    let mut has_second = true;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(status?),
            // Either the first watchdog has killed it and ends next, or it was killed alone. The command must not
            // go on with one watchdog.
            _ = second.wait(), if has_second => {
                has_second = false;
                group.signal(Signal::SIGKILL);
            }
            reason = leadership.lost(), if kill_at.is_none() => {
                let grace = leadership.time_to_stop();
                info!(election = %leadership.election(), epoch = %leadership.epoch(), %reason,
                    ?grace, "stopping the command");
                group.signal(Signal::SIGTERM);
                kill_at = Some(Instant::now() + grace - SEE_THE_END.min(grace / 20));
            }
            () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                warn!(election = %leadership.election(), epoch = %leadership.epoch(),
                    "the command has not stopped within the stop grace and is killed");
                group.signal(Signal::SIGKILL);
                return Ok(child.wait().await?);
            }
            _ = next_tell.tick() => tell(deadlines, leadership),
        }
    }
}

fn tell(watchdogs: &mut [Deadlines], leadership: &Leadership) {
    for watchdog in watchdogs {
        watchdog.tell(leadership);
    }
}

/// The way to a watchdog: when it must have killed the command, if it hears nothing newer.
struct Deadlines {
    pipe: PipeWriter,
    last: Duration,
}

impl Deadlines {
    /// The watchdog's end of a new pipe, and this one.
    fn pipe() -> anyhow::Result<(PipeReader, Self)> {
        let (reader, pipe) = std::io::pipe()?;
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let last = Duration::ZERO;
        Ok((reader, Self { pipe, last }))
    }

    fn tell(&mut self, leadership: &Leadership) {
        let deadline = now() + leadership.time_to_stop();
        // The deadline is an instant that moves with each renewal; what it is computed from jitters.
        if deadline.abs_diff(self.last) > Duration::from_millis(5) {
            let nanos = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            // A full pipe means a frozen watchdog. When it wakes, it kills the group by the last deadline that it
            // was told, at the latest.
            if self.pipe.write_all(&nanos.to_le_bytes()).is_ok() {
                self.last = deadline;
            }
        }
    }
}
