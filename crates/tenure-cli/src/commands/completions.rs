//! `tenure completions`.

use clap::Args;

use crate::output;

/// Print completions for a shell
///
/// For example: tenure completions bash > ~/.local/share/bash-completion/completions/tenure
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell
    shell: clap_complete::Shell,
}

impl Completions {
    /// Prints completions for `command`.
    pub(crate) fn run(&self, command: &mut clap::Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, command, name, &mut script);
        output::line(String::from_utf8_lossy(&script).trim_end())?;
        Ok(())
    }
}
