//! The health command: a program that checks whether the command is healthy.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use nix::unistd::Pid;
use tenure::{Config, HealthCheck};
use tokio::process::Command;

use super::environment::remove_secrets;
use super::process_group::ProcessGroup;
use crate::exit::code_of_status;

/// The health command and its timing.
#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    /// Program that fails if the command is not healthy; its stdout is discarded
    #[arg(long, value_name = "PROGRAM")]
    pub(super) health_command: Option<OsString>,
    /// Argument of the health command; may be repeated
    #[arg(
        long,
        value_name = "ARG",
        requires = "health_command",
        allow_hyphen_values = true
    )]
    health_arg: Vec<OsString>,
    /// Time between two runs of the health command
    #[arg(
        long,
        value_name = "DURATION",
        requires = "health_command",
        default_value = "5s",
        value_parser = at_least_100ms
    )]
    health_interval: Duration,
    /// Timeout of the health command
    #[arg(
        long,
        value_name = "DURATION",
        requires = "health_command",
        default_value = "5s",
        value_parser = at_least_100ms
    )]
    health_timeout: Duration,
}

/// Parses a duration that is long enough to avoid a busy loop.
fn at_least_100ms(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration >= Duration::from_millis(100) => Ok(duration),
        Ok(_) => Err("must be at least 100ms".into()),
        Err(error) => Err(format!(
            "{error}; write a number and a unit, such as \"5s\""
        )),
    }
}

impl HealthArgs {
    /// A check that runs this program.
    pub(super) fn check(&self, program: &OsStr, config: &Config) -> HealthCheck {
        let program = program.to_owned();
        let arguments = self.health_arg.clone();
        let election = config.election.to_string();
        let candidate = config.candidate.to_string();
        HealthCheck::new(move || {
            let mut command = Command::new(&program);
            command
                .args(&arguments)
                .env("TENURE_ELECTION", &election)
                .env("TENURE_CANDIDATE", &candidate)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                // A group, so that all its processes can be killed.
                .process_group(0);
            remove_secrets(&mut command);
            run(command)
        })
        .with_interval(self.health_interval)
        .with_timeout(self.health_timeout)
    }
}

async fn run(mut command: Command) -> Result<(), String> {
    let mut child = command
        .spawn()
        .map_err(|error| format!("can't run the health command: {error}"))?;
    // After the timeout this future is dropped, and the group with it.
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let _group = pid.map(|pid| ProcessGroup::new(Pid::from_raw(pid)));
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "the health command ended with exit code {}",
            code_of_status(status)
        )),
        // `orphans` has collected its exit status, so the result is unknown.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ECHILD as i32) => Ok(()),
        Err(error) => Err(format!("can't wait for the health command: {error}")),
    }
}
