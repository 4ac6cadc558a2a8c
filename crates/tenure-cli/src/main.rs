//! The `tenure` command: serves a lease store, runs programs while they lead, and manages leases.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the command tenure runs on Linux only: its supervisor uses prctl, /proc and signals of Linux; the \
     crate tenure supports more systems"
);

mod access_file;
mod cli;
mod commands;
mod end_term;
mod exit;
mod lease_view;
mod logging;
mod new_files;
mod output;
mod parent;
mod runtime;
mod servers;
mod settings;
mod store;
mod task_limit;

use std::process::ExitCode;

use cli::Cli;

/// The allocator asks for huge pages, which halves the processor time of a look-up among a million
/// leases. The store's benchmarks use the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::read();
    let result = logging::start(cli.log_format, cli.command.service()).and_then(|()| {
        runtime::survive_limit_of_file_size()?;
        if cli.command.reads_settings() {
            tenure_config::warn_of_unknown_variables(settings::CANDIDATE);
        }
        cli.command.run()
    });
    let code = result.unwrap_or_else(|error| {
        if output::is_reader_gone(&error) {
            return ExitCode::SUCCESS;
        }
        let code = exit::code_of(&error);
        logging::print_failure(cli.log_format, &format!("{error:#}"), code);
        ExitCode::from(code)
    });
    logging::stop();
    code
}
