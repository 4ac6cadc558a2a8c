//! Contexts: the stores that a person uses, in a file of that person.
//!
//! Only the commands that people run read the file. `tenure serve` and `tenure run` never read it,
//! because a service must not depend on the user who starts the service.

use std::collections::BTreeMap;
use std::env;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use tenure_config::{ConfigError, Origin, Settings};
use tenure_server::access::with_hint;
use toml::Spanned;

use super::flags::StoreArgs;

/// The address of the store, or the name of a context that has it.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Context of ~/.config/tenure/config.toml: a store with its credential [default: its
    /// "current"]
    #[arg(
        long,
        value_name = "NAME",
        env = "TENURE_CONTEXT",
        conflicts_with = "server"
    )]
    context: Option<String>,
}

/// The file of contexts.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) context: BTreeMap<String, Context>,
    /// The offsets of the ends of the lines.
    #[serde(skip)]
    line_ends: Vec<usize>,
}

/// A store and the credential for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    servers: Spanned<Vec<String>>,
    ca_file: Option<Spanned<String>>,
    ca: Option<Spanned<String>>,
    token_file: Option<Spanned<String>>,
    token: Option<Spanned<String>>,
    client_certificate: Option<Spanned<String>>,
    client_key: Option<Spanned<String>>,
}

/// The token must not be shown.
impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("servers", self.servers.get_ref())
            .finish_non_exhaustive()
    }
}

impl ClientArgs {
    /// Returns the settings of a client: the file, overridden by the environment, overridden by
    /// flags. If none of these names a store, the context supplies the store and its credential. A
    /// credential is never sent to a store from another source.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = self.store.settings()?;
        if self.context.is_none() && settings.origin("servers").is_some() {
            return Ok(settings);
        }
        let Some(path) = default_path() else {
            return Ok(settings);
        };
        let contexts = Contexts::read(&path)?;
        let name = match (&self.context, &contexts.current) {
            (Some(name), _) => name,
            (None, Some(name)) => name,
            (None, None) => return Ok(settings),
        };
        let Some(context) = contexts.context.get(name) else {
            let known = contexts.context.keys().map(String::as_str);
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(ConfigError::Invalid {
                origin: Origin::Flag("--context".into()),
                key: "context".into(),
                value: name.clone(),
                reason: format!("{} has the contexts: {known}", path.display()),
            });
        };
        let origin = |span: Range<usize>| Origin::File {
            path: path.clone(),
            line: line_at(&contexts.line_ends, span.start),
        };
        let servers = &context.servers;
        settings.set_context(name);
        settings.set("servers", servers.get_ref(), origin(servers.span()));
        for (key, value) in [
            ("ca_file", &context.ca_file),
            ("ca", &context.ca),
            ("token_file", &context.token_file),
            ("token", &context.token),
            ("client_certificate", &context.client_certificate),
            ("client_key", &context.client_key),
        ] {
            settings.unset(key);
            if let Some(value) = value {
                settings.set(key, [value.get_ref()], origin(value.span()));
            }
        }
        Ok(settings)
    }
}

impl Contexts {
    /// Reads the contexts of a file. A missing file has no contexts.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(reason) => {
                let path = path.into();
                return Err(ConfigError::Unreadable { path, reason });
            }
        };
        let line_ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        match toml::from_str::<Self>(&text) {
            Ok(contexts) => Ok(Self {
                line_ends,
                ..contexts
            }),
            Err(error) => {
                let line = line_at(&line_ends, error.span().map_or(0, |span| span.start));
                Err(ConfigError::Syntax {
                    path: path.into(),
                    // The message does not contain the line itself, because the line may contain a
                    // token.
                    message: format!("line {line}: {}", with_hint(error.message())),
                })
            }
        }
    }
}

impl Context {
    pub(crate) fn servers(&self) -> &[String] {
        self.servers.get_ref()
    }
}

/// Returns the line of this offset, counted from 1.
fn line_at(line_ends: &[usize], offset: usize) -> usize {
    line_ends.partition_point(|&end| end < offset) + 1
}

/// Returns the path of this user's context file.
pub(crate) fn default_path() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")));
    Some(folder?.join("tenure/config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_key_or_value_is_reported_with_its_line_and_the_nearest_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Contexts::read(&path)
        };
        for (text, message) in [
            (
                "curent = \"a\"",
                "line 1: unknown key curent; did you mean current?",
            ),
            (
                "[context.a]\nserver = [\"http://a\"]",
                "line 2: unknown key server; did you mean servers?",
            ),
            (
                "[context.a]\nservers = [\"http://a\"]\ntoken-file = \"a\"",
                "line 3: unknown key token-file; did you mean token_file?",
            ),
            ("x = 1", "line 1: unknown key x; known are current, context"),
            ("\n[context.a]\nservers = 1", "line 3: "),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(message), "{message}: {error}");
        }
        let contexts = read("\n[context.a]\nservers = []\n\ntoken = \"t\"\n").unwrap();
        let context = &contexts.context["a"];
        let line = |span: Range<usize>| line_at(&contexts.line_ends, span.start);
        assert_eq!(line(context.servers.span()), 3);
        assert_eq!(line(context.token.as_ref().unwrap().span()), 5);
    }
}
