//! The destination of a new token: a file that contains only the token, or a configuration for a
//! worker.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use tenure::store::Endpoint;
use tenure_core::pem;
use tenure_server::access::Secret;

use crate::{exit, new_files, output};

/// The file for a new token.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// File for the token, which must not exist; - prints it [default: NAME.token]
    #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
    output: Option<PathBuf>,
    /// File for a configuration with the store's addresses, its CA certificate and the token: all
    /// that a worker needs. It must not exist
    #[arg(long, value_name = "FILE", requires = "server")]
    bundle: Option<PathBuf>,
    /// With --bundle: address of the store; may be repeated
    #[arg(long, value_name = "URL")]
    server: Vec<Endpoint>,
    /// With --bundle: CA certificates (PEM) of the store
    #[arg(long, value_name = "FILE", requires = "bundle")]
    ca_file: Option<PathBuf>,
}

/// A checked destination of a new token.
#[derive(Debug)]
pub(super) enum OutputFile {
    Stdout,
    Token(PathBuf),
    Bundle {
        path: PathBuf,
        servers: Vec<String>,
        ca: Option<String>,
    },
}

impl OutputArgs {
    /// Returns the file for the token of this principal; `None` if the token is printed.
    fn path(&self, name: &str) -> Option<PathBuf> {
        match (&self.bundle, &self.output) {
            (Some(path), _) => Some(path.clone()),
            (None, Some(path)) => (path.as_os_str() != "-").then(|| path.clone()),
            (None, None) => Some(format!("{}.token", name.replace('/', "_")).into()),
        }
    }

    /// Returns the file for the token of this principal, if it exists.
    pub(super) fn existing_file(&self, name: &str) -> Option<PathBuf> {
        self.path(name)
            .filter(|path| path.symlink_metadata().is_ok())
    }

    /// Checks and returns the destination, before the access file changes: a token that is in no
    /// file is lost.
    pub(super) fn open(&self, name: &str) -> anyhow::Result<OutputFile> {
        if let Some(path) = self.existing_file(name) {
            let text = format!(
                "{} exists already; name another file with --output or --bundle",
                path.display()
            );
            return Err(exit::bad_configuration(text));
        }
        Ok(match self.path(name) {
            None => OutputFile::Stdout,
            Some(path) if self.bundle.is_some() => {
                let read = |path: &PathBuf| {
                    let text = fs::read_to_string(path)
                        .with_context(|| format!("can't read {}", path.display()))?;
                    let authorities = pem::authorities(text.as_bytes());
                    authorities.with_context(|| path.display().to_string())?;
                    anyhow::Ok(text)
                };
                OutputFile::Bundle {
                    path,
                    servers: self.server.iter().map(ToString::to_string).collect(),
                    ca: self.ca_file.as_ref().map(read).transpose()?,
                }
            }
            Some(path) => OutputFile::Token(path),
        })
    }
}

impl OutputFile {
    pub(super) fn write(&self, name: &str, secret: &Secret) -> anyhow::Result<()> {
        let write = |path: &Path, text: &str| new_files::write(path, text, 0o600).map(drop);
        match self {
            Self::Stdout => Ok(output::line(secret.reveal())?),
            Self::Token(path) => write(path, &format!("{}\n", secret.reveal())),
            Self::Bundle { path, servers, ca } => {
                write(path, &bundle_text(name, servers, ca.as_deref(), secret))
            }
        }
    }

    /// Prints the location of the token.
    pub(super) fn report(&self, name: &str, secret: &Secret) -> anyhow::Result<()> {
        let id = secret.id();
        match self {
            Self::Stdout => {}
            Self::Token(path) => output::line(format_args!(
                "{}: token {id} of {name}; this file is its only copy",
                path.display()
            ))?,
            Self::Bundle { path, .. } => output::line(format_args!(
                "{}: configuration with token {id} of {name}; this file is its only copy",
                path.display()
            ))?,
        }
        Ok(())
    }
}

/// Returns a configuration with all settings that a client of the store needs.
pub(crate) fn bundle_text(
    name: &str,
    servers: &[String],
    ca: Option<&str>,
    secret: &Secret,
) -> String {
    let servers: toml_edit::Array = servers.iter().map(String::as_str).collect();
    let mut document = toml_edit::DocumentMut::new();
    document["servers"] = toml_edit::value(servers);
    document["token"] = toml_edit::value(secret.reveal());
    let ca = ca.map_or(String::new(), |ca| {
        format!("ca = \"\"\"\n{}\n\"\"\"\n", ca.trim_end())
    });
    format!("# Access to the lease store as {name:?}. Keep it secret.\n{document}{ca}")
}
