//! `tenure token rotate`.

use clap::Args;
use tenure_server::access::Secret;

use super::output_file::OutputArgs;
use super::{FileArgs, LifetimeArgs};
use crate::access_file::AccessFileEdit;

/// Give a principal a second token
///
/// Both tokens are valid until `tenure token revoke` removes one. Replace the token file of each
/// program first; the programs read it again by themselves.
#[derive(Debug, Args)]
pub(super) struct Rotate {
    /// Name of the principal
    name: String,
    #[command(flatten)]
    lifetime: LifetimeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    file: FileArgs,
}

impl Rotate {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let output = self.output.open(&self.name)?;
        let mut edit = AccessFileEdit::open(&self.file.file)?;
        let secret = Secret::generate();
        edit.add_secret(&self.name, &secret, self.lifetime.end())?;
        edit.content()?;
        output.write(&self.name, &secret)?;
        edit.save()?;
        output.report(&self.name, &secret)
    }
}
