//! The `tenure` command: hosts a lease store, runs programs while they lead, and looks after leases.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the command tenure runs on Linux only: its supervisor uses prctl, /proc and signals of Linux; the \
     crate tenure supports more systems"
);

mod azure;
mod backup;
mod cli;
mod compare;
mod config;
mod demo;
mod doctor;
mod exit;
mod logging;
mod open_files;
mod output;
mod parent;
mod peers;
mod permissions;
mod processes;
mod run;
mod section;
mod serve;
mod shell;
mod store;
mod strangers;
mod tls;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use exit::Failure;

/// It asks for huge pages, so that finding one lease among a million takes the processor half as long,
/// and costs less by itself. The store's benchmarks use it, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = logging::start(cli.log_format).and_then(|()| {
        if cli.command.has_settings() {
            strangers::warn_of_strangers();
        }
        dispatch(cli.command)
    });
    let code = done.unwrap_or_else(Failure::report);
    logging::finish(logging::LAST_LINES);
    code
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::List(arguments) => store::list(&arguments),
        Command::Status(arguments) => store::status(&arguments),
        Command::History(arguments) => store::history(&arguments),
        Command::Watch(arguments) => watch::watch(&arguments),
        Command::Break(arguments) => store::break_lease(&arguments),
        Command::Handover(arguments) => store::hand_over(&arguments),
        Command::Peers(arguments) => peers::peers(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Backup(arguments) => backup::backup(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Config(arguments) => config::config(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
        Command::Watchdog(arguments) => run::watchdog(&arguments),
        Command::SecondWatchdog(arguments) => run::second_watchdog(&arguments),
        Command::Watched(arguments) => run::watched(&arguments),
        Command::DemoWorker(arguments) => demo::worker(arguments),
        Command::CompareWorker(arguments) => compare::worker(&arguments),
    }
}
