//! One run of the command, in the hands of the candidate's task.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use tenure::Leadership;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::group::Group;
use super::watchdog::now;

/// How often the watchdog is told of a new deadline: well within any margin, and cheap.
const TELL: Duration = Duration::from_millis(50);

/// How long background processes that the command has left behind get to stop by themselves.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// How long before the candidate aborts this task the command is killed, so that its end is seen,
/// and the lease not released before it: at most a twentieth of the stop grace.
const SEE_THE_END: Duration = Duration::from_millis(100);

/// Runs the command under this term, and returns its exit code when its whole group is gone.
pub(super) async fn supervise(leadership: &Leadership, command: &[OsString]) -> anyhow::Result<u8> {
    let folder = tempfile::Builder::new().prefix("tenure-run-").tempdir()?;
    let fifo = folder.path().join("deadlines");
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).context("can't make a FIFO")?;
    // Open for both, so that this does not wait for the watchdog. No child inherits it (Rust opens
    // files close-on-exec), so when this process ends, for whatever reason, the watchdog sees the
    // end of the file.
    let mut deadlines = Deadlines {
        fifo: OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open(&fifo)?,
        last: Duration::ZERO,
    };
    deadlines.tell(leadership);

    let mut child = start(leadership, command, &fifo)?;
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .context("the command has no id")?;
    let group = Group::new(Pid::from_raw(pid));
    info!(election = %leadership.election(), epoch = %leadership.epoch(), pid, "command started");
    let status = attend(leadership, &mut child, &group, &mut deadlines).await?;
    // The command has ended; what it has left behind in its group must not outlive the term.
    group
        .end(leadership.time_to_stop().min(LEFTOVER_GRACE))
        .await;
    let code = exit_code(status);
    info!(election = %leadership.election(), epoch = %leadership.epoch(), code, "command ended");
    Ok(code)
}

fn start(
    leadership: &Leadership,
    command: &[OsString],
    fifo: &std::path::Path,
) -> anyhow::Result<Child> {
    // A background group that reads from a terminal is stopped by the system.
    let stdin = if std::io::stdin().is_terminal() {
        Stdio::null()
    } else {
        Stdio::inherit()
    };
    // The watchdog is this program. It starts the command in the group that it leads.
    Command::new("/proc/self/exe")
        .arg0("tenure")
        .arg("watchdog")
        .arg("--deadlines")
        .arg(fifo)
        .arg("--")
        .args(command)
        .env("TENURE_ELECTION", leadership.election().to_string())
        .env("TENURE_CANDIDATE", leadership.candidate().as_str())
        .env("TENURE_EPOCH", leadership.epoch().to_string())
        .stdin(stdin)
        .process_group(0)
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
    fifo: File,
    last: Duration,
}

impl Deadlines {
    fn tell(&mut self, leadership: &Leadership) {
        let deadline = now() + leadership.time_to_stop();
        // The deadline is an instant that moves with each renewal; what it is computed from jitters.
        if deadline.abs_diff(self.last) > Duration::from_millis(5) {
            let nanos = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            // A full FIFO means a frozen watchdog, whose group is as frozen as it is, or about to
            // be killed by its last deadline.
            if self.fifo.write_all(&nanos.to_le_bytes()).is_ok() {
                self.last = deadline;
            }
        }
    }
}

/// As shells say it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
