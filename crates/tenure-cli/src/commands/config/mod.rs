//! `tenure config`: checks a configuration, shows the one in effect, prints an example.

mod check;
mod show;

mod effective;

#[cfg(test)]
mod tests;

use clap::{Args, Subcommand};

use crate::output;
use crate::settings::ALL_KEYS;

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
            Command::Example => {
                let texts = ALL_KEYS.map(|keys| keys.text().trim_end());
                Ok(output::line(texts.join("\n\n"))?)
            }
        }
    }
}
