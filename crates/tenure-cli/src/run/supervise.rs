//! One run of the command, in the hands of the candidate's task.

use std::ffi::OsString;
use std::io::{IsTerminal, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::signal::Signal;
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
    let (reader, writer) = std::io::pipe()?;
    let mut deadlines = Deadlines::new(writer)?;
    deadlines.tell(leadership);
    let mut child = start(leadership, command, &reader)?;
    drop(reader);
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .context("the command has no id")?;
    let group = Group::new(Pid::from_raw(pid));
    info!(election = %leadership.election(), epoch = %leadership.epoch(), pid, "command started");
    let status = attend(leadership, &mut child, &group, &mut deadlines).await?;
    // What the command has left behind in its group must not outlive the term; the watchdog has
    // asked it to stop.
    group.end().await;
    let code = code_of(status);
    info!(election = %leadership.election(), epoch = %leadership.epoch(), code, "command ended");
    Ok(code)
}

fn start(
    leadership: &Leadership,
    command: &[OsString],
    deadlines: &PipeReader,
) -> anyhow::Result<Child> {
    // The watchdog inherits this end of the pipe, and nobody inherits the other one (Rust makes
    // files close-on-exec): when this process ends, for whatever reason, the watchdog sees it.
    fcntl(deadlines, FcntlArg::F_SETFD(FdFlag::empty()))?;
    // A background group that reads from a terminal is stopped by the system.
    let stdin = if std::io::stdin().is_terminal() {
        Stdio::null()
    } else {
        Stdio::inherit()
    };
    // The watchdog is this program. It starts the command in the group that it leads.
    let mut watchdog = Command::new("/proc/self/exe");
    watchdog
        .arg0("tenure")
        .arg("watchdog")
        .arg("--deadlines")
        .arg(deadlines.as_raw_fd().to_string())
        .arg("--")
        .args(command)
        .env("TENURE_ELECTION", leadership.election().to_string())
        .env("TENURE_CANDIDATE", leadership.candidate().as_str())
        .env("TENURE_EPOCH", leadership.epoch().to_string())
        .stdin(stdin)
        .process_group(0);
    // It gives the command what it has itself.
    without_secrets(&mut watchdog)
        .spawn()
        .context("can't start the watchdog")
}

/// Waits for the command's end; stops it when the term ends.
async fn attend(
    leadership: &Leadership,
    child: &mut Child,
    group: &Group,
    deadlines: &mut Deadlines,
) -> anyhow::Result<ExitStatus> {
    let mut tell = tokio::time::interval(TELL);
    let mut kill_at = None;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(status?),
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
            _ = tell.tick() => deadlines.tell(leadership),
        }
    }
}

/// The way to the watchdog: when it must have killed the command, if it hears nothing newer.
struct Deadlines {
    pipe: PipeWriter,
    last: Duration,
}

impl Deadlines {
    fn new(pipe: PipeWriter) -> anyhow::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            pipe,
            last: Duration::ZERO,
        })
    }

    fn tell(&mut self, leadership: &Leadership) {
        let deadline = now() + leadership.time_to_stop();
        // The deadline is an instant that moves with each renewal; what it is computed from jitters.
        if deadline.abs_diff(self.last) > Duration::from_millis(5) {
            let nanos = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            // A full pipe means a frozen watchdog, whose group is as frozen as it is, or about to
            // be killed by its last deadline.
            if self.pipe.write_all(&nanos.to_le_bytes()).is_ok() {
                self.last = deadline;
            }
        }
    }
}
