//! `tenure token`: principals and their tokens in an access file.

mod create;
mod list;
mod revoke;
mod rotate;

mod output_file;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};

use crate::access_file::DEFAULT_PATH;

pub(crate) use output_file::bundle_text;

/// Create, rotate, list and revoke tokens in an access file
///
/// The access file has hashes of tokens only. A new token is written into a file, which is its only
/// copy. A running store uses the changed file within a second.
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Create),
    Rotate(rotate::Rotate),
    List(list::List),
    Revoke(revoke::Revoke),
}

impl Token {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match &self.command {
            Command::Create(command) => command.run(),
            Command::Rotate(command) => command.run(),
            Command::List(command) => command.run(),
            Command::Revoke(command) => command.run(),
        }
    }
}

/// The access file that a command changes.
#[derive(Debug, Args)]
struct FileArgs {
    /// Access file
    #[arg(long, value_name = "FILE", env = "TENURE_ACCESS_FILE", default_value = DEFAULT_PATH)]
    file: PathBuf,
}

/// The lifetime of a new token.
#[derive(Debug, Args)]
struct LifetimeArgs {
    /// Refuse the token after this time, such as 90d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    expires: Option<Duration>,
}

impl LifetimeArgs {
    fn end(&self) -> Option<SystemTime> {
        self.expires.map(|time| SystemTime::now() + time)
    }
}
