//! One run of the command, as the task of a candidate.

use std::ffi::OsString;
use std::io::{IsTerminal, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::Pid;
use tenure::Leadership;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::environment::remove_secrets;
use super::process_group::ProcessGroup;
use super::signals::FirstProcess;
use super::watchdog::now;
use crate::exit::{SYSTEM, code_of_status};
use crate::task_limit::{explained, not_started};

/// The interval at which the watchdogs get a new deadline: much shorter than any margin, and cheap.
const DEADLINE_INTERVAL: Duration = Duration::from_millis(50);

/// The time from the kill of the command to the abort of this task, at most a twentieth of the stop
/// grace. In this time the task notices the end of the command, so the lease is not released before
/// that end.
const KILL_MARGIN: Duration = Duration::from_millis(100);

/// The command of `tenure run`.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) command: Vec<OsString>,
    /// The signal that asks it to stop.
    pub(super) stop_signal: Signal,
    /// Gets the signals that are for the command.
    pub(super) first_process: FirstProcess,
}

/// Runs the command in this term, and returns its exit code when its whole group is gone.
///
/// # Errors
///
/// The system does not start the watchdogs or the command.
pub(super) async fn supervise(leadership: &Leadership, program: &Program) -> anyhow::Result<u8> {
    let (reader, first_deadlines) = Deadlines::pipe()?;
    let (started, writer) = std::io::pipe()?;
    let child = start(leadership, program, &reader, &writer)?;
    drop((reader, writer));
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .context("the watchdog has no id")?;
    let group = ProcessGroup::new(Pid::from_raw(pid));
    // This pipe is created after the start of the first watchdog, which would otherwise pass it on
    // to the command.
    let (reader, second_deadlines) = Deadlines::pipe()?;
    let second = start_second(leadership, pid, &reader)?;
    drop(reader);
    let mut processes = Processes {
        child,
        second,
        group,
        // The first deadline starts the command, so both watchdogs run before it.
        deadlines: [first_deadlines, second_deadlines],
        started: Started::new(started)?,
    };
    send_deadline(&mut processes.deadlines, leadership);
    let (status, running) = wait(leadership, program, &mut processes).await?;
    // Processes that the command has left in its group must not outlive the term. The watchdog has
    // asked them to stop.
    processes.group.kill().await;
    let code = code_of_status(status);
    // A command that ended at once is known by now, because no process has the pipe any more.
    if running.is_none() {
        match processes.started.pid().await {
            Some(pid) => log_start(leadership, pid),
            None if code == SYSTEM => {
                return Err(not_started("the watchdog can't start the command"));
            }
            None => {}
        }
    }
    drop(running);
    info!(election = %leadership.election(), candidate = %leadership.candidate(),
        epoch = leadership.epoch().get(), exit_code = code, "command ended");
    Ok(code)
}

/// The processes of a term, and the pipes to and from them.
struct Processes {
    /// The first watchdog.
    child: Child,
    second: Child,
    group: ProcessGroup,
    deadlines: [Deadlines; 2],
    started: Started,
}

/// Starts the first watchdog, which starts the command in the group that it leads.
fn start(
    leadership: &Leadership,
    program: &Program,
    deadlines: &PipeReader,
    started: &PipeWriter,
) -> anyhow::Result<Child> {
    inherit(started)?;
    // The system stops a background group that reads from a terminal.
    let stdin = if std::io::stdin().is_terminal() {
        Stdio::null()
    } else {
        Stdio::inherit()
    };
    watchdog("watchdog", leadership, deadlines)?
        .arg("--started")
        .arg(started.as_raw_fd().to_string())
        .arg("--stop-signal")
        .arg((program.stop_signal as i32).to_string())
        .arg("--")
        .args(&program.command)
        .stdin(stdin)
        .process_group(0)
        .spawn()
        .map_err(|error| explained("can't start the watchdog", &error))
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
    second.map_err(|error| explained("can't start the second watchdog", &error))
}

/// Lets the next process that starts inherit this end of a pipe. No process inherits the other end,
/// because Rust makes files close-on-exec.
fn inherit(end: impl AsFd) -> nix::Result<()> {
    fcntl(end, FcntlArg::F_SETFD(FdFlag::empty())).map(drop)
}

/// The command that starts a watchdog: this program, with the environment of the user's command.
fn watchdog(
    name: &str,
    leadership: &Leadership,
    deadlines: &PipeReader,
) -> anyhow::Result<Command> {
    // When this process ends, for any reason, the watchdog reads the end of the pipe.
    inherit(deadlines)?;
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

/// Waits for the end of the command; stops it when the term ends. Also returns the guard of the
/// command's first process, if it runs.
async fn wait(
    leadership: &Leadership,
    program: &Program,
    processes: &mut Processes,
) -> anyhow::Result<(ExitStatus, Option<impl Drop + use<>>)> {
    let Processes {
        child,
        second,
        group,
        deadlines,
        started,
    } = processes;
    let mut interval = tokio::time::interval(DEADLINE_INTERVAL);
    let mut kill_at = None;
    let mut has_second = true;
    let (mut running, mut is_starting) = (None, true);
    loop {
        tokio::select! {
            status = child.wait() => return Ok((status?, running)),
            pid = started.pid(), if is_starting => {
                is_starting = false;
                running = pid.map(|pid| {
                    log_start(leadership, pid);
                    program.first_process.set(pid)
                });
            }
            // Either the first watchdog has killed the second one and ends next, or something else
            // killed it, or the system did not let it start a thread. The command must not continue
            // with one watchdog.
            status = second.wait(), if has_second => {
                has_second = false;
                group.signal(Signal::SIGKILL);
                if status.is_ok_and(|status| status.code() == Some(SYSTEM.into())) {
                    group.kill().await;
                    return Err(not_started("the second watchdog can't start"));
                }
            }
            reason = leadership.lost(), if kill_at.is_none() => {
                let grace = leadership.time_to_stop();
                info!(election = %leadership.election(), candidate = %leadership.candidate(),
                    epoch = leadership.epoch().get(), %reason,
                    ?grace, "stopping the command");
                group.signal(program.stop_signal);
                kill_at = Some(Instant::now() + grace - KILL_MARGIN.min(grace / 20));
            }
            () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                warn!(election = %leadership.election(), candidate = %leadership.candidate(),
                    epoch = leadership.epoch().get(),
                    "the command did not stop within the stop grace, killing it");
                group.signal(Signal::SIGKILL);
                return Ok((child.wait().await?, running));
            }
            _ = interval.tick() => send_deadline(deadlines, leadership),
        }
    }
}

/// A pipe from the process that becomes the command. It has the id of that process, and ends when
/// the command runs.
struct Started {
    pipe: pipe::Receiver,
    read: Vec<u8>,
}

impl Started {
    fn new(pipe: PipeReader) -> std::io::Result<Self> {
        Ok(Self {
            pipe: pipe::Receiver::from_owned_fd(pipe.into())?,
            read: Vec::new(),
        })
    }

    /// The id of the command's first process, when the command runs; `None` if it did not start.
    /// A call that is dropped loses nothing.
    async fn pid(&mut self) -> Option<Pid> {
        while self
            .pipe
            .read_buf(&mut self.read)
            .await
            .is_ok_and(|length| length > 0)
        {}
        let pid = self.read.first_chunk().map(|pid| i32::from_le_bytes(*pid));
        pid.map(Pid::from_raw)
    }
}

fn log_start(leadership: &Leadership, pid: Pid) {
    info!(election = %leadership.election(), candidate = %leadership.candidate(),
        epoch = leadership.epoch().get(), pid = pid.as_raw(), "command started");
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
