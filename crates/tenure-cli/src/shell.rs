//! `tenure completions` and `tenure man`: what packages install beside the command.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::cli::{Cli, Completions, Man};
use crate::exit::Failure;
use crate::output;

const NAME: &str = "tenure";

pub(crate) fn completions(arguments: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut visible(&Cli::command()),
        NAME,
        &mut script,
    );
    print(&script)
}

pub(crate) fn man(arguments: &Man) -> Result<ExitCode, Failure> {
    let command = visible(&Cli::command());
    let Some(folder) = &arguments.dir else {
        let mut page = Vec::new();
        Page::new(command).render(&mut page)?;
        return print(&page);
    };
    let write = || {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(command, folder)
    };
    write().with_context(|| format!("can't write to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &[u8]) -> Result<ExitCode, Failure> {
    output::line(String::from_utf8_lossy(text).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// The command without what is not for users: generators show hidden commands and flags, too.
fn visible(full: &Command) -> Command {
    let arguments = full
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    let subcommands = full
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let mut command = Command::new(full.get_name().to_owned())
        .args(arguments.cloned())
        .subcommands(subcommands.map(visible))
        .subcommand_required(full.is_subcommand_required_set());
    if let Some(about) = full.get_about() {
        command = command.about(about.clone());
    }
    if let Some(about) = full.get_long_about() {
        command = command.long_about(about.clone());
    }
    if let Some(help) = full.get_after_help() {
        command = command.after_help(help.clone());
    }
    if let Some(version) = full.get_version() {
        command = command.version(version.to_owned());
    }
    command
}
