//! `tenure audit`: checks audit logs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_server::audit::{self, VerifyError};

use crate::{exit, output};

/// Check an audit log
#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Verify(Verify),
}

/// Check that no line was edited, lost or moved
///
/// Name the files in the order in which they were written. The first line that is wrong is reported
/// with its number, and the exit code is then 65. This proves nothing against somebody who could
/// write the rest of the log anew: for that, ship its lines to another machine as they are written.
#[derive(Debug, Args)]
struct Verify {
    /// Audit logs, oldest first
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let Command::Verify(verify) = &self.command;
        verify.run()
    }
}

impl Verify {
    fn run(&self) -> anyhow::Result<()> {
        let verified = audit::verify(&self.files).map_err(|error| match error {
            VerifyError::Unreadable { .. } => exit::error(exit::BAD_CONFIGURATION, error),
            error => exit::error(exit::BAD_DATA, error),
        })?;
        let (first, last) = verified.map_or((0, 0), |verified| (verified.first, verified.last));
        if self.json {
            return output::json(&json!({"first": first, "last": last}));
        }
        match verified {
            Some(_) => output::line(format_args!(
                "lines {first} to {last} are a chain without a gap"
            ))?,
            None => output::line("there are no lines")?,
        }
        Ok(())
    }
}
