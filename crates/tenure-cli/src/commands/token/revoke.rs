//! `tenure token revoke`.

use clap::Args;

use super::FileArgs;
use crate::access_file::AccessFileEdit;
use crate::output;

/// Remove a token, or a principal with all of its tokens
///
/// A running store refuses the token within a second. A leader that has no other token leads until
/// its renew deadline.
#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// Id of the token, as tenure token list shows it
    #[arg(required_unless_present = "principal")]
    id: Option<String>,
    /// Remove this principal with all of its tokens
    #[arg(long, value_name = "NAME", conflicts_with = "id")]
    principal: Option<String>,
    #[command(flatten)]
    file: FileArgs,
}

impl Revoke {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let mut edit = AccessFileEdit::open(&self.file.file)?;
        let done = match (&self.id, &self.principal) {
            (_, Some(name)) => {
                edit.remove_principal(name)?;
                format!("{name} is removed with all of its tokens")
            }
            (Some(id), None) => {
                let name = edit.remove_secret(id)?;
                format!("token {id} of {name} is removed")
            }
            // clap requires one of the two.
            (None, None) => return Ok(()),
        };
        edit.save()?;
        output::line(done)?;
        Ok(())
    }
}
