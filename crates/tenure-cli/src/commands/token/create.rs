//! `tenure token create`.

use clap::Args;
use tenure_server::access::{Role, Secret};

use super::output_file::OutputArgs;
use super::{FileArgs, LifetimeArgs};
use crate::access_file::{AccessFileEdit, GrantText};

/// Create a principal with a token
#[derive(Debug, Args)]
pub(super) struct Create {
    /// Name of the principal
    name: String,
    /// Role: read, candidate (acquire leases), operator (break them), metrics, or admin
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    role: Role,
    /// Namespace that the role is for, or * for all [default: all for metrics]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only leases whose names begin with this text [default: all]
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    #[command(flatten)]
    lifetime: LifetimeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    file: FileArgs,
    /// Succeed without a change if the principal and the file for its token exist already; for
    /// commands that run at each start of a container
    #[arg(long)]
    if_missing: bool,
}

impl Create {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        if self.if_missing
            && let Some(path) = self.output.existing_file(&self.name)
            && AccessFileEdit::open(&self.file.file)?.has_principal(&self.name)
        {
            return Ok(crate::output::line(format_args!(
                "{}: the token of {} exists already; nothing was changed",
                path.display(),
                self.name
            ))?);
        }
        let output = self.output.open(&self.name)?;
        let mut edit = AccessFileEdit::open(&self.file.file)?;
        let grant = GrantText {
            role: self.role.to_string(),
            namespace: self.namespace.clone(),
            prefix: self.prefix.clone(),
        };
        let secret = Secret::generate();
        edit.add_principal(&self.name, &[grant], &secret, self.lifetime.end())?;
        edit.content()?;
        // The token is written first, because an entry without its token is useless.
        output.write(&self.name, &secret)?;
        edit.save()?;
        output.report(&self.name, &secret)
    }
}

fn parse_role(text: &str) -> Result<Role, String> {
    text.parse()
}
