//! Exit codes.

use std::error::Error;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use tenure::backend::BackendError;
use tenure::config::StateError;
use tenure::store::{Code, StoreError};
use tenure::{ConfigError, RunError, StartError};
use tenure_azure::server::AzureError;
use tenure_server::{BackupError, OpenError, RecoverError, RestoreError};

/// Wrong usage or configuration; clap uses the same code for usage.
pub(crate) const BAD_CONFIGURATION: u8 = 2;
/// The store refused, or there is no such lease.
pub(crate) const REFUSED: u8 = 3;
/// `cluster status`: the addresses are of two stores, or two servers are active.
pub(crate) const TWO_STORES: u8 = 4;
/// Data on disk, or the log of a cluster, are damaged or from a newer version: `EX_DATAERR` of
/// sysexits. A restart does not help.
pub(crate) const BAD_DATA: u8 = 65;
/// The store can't be reached: `EX_UNAVAILABLE` of sysexits.
pub(crate) const UNREACHABLE: u8 = 69;
/// A process or a thread can't be started: `EX_OSERR` of sysexits.
pub(crate) const SYSTEM: u8 = 71;
/// `run --once` was stopped before it led: `EX_TEMPFAIL` of sysexits.
pub(crate) const NEVER_LED: u8 = 75;
/// `run --once` lost leadership before the command ended: `EX_PROTOCOL` of sysexits.
pub(crate) const LOST: u8 = 76;
/// The store or the API server refuses this client: `EX_NOPERM` of sysexits.
pub(crate) const DENIED: u8 = 77;
/// The command can't be executed; the code that shells use.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found; the code that shells use.
pub(crate) const NOT_FOUND: u8 = 127;

/// For `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    success
  1    error, see stderr (demo: guarantee violated; doctor: a check failed; peers: no agreed
       leader)
  2    wrong usage or configuration
  3    refused by the store or the peers, or no such lease; cluster status: no server is active
  4    cluster status: the addresses are of two stores, or two servers are active
  65   cluster status: a server refuses the log;
       serve, backup, restore, cluster recover: data directory, backup or log is damaged or from
       a newer version, or serve: a final backup has moved the store away, or the home of the
       log is another one than before;
       run: the same for the state of a member among peers
  69   store not reachable; peers: no member answers
  70   run: the command did not stop in time
  71   run, serve: the system starts no process or thread: a limit, or no /proc
  75   run --once: stopped before it led
  76   run --once: leadership lost before the command ended
  77   the store or the API server does not accept the token, or the token does not allow this
  126  run: command not executable
  127  run: command not found
  run --once passes on the command's exit code; 128 + N if signal N killed the command.
  run ends with 128 + N at a second signal N that stops it";

/// Success, or 1 if a check failed.
pub(crate) fn success_if(passed: bool) -> ExitCode {
    ExitCode::from(u8::from(!passed))
}

/// The exit code of a program that ended with this status, as shells report it.
pub(crate) fn code_of_status(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// An error that ends the command with this exit code.
pub(crate) fn error(code: u8, error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    anyhow::Error::new(WithCode { code, error })
}

/// An error in usage or configuration.
pub(crate) fn bad_configuration(text: impl Into<String>) -> anyhow::Error {
    error(BAD_CONFIGURATION, anyhow::Error::msg(text.into()))
}

/// The exit code of a command that ends with this error.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    error.chain().find_map(known_code).unwrap_or(1)
}

#[derive(Debug)]
struct WithCode {
    code: u8,
    error: anyhow::Error,
}

impl fmt::Display for WithCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for WithCode {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

fn known_code(error: &(dyn Error + 'static)) -> Option<u8> {
    if error.is::<ConfigError>() {
        return Some(BAD_CONFIGURATION);
    }
    None.or_else(|| error.downcast_ref().map(|it: &WithCode| it.code))
        .or_else(|| error.downcast_ref().map(of_backend))
        .or_else(|| error.downcast_ref().map(of_store))
        .or_else(|| error.downcast_ref().map(of_open))
        .or_else(|| error.downcast_ref().map(of_azure))
        .or_else(|| error.downcast_ref().map(of_backup))
        .or_else(|| error.downcast_ref().map(of_restore))
        .or_else(|| error.downcast_ref().map(of_recover))
        .or_else(|| error.downcast_ref().map(of_start))
        .or_else(|| error.downcast_ref().map(of_run))
}

fn of_backend(error: &BackendError) -> u8 {
    if let Some(error) = error.get_ref().downcast_ref() {
        return of_store(error);
    }
    match error {
        BackendError::Definite(_) => REFUSED,
        _ => UNREACHABLE,
    }
}

fn of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::Problem(problem)
            if matches!(problem.code, Code::Unauthenticated | Code::Forbidden) =>
        {
            DENIED
        }
        StoreError::Problem(problem) if !problem.code.is_transient() => REFUSED,
        // Not a refusal: the same request may succeed later.
        StoreError::Problem(problem) if problem.code == Code::DiskFull => 1,
        _ => UNREACHABLE,
    }
}

fn of_open(error: &OpenError) -> u8 {
    match error {
        OpenError::NotAFolder { .. } | OpenError::Limit(_) | OpenError::Cluster { .. } => {
            BAD_CONFIGURATION
        }
        OpenError::Damaged { .. }
        | OpenError::Newer { .. }
        | OpenError::RestoreCutShort { .. }
        | OpenError::Moved { .. }
        | OpenError::Copied { .. }
        | OpenError::Log { .. } => BAD_DATA,
        // In use, or not readable or writable: that may be temporary.
        _ => 1,
    }
}

fn of_azure(error: &AzureError) -> u8 {
    match error {
        AzureError::Open(error) => of_open(error),
        _ => BAD_CONFIGURATION,
    }
}

fn of_backup(error: &BackupError) -> u8 {
    match error {
        BackupError::Store(error) => of_open(error),
        BackupError::NoStore { .. } | BackupError::InsideStore { .. } => BAD_CONFIGURATION,
        BackupError::Log { error, .. } => of_recover(error),
        _ => 1,
    }
}

fn of_restore(error: &RestoreError) -> u8 {
    match error {
        RestoreError::Backup(error) | RestoreError::Folder(error) => of_open(error),
        RestoreError::Damaged { .. } | RestoreError::EpochsUsedUp { .. } => BAD_DATA,
        RestoreError::Log { error, .. } => of_recover(error),
        _ => 1,
    }
}

fn of_recover(error: &RecoverError) -> u8 {
    match error {
        RecoverError::Damaged(_) => BAD_DATA,
        RecoverError::Misconfigured(_) => BAD_CONFIGURATION,
        RecoverError::Service(_) => UNREACHABLE,
        _ => REFUSED,
    }
}

fn of_start(error: &StartError) -> u8 {
    match error {
        StartError::State(
            StateError::Damaged { .. } | StateError::Missing { .. } | StateError::Newer { .. },
        ) => BAD_DATA,
        _ => 1,
    }
}

fn of_run(error: &RunError) -> u8 {
    match error {
        RunError::Refused(_) | RunError::Barred(_) => REFUSED,
        RunError::Denied(_) => DENIED,
        _ => 1,
    }
}
