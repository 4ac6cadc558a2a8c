//! `tenure man`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::new_files::{make_folder, overwrite};
use crate::output;

/// Print the manual page, or write all pages to a directory
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Directory for one page per command; without it tenure(1) is printed
    dir: Option<PathBuf>,
}

impl Man {
    /// Prints or writes the pages of `command`.
    pub(crate) fn run(&self, command: clap::Command) -> anyhow::Result<()> {
        let Some(folder) = &self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            output::line(String::from_utf8_lossy(&page).trim_end())?;
            return Ok(());
        };
        make_folder(folder, 0o755, None)?;
        let mut command = command.disable_help_subcommand(true);
        command.build();
        write_pages(command, folder)
    }
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: clap::Command, folder: &Path) -> anyhow::Result<()> {
    for command in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_pages(command.clone(), folder)?;
    }
    let (man, mut page) = (clap_mangen::Man::new(command), Vec::new());
    man.render(&mut page)?;
    let file = folder.join(man.get_filename());
    overwrite(&file, &page).with_context(|| format!("can't write {}", file.display()))
}
