//! `tenure run`: a command that runs only while this process leads.

mod group;
mod health;
mod orphans;
mod supervise;
mod watchdog;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{AccessFlags, access};
use tenure::__cli::Settings;
use tenure::config::{ConfigError, Origin};
use tenure::{Candidate, Config, EndReason, OnOverrun};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::cli::{CandidateArgs, Run};
use crate::exit::{Failure, LOST, NEVER_LED, NOT_EXECUTABLE, NOT_FOUND};
use crate::{logging, parent, permissions, store};
use supervise::supervise;

pub(crate) use watchdog::{second_watchdog, watchdog, watched};

/// The store's secrets in the environment.
const SECRETS_OF_STORE: &str = "TENURE_AZURE_ACCOUNTS";

/// How long an overrun waits for who reads stderr. Others may lead soon; the watchdog, which was told so,
/// has killed the command by now, if it can.
const LAST_LINES_OF_OVERRUN: Duration = Duration::from_millis(100);

/// Where the system looks for commands when there is no PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

pub(crate) fn run(arguments: &Run) -> Result<ExitCode, Failure> {
    if let Some(parent) = arguments.parent {
        parent::end_with(parent)?;
    }
    let mut config = config(arguments)?;
    // Better now than after winning an election that others could have won.
    find(&arguments.command[0])?;
    if let Some(program) = &arguments.health.health_command {
        find(program)?;
        let check = health::check(program, &arguments.health, &config);
        config = config.with_health_check(check);
    }
    orphans::adopt()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(compete(config, &arguments.command, arguments.once))
}

async fn compete(config: Config, command: &[OsString], once: bool) -> Result<ExitCode, Failure> {
    let shutdown = shutdown_on_signals()?;
    let candidate = Candidate::start(config).await?;
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
                        // It was told to stop, and how it says so is its own affair.
                        _ if leadership.cancellation().is_cancelled() => Ok(()),
                        code => Err(anyhow::anyhow!("the command ended with exit code {code}")),
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
                info!(%reason, "leadership was lost before the command had ended");
                return Ok(ExitCode::from(LOST));
            }
            _ => {}
        }
    }
}

/// SIGTERM and Ctrl-C, and the end of the terminal.
fn shutdown_on_signals() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Whoever started this with `nohup` wants it to go on.
    let mut hangup = if is_ignored(Signal::SIGHUP) {
        None
    } else {
        Some(signal(SignalKind::hangup())?)
    };
    let token = CancellationToken::new();
    let shutdown = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            Some(_) = next(&mut hangup) => {}
        }
        shutdown.cancel();
    });
    Ok(token)
}

/// The next signal, if this kind of signal is listened for.
async fn next(signals: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
    signals.as_mut()?.recv().await
}

/// Whether this process was started with this signal ignored.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
}

/// A candidate's settings: the file, overridden by the environment, overridden by flags.
pub(crate) fn settings(arguments: &CandidateArgs) -> Result<Settings, ConfigError> {
    let mut settings = store::settings(&arguments.store)?;
    let flags = [
        ("election", "--election", &arguments.election),
        ("candidate", "--candidate", &arguments.candidate),
        ("priority", "--priority", &arguments.priority),
        (
            "lease_duration",
            "--lease-duration",
            &arguments.lease_duration,
        ),
        ("stop_grace", "--stop-grace", &arguments.stop_grace),
        ("strategy", "--strategy", &arguments.strategy),
        ("bully.node", "--node", &arguments.node),
        ("bully.listen", "--listen", &arguments.listen),
        ("bully.key_file", "--key-file", &arguments.key_file),
        ("bully.state_dir", "--state-dir", &arguments.state_dir),
    ];
    for (key, flag, value) in flags {
        if let Some(value) = value {
            settings.set(key, [value], Origin::Flag(flag.into()));
        }
    }
    if !arguments.peers.is_empty() {
        let origin = Origin::Flag("--peers".into());
        settings.set("bully.peers", &arguments.peers, origin);
    }
    Ok(settings)
}

fn config(arguments: &Run) -> Result<Config, ConfigError> {
    let settings = settings(&arguments.candidate)?;
    let config = tenure::__cli::from_settings(&settings).map_err(|error| match error {
        ConfigError::Missing {
            key: "election", ..
        } => ConfigError::Missing {
            key: "election",
            reason: "name what is competed for, such as --election billing/nightly".into(),
        },
        error => error,
    })?;
    for key in ["bully.key_file", "azure_blob.key_file"] {
        if let Some(file) = settings.text(key)? {
            permissions::check_key(file.as_ref());
        }
    }
    // A command that can't be stopped is left behind with this process's end, and the watchdog
    // kills it then.
    let only_reports = settings.list("on_overrun") == ["report"];
    Ok(if only_reports {
        config
    } else {
        config.with_on_overrun(OnOverrun::Call(Arc::new(|_| end_now())))
    })
}

/// As [`OnOverrun::Exit`], and what was logged last is read, if anybody reads.
fn end_now() {
    error!("exiting, so that the command ends");
    logging::finish(LAST_LINES_OF_OVERRUN);
    std::process::exit(OnOverrun::EXIT_CODE);
}

/// Takes this program's secrets out of what a command is given. Neither the command nor the health command
/// has use for them, and who reads a member's key can vote in its name.
fn without_secrets(command: &mut Command) -> &mut Command {
    for secret in tenure::__cli::secret_variables() {
        command.env_remove(secret);
    }
    command.env_remove(SECRETS_OF_STORE)
}

/// Looks the command up as the system will.
fn find(command: &OsStr) -> Result<(), Failure> {
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
            let error = anyhow::anyhow!("{} is not executable", path.display());
            Failure::new(NOT_EXECUTABLE, error)
        }
        None => {
            let name = command.display();
            let error = anyhow::anyhow!("command \"{name}\" was not found");
            Failure::new(NOT_FOUND, error)
        }
    })
}
