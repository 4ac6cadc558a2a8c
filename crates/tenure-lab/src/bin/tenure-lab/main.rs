//! The `tenure-lab` command: compares election strategies, in simulated time or as real processes.

mod compare;
mod exit;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Compare and check leader election strategies
#[derive(Debug, Parser)]
#[command(name = "tenure-lab", version, after_help = exit::HELP, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(Box<compare::Compare>),
    #[command(hide = true)]
    CompareWorker(compare::CompareWorker),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Compare(command) => command.run(),
        Command::CompareWorker(command) => command.run().map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        if output::is_reader_gone(&error) {
            return ExitCode::SUCCESS;
        }
        eprintln!("tenure-lab: {error:#}");
        ExitCode::from(exit::code_of(&error))
    })
}
