//! `tenure config`: checks a configuration, shows the one in effect, prints an example.

mod check;
mod example;
mod show;

mod effective;

use clap::{Args, Subcommand};

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
    Example(example::Example),
}

impl Config {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match &self.command {
            Command::Check(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Example(command) => command.run(),
        }
    }
}
