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
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::anyhow;
use clap::Args;
use nix::sys::prctl;
use nix::unistd::{AccessFlags, access};
use tenure::__cli::Settings;
use tenure::config::{Bully, ConfigError};
use tenure::{Candidate, Config, EndReason};
use tracing::{debug, info};

use crate::exit::{self, LOST, NEVER_LED, NOT_EXECUTABLE, NOT_FOUND};
use crate::processes::adopt_orphans;
use crate::settings::{CandidateArgs, status as status_listen};
use crate::{logging, parent, permissions, runtime};
use health::HealthArgs;
use status::StatusListener;
use supervise::supervise;

pub(crate) use watchdog::{SecondWatchdog, Watchdog, Watched};

/// Run a command while this process leads, and only then
///
/// When this process becomes the leader it starts the command, without a shell, in a process group
/// of its own, with TENURE_ELECTION, TENURE_CANDIDATE and TENURE_EPOCH in its environment. At the
/// end of the term the group gets SIGTERM, and SIGKILL after the stop grace: by this machine's
/// clock, before another candidate may lead, also if the store can't be reached and if this process
/// is killed or frozen. The lease is released after the group is gone.
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
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The directories in which the system searches for commands without PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

impl Run {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(parent) = self.parent {
            parent::end_with(parent)?;
        }
        let settings = self.settings()?;
        let mut config = self.config(&settings)?;
        // Fails before the campaign: otherwise this candidate could win an election and then not
        // start its command, while others could.
        require_executable(&self.command[0])?;
        if let Some(program) = &self.health.health_command {
            require_executable(program)?;
            let check = self.health.check(program, &config);
            config = config.with_health_check(check);
        }
        // Also before the campaign: a busy port is an error in the configuration.
        let status = status_listen::bind(&settings)?;
        adopt_orphans()?;
        // A core dump would contain the token, the lease id or the key. A resource limit would also
        // apply to the command.
        if let Err(error) = prctl::set_dumpable(false) {
            debug!(%error, "can't turn off core dumps");
        }
        let campaign = campaign(config, status, &self.command, self.once);
        runtime::current_thread()?.block_on(campaign)
    }

    fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = self.candidate.settings()?;
        settings.set_flag(status_listen::STATUS_LISTEN, &self.status_listen);
        if self.accept_changes {
            settings.set_flag("fallback.accept_changes", &["true".into()]);
        }
        Ok(settings)
    }

    fn config(&self, settings: &Settings) -> anyhow::Result<Config> {
        let config = tenure::__cli::from_settings(settings).map_err(|error| match error {
            ConfigError::Missing {
                key: "election", ..
            } => ConfigError::Missing {
                key: "election",
                reason: "name the election to compete in, such as --election billing/nightly"
                    .into(),
            },
            error => error,
        })?;
        self.check_peer_key(settings, &config)?;
        for key in [
            "bully.key_file",
            "fallback.key_file",
            "azure_blob.key_file",
            "client_key",
        ] {
            if let Some(file) = settings.text(key)? {
                permissions::check_key(file.as_ref());
            }
        }
        // At an overrun this process ends, and then the watchdog kills the command. Another thread
        // writes the log, so the end waits for that.
        tenure::__cli::set_flush(logging::flush);
        Ok(config)
    }

    /// Refuses to start a member without a key if other machines can reach the member, as the store
    /// refuses to start without an access file.
    fn check_peer_key(&self, settings: &Settings, config: &Config) -> anyhow::Result<()> {
        let members = config.members();
        let Some(listen) = members.and_then(Bully::address_without_key) else {
            return Ok(());
        };
        let key = match config.fallback() {
            Some(_) => "fallback.allow_anonymous",
            None => "bully.allow_anonymous",
        };
        if self.allow_anonymous || settings.flag(key)?.unwrap_or_default() {
            return Ok(());
        }
        let port = listen.port();
        Err(exit::bad_configuration(format!(
            "{listen} is not a loopback address, and the members have no key. Do one of these:\n\
             \x20 tenure run --key-file FILE          share a secret among the members\n\
             \x20                                     (openssl rand -base64 32)\n\
             \x20 tenure run --allow-anonymous        let every process that reaches the address vote and be\n\
             \x20                                     elected\n\
             \x20 tenure run --listen 127.0.0.1:{port}  listen to members of this machine only"
        )))
    }
}

async fn campaign(
    config: Config,
    status: Option<TcpListener>,
    command: &[OsString],
    once: bool,
) -> anyhow::Result<ExitCode> {
    let shutdown = signals::shutdown()?;
    let candidate = Arc::new(Candidate::start(config).await?);
    let status = status.map(|listener| StatusListener::start(listener, candidate.clone()));
    let _status = status.transpose()?;
    let command: Arc<[OsString]> = command.into();
    // The exit code of the last run of the command; negative before the first.
    let last_code = Arc::new(AtomicI32::new(-1));
    loop {
        let term = candidate
            .run_one_term(shutdown.cancelled(), |leadership| {
                let (command, last_code) = (command.clone(), last_code.clone());
                async move {
                    let code = supervise(&leadership, &command).await?;
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
