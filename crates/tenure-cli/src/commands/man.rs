//! `tenure man`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::new_files::as_owner;
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
        let generate = || {
            std::fs::create_dir_all(folder)?;
            clap_mangen::generate_to(command, folder)
        };
        as_owner(&folder.join("tenure.1"), generate)
            .with_context(|| format!("can't write to {}", folder.display()))?;
        Ok(())
    }
}
