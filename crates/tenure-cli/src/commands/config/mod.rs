//! `tenure config`: checks a configuration, shows the one in effect, prints an example.

mod check;
mod show;

mod effective;

#[cfg(test)]
mod tests;

use clap::{Args, Subcommand};
use tenure::__cli::EXAMPLE;

use crate::output;

/// Check a configuration, show the one in effect, or print an example
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Check),
    Show(Box<show::Show>),
    /// Print a commented file with every key and its default
    Example,
}

impl Config {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match &self.command {
            Command::Check(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Example => Ok(output::line(EXAMPLE.trim_end())?),
        }
    }
}
