//! `tenure audit`: checks audit logs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_server::audit::{self, CutLine, Verified, VerifyError};

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
/// with its number, and the exit code is then 65. A line that a crash or a full disk cut short is
/// reported, too; the exit code is 0 if the chain goes on after it. This proves nothing against
/// somebody who could write the rest of the log anew: for that, ship its lines to another machine
/// as they are written.
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
        if self.json {
            let Verified {
                first,
                last,
                lost,
                cut,
            } = verified.unwrap_or_default();
            let cut = cut
                .iter()
                .map(|CutLine { path, line }| json!({"file": path, "line": line}));
            let cut: Vec<_> = cut.collect();
            return output::json(&json!({"first": first, "last": last, "lost": lost, "cut": cut}));
        }
        let Some(verified) = verified else {
            output::line("there are no lines")?;
            return Ok(());
        };
        for CutLine { path, line } in &verified.cut {
            output::line(format_args!(
                "{}:{line}: this line was cut short; the chain goes on after it",
                path.display()
            ))?;
        }
        if verified.lost > 0 {
            output::line(format_args!(
                "{} acts have no line, because the log could not be written",
                verified.lost
            ))?;
        }
        output::line(format_args!(
            "lines {} to {} are a chain without a gap",
            verified.first, verified.last
        ))?;
        Ok(())
    }
}
