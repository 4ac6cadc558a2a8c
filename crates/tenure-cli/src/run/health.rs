//! The health command: a program that says whether the command is well.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tenure::{Config, HealthCheck};
use tokio::process::Command;

use super::without_secrets;
use crate::cli::HealthArgs;
use crate::exit::code_of;

/// Asks this program, which has been found, whether the command is well.
pub(super) fn check(program: &OsStr, arguments: &HealthArgs, config: &Config) -> HealthCheck {
    let program = program.to_owned();
    let program_arguments = arguments.health_arg.clone();
    let election = config.election().to_string();
    let candidate = config.candidate().to_string();
    HealthCheck::new(move || {
        let mut command = Command::new(&program);
        command
            .args(&program_arguments)
            .env("TENURE_ELECTION", &election)
            .env("TENURE_CANDIDATE", &candidate)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // It must be possible to end all of it.
            .process_group(0);
        without_secrets(&mut command);
        ask(command)
    })
    .with_interval(arguments.health_interval)
    .with_timeout(arguments.health_timeout)
}

async fn ask(mut command: Command) -> Result<(), String> {
    let mut child = command
        .spawn()
        .map_err(|error| format!("can't run the health command: {error}"))?;
    // When nobody waits any longer this future is dropped, and the group with it.
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let _group = pid.map(|pid| Group(Pid::from_raw(pid)));
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "the health command ended with exit code {}",
            code_of(status)
        )),
        // The end of the command has collected this one's, too (see `orphans`): it says nothing.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ECHILD as i32) => Ok(()),
        Err(error) => Err(format!("can't wait for the health command: {error}")),
    }
}

/// The health command's process group; nothing of it is left when this is dropped.
struct Group(Pid);

/// Most milliseconds that a drop waits for what it has killed.
const DROP_PATIENCE: u32 = 50;

impl Drop for Group {
    fn drop(&mut self) {
        let _ = killpg(self.0, Signal::SIGKILL);
        // What the program had started is adopted by this process, which must collect it: a term may
        // be long, and ask often. Only this group: the command's end is for who waits for it.
        let group = Pid::from_raw(-self.0.as_raw());
        for _ in 0..DROP_PATIENCE {
            match waitpid(group, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(1)),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}
