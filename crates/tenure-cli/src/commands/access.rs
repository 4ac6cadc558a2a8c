//! `tenure access`: checks access files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_server::access;

use super::serve::keys::check_files;
use crate::access_file::DEFAULT_PATH;
use crate::{exit, output};

/// Check an access file
#[derive(Debug, Args)]
pub(crate) struct Access {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Check),
}

/// Check an access file as the store does when it starts
///
/// Reports the first error with file and line, also of the files that it names. The exit code is
/// then 2.
#[derive(Debug, Args)]
struct Check {
    /// Access file
    #[arg(env = "TENURE_ACCESS_FILE", default_value = DEFAULT_PATH)]
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Access {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let Command::Check(check) = &self.command;
        check.run()
    }
}

impl Check {
    fn run(&self) -> anyhow::Result<()> {
        let file = access::check_file(&self.file);
        let file = file.map_err(|error| exit::error(exit::BAD_CONFIGURATION, error))?;
        for issuer in file.issuers() {
            check_files(issuer).map_err(|error| {
                let path = self.file.display();
                let error = error.context(format!("{path}: the issuer {:?}", issuer.name));
                exit::error(exit::BAD_CONFIGURATION, error)
            })?;
        }
        let principals = file.principals().len();
        let secrets = file.principals().iter().map(|listed| listed.secrets.len());
        let secrets: usize = secrets.sum();
        let path = self.file.display();
        if self.json {
            let file = path.to_string();
            let counts = json!({"file": file, "principals": principals, "tokens": secrets});
            return output::json(&counts);
        }
        output::line(format_args!(
            "{path}: valid, with {principals} principals and {secrets} tokens"
        ))?;
        Ok(())
    }
}
