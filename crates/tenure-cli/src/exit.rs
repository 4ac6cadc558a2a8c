//! How the command ends.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use tenure::config::StateError;
use tenure::store::{Code, StoreError};
use tenure::{ConfigError, ConnectError, RunError};
use tenure_azure::server::AzureError;
use tenure_server::{BackupError, OpenError, RestoreError};

use crate::logging;

/// Usage or configuration is wrong (clap uses the same for usage).
pub(crate) const BAD_CONFIGURATION: u8 = 2;
/// The store refused, or there is no such lease.
pub(crate) const REFUSED: u8 = 3;
/// What is on disk is damaged, or a newer version's: `EX_DATAERR` of sysexits. Starting again does not
/// help.
pub(crate) const BAD_DATA: u8 = 65;
/// The store can't be reached: `EX_UNAVAILABLE` of sysexits.
pub(crate) const UNREACHABLE: u8 = 69;
/// `run --once` was stopped before it led: `EX_TEMPFAIL` of sysexits.
pub(crate) const NEVER_LED: u8 = 75;
/// `run --once` lost its leadership before the command had ended: `EX_PROTOCOL` of sysexits.
pub(crate) const LOST: u8 = 76;
/// The command can't be executed, and can't be found: as shells say it.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;

/// The exit code of a program that ended so, as shells say it.
pub(crate) fn code_of(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// For `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    failed, for a reason told on stderr, as that the store's disk is full (demo: a promise was not kept; doctor: there
       is something to look at; peers: no leader that all agree on)
  2    wrong usage or configuration
  3    the store or the peers refused, or there is no such lease
  65   serve, backup, restore: the data directory or the backup is damaged, or of a newer
       version; run: so is what a member among peers has promised
  69   the store can't be reached; peers: none of them can
  70   run: the command could not be stopped in time
  75   run --once: stopped before it led
  76   run --once: leadership was lost before the command had ended
  126  run: the command can't be executed
  127  run: the command was not found
  run --once passes on the command's exit code, 128 + N if signal N ended it";

/// Why the command ends without having done what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    pub(crate) fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Self {
            code,
            error: error.into(),
        }
    }

    /// Tells stderr, with all causes, and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        // Without anybody who listens the code still tells.
        logging::say(format_args!("tenure: {:#}", self.error));
        ExitCode::from(self.code)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(1, error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(1, error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(BAD_CONFIGURATION, error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let code = match &error {
            OpenError::NotAFolder { .. } | OpenError::Limit(_) => BAD_CONFIGURATION,
            OpenError::Damaged { .. }
            | OpenError::Newer { .. }
            | OpenError::RestoreCutShort { .. } => BAD_DATA,
            // In use, or can't be read or written: that may pass.
            _ => 1,
        };
        Self::new(code, error)
    }
}

impl From<AzureError> for Failure {
    fn from(error: AzureError) -> Self {
        match error {
            AzureError::Open(error) => error.into(),
            error => Self::new(BAD_CONFIGURATION, error),
        }
    }
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Store(error) => error.into(),
            BackupError::NoStore { .. } | BackupError::InsideStore { .. } => {
                Self::new(BAD_CONFIGURATION, error)
            }
            error => Self::new(1, error),
        }
    }
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Backup(error) | RestoreError::Folder(error) => error.into(),
            RestoreError::Damaged { .. } | RestoreError::EpochsUsedUp { .. } => {
                Self::new(BAD_DATA, error)
            }
            error => Self::new(1, error),
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match &error {
            ConnectError::State(
                StateError::Damaged { .. } | StateError::Missing { .. } | StateError::Newer { .. },
            ) => BAD_DATA,
            _ => 1,
        };
        Self::new(code, error)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = if matches!(error, RunError::Refused(_) | RunError::Barred(_)) {
            REFUSED
        } else {
            1
        };
        Self::new(code, error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Problem(problem) if !problem.code.is_transient() => REFUSED,
            // It was reached and says what it lacks. It refused nobody: later it may do the same.
            StoreError::Problem(problem) if problem.code == Code::DiskFull => 1,
            StoreError::Azure(refusal) if !refusal.is_transient() => REFUSED,
            _ => UNREACHABLE,
        };
        Self::new(code, error)
    }
}
