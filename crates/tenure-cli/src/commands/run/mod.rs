//! `tenure run`: runs a command only while this process leads.

mod status;
mod supervise;
mod watchdog;

mod health;
mod process_group;

mod environment;
mod orphans;
mod signals;

use std::ffi::{OsStr, OsString};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::anyhow;
use clap::Args;
use nix::unistd::{AccessFlags, access};
use tenure::{Candidate, Config, EndReason};
use tenure_config::{ConfigError, Settings};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::exit::{self, LOST, NEVER_LED, NOT_EXECUTABLE, NOT_FOUND, SYSTEM};
use crate::settings::{
    CandidateArgs, CheckedCandidate, address_without_key, members_table, status as status_settings,
    stop_signal,
};
use crate::task_limit::{require, require_this_program};
use crate::{logging, parent, runtime};
use health::HealthArgs;
use signals::FirstProcess;
use status::StatusListener;
use supervise::{Program, supervise};

pub(crate) use watchdog::{SecondWatchdog, Watchdog, Watched};

/// Run a command while this process leads, and only then
///
/// When this process becomes the leader it starts the command, without a shell, in a process group
/// of its own, with TENURE_ELECTION, TENURE_CANDIDATE and TENURE_EPOCH in its environment. At the
/// end of the term the group gets SIGTERM (--stop-signal), and SIGKILL after the stop grace: by this
/// machine's clock, before another candidate may lead, also if the store can't be reached and if this
/// process is killed or frozen. The lease is released after the group is gone.
///
/// SIGTERM, SIGINT and SIGHUP stop this process; another SIGTERM or SIGINT, at least 100 ms later,
/// kills the group at once, and the lease is not released. USR1, USR2, ALRM, QUIT and WINCH are
/// passed on to the first process of the command. If the standard input is a terminal, the command
/// gets /dev/null instead.
///
/// With a health command, this process runs that command at an interval, also without a shell. If
/// it fails or exceeds its timeout, the term ends and another candidate can take over.
///
/// Settings can also be in the configuration file or in TENURE_* variables.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    candidate: CandidateArgs,
    /// End after one term, with the command's exit code
    #[arg(long)]
    once: bool,
    /// Peers: start without a key although other machines can reach this member: every process that
    /// reaches it can vote, and be elected
    #[arg(long)]
    allow_anonymous: bool,
    /// Fallback: start although the state directory is of a group with other settings or another
    /// store. Stop all members first, and start each of them once with this flag
    #[arg(long)]
    accept_changes: bool,
    /// Serve /metrics (Prometheus), /leader (200 if this candidate leads, else 503), /livez and
    /// /readyz on this address, and nothing else; port 0 takes a free port. Every client that
    /// reaches it can read the names of the election and of its candidates, the epochs, and the
    /// metadata of the leader [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    status_listen: Option<String>,
    #[command(flatten)]
    health: HealthArgs,
    /// End when this process, which started this one, ends
    #[arg(long, hide = true)]
    parent: Option<i32>,
    /// Signal that asks the command to stop: TERM, INT, QUIT, HUP, USR1, USR2, ALRM or WINCH, or its
    /// number [default: TERM]
    #[arg(long, value_name = "SIGNAL")]
    stop_signal: Option<String>,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The number of processes and threads that this process starts later: two watchdogs with a thread
/// each and the process of the command, the threads of the candidate and of the status, the health
/// command, and threads that look up names and read files.
const TASKS: usize = 12;

/// The directories in which the system searches for commands without PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

impl Run {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(parent) = self.parent {
            parent::end_with(parent)?;
        }
        let runtime = runtime::current_thread()?;
        let first_process = FirstProcess::default();
        let inside = runtime.enter();
        let shutdown = signals::handle(&first_process)?;
        drop(inside);
        let settings = self.settings()?;
        let CheckedCandidate {
            mut config,
            status_listen,
            hosts,
            stop_signal,
        } = checked(&settings)?;
        // At an overrun this process ends, and then the watchdog kills the command. Another thread
        // writes the log, so the end waits for that.
        tenure::OnOverrun::set_flush(logging::flush);
        let program = Program {
            command: self.command.clone(),
            stop_signal,
            first_process,
        };
        // Fails before the campaign: otherwise this candidate could win an election and then not
        // start its command, while others could.
        require_executable(&self.command[0])?;
        if let Some(program) = &self.health.health_command {
            require_executable(program)?;
            let check = self.health.check(program, &config);
            config = config.with_health_check(check);
        }
        // Also before the campaign: a busy port is an error in the configuration.
        let status =
            status_settings::bind(&settings, status_listen)?.map(|listener| (listener, hosts));
        parent::adopt_orphans()?;
        // A core dump would contain the token, the lease id or the key. A resource limit would also
        // apply to the command.
        runtime::keep_memory_private();
        require_this_program()?;
        require(TASKS, "tenure run")?;
        runtime.block_on(campaign(config, status, program, shutdown, self.once))
    }

    fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = self.candidate.settings()?;
        settings.set_flag(status_settings::STATUS_LISTEN, &self.status_listen);
        settings.set_flag(stop_signal::STOP_SIGNAL, &self.stop_signal);
        if self.accept_changes {
            settings.set_flag("fallback.accept_changes", &["true".into()]);
        }
        if self.allow_anonymous {
            let key = format!("{}.allow_anonymous", members_table(&settings));
            settings.set_flag(&key, &["true".into()]);
        }
        Ok(settings)
    }
}

fn checked(settings: &Settings) -> anyhow::Result<CheckedCandidate> {
    let checked = CheckedCandidate::new(settings).map_err(|error| match error {
        ConfigError::Missing { key, .. } if key == "election" => {
            let reason = "name the election to compete in, such as --election billing/nightly";
            ConfigError::missing(key, reason)
        }
        error => error,
    })?;
    if let Some(listen) = address_without_key(settings, &checked.config)? {
        return Err(no_key(listen));
    }
    Ok(checked)
}

/// The error for a member without a key that other machines can reach.
fn no_key(listen: SocketAddr) -> anyhow::Error {
    let port = listen.port();
    exit::bad_configuration(format!(
        "{listen} is not a loopback address, and the members have no key. Do one of these:\n\
         \x20 tenure run --key-file FILE          share a secret among the members\n\
         \x20                                     (openssl rand -base64 32)\n\
         \x20 tenure run --allow-anonymous        let every process that reaches the address vote and be\n\
         \x20                                     elected\n\
         \x20 tenure run --listen 127.0.0.1:{port}  listen to members of this machine only"
    ))
}

async fn campaign(
    config: Config,
    status: Option<(TcpListener, Vec<String>)>,
    program: Program,
    shutdown: CancellationToken,
    once: bool,
) -> anyhow::Result<ExitCode> {
    let candidate = Arc::new(Candidate::start(config).await?);
    let status =
        status.map(|(listener, hosts)| StatusListener::start(listener, hosts, candidate.clone()));
    let _status = status.transpose()?;
    let program = Arc::new(program);
    // The exit code of the last run of the command; negative before the first.
    let last_code = Arc::new(AtomicI32::new(-1));
    // The reason why the system did not start the command or its watchdogs.
    let failure = Arc::new(OnceLock::new());
    loop {
        let term = candidate
            .run_one_term(shutdown.cancelled(), |leadership| {
                let (program, last_code) = (program.clone(), last_code.clone());
                let failure = failure.clone();
                async move {
                    let code = match supervise(&leadership, &program).await {
                        Ok(code) => code,
                        Err(error) => {
                            let reason = format!("{error:#}");
                            let _ = failure.set(error);
                            return Err(anyhow!(reason));
                        }
                    };
                    last_code.store(code.into(), Ordering::Relaxed);
                    match code {
                        0 => Ok(()),
                        // The command was asked to stop, so its exit code is not a failure.
                        _ if leadership.cancellation().is_cancelled() => Ok(()),
                        code => Err(anyhow!("the command ended with exit code {code}")),
                    }
                }
            })
            .await?;
        if let Some(failure) = failure.get() {
            return Err(exit::error(SYSTEM, anyhow!("{failure:#}")));
        }
        let Some(term) = term else {
            return Ok(if once {
                ExitCode::from(NEVER_LED)
            } else {
                ExitCode::SUCCESS
            });
        };
        let code = u8::try_from(last_code.load(Ordering::Relaxed)).ok();
        match term.reason {
            EndReason::ShutDown if !once => return Ok(ExitCode::SUCCESS),
            EndReason::ShutDown | EndReason::TaskReturned | EndReason::TaskFailed if once => {
                return Ok(ExitCode::from(code.unwrap_or(1)));
            }
            reason if once => {
                info!(%reason, "leadership was lost before the command ended");
                return Ok(ExitCode::from(LOST));
            }
            _ => {}
        }
    }
}

/// Searches for the command as the system does, and fails if it can't be executed.
fn require_executable(command: &OsStr) -> anyhow::Result<()> {
    let candidates: Vec<PathBuf> = if command.is_empty() {
        Vec::new()
    } else if command.as_bytes().contains(&b'/') {
        vec![command.into()]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        std::env::split_paths(&path)
            .map(|folder| folder.join(command))
            .collect()
    };
    let executable = |path: &PathBuf| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if candidates.iter().any(executable) {
        return Ok(());
    }
    Err(match candidates.iter().find(|path| path.exists()) {
        Some(path) => {
            let error = anyhow!("{} is not executable", path.display());
            exit::error(NOT_EXECUTABLE, error)
        }
        None => {
            let error = anyhow!("command \"{}\" was not found", command.display());
            exit::error(NOT_FOUND, error)
        }
    })
}
