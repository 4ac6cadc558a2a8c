//! `tenure cluster`: the servers of a store that has several.

mod hand_over;
mod log;
mod status;

use clap::{Args, Subcommand};

/// Show the servers of a cluster, change which one is active, or begin or recover its log
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::Status),
    HandOver(hand_over::HandOver),
    Init(log::Init),
    Recover(log::Recover),
}

impl Cluster {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match &self.command {
            Command::Status(command) => command.run(),
            Command::HandOver(command) => command.run(),
            Command::Init(command) => command.run(),
            Command::Recover(command) => command.run(),
        }
    }
}
