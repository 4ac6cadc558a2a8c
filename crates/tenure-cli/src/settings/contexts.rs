//! Contexts: the stores that a person uses, in a file of that person.
//!
//! Only the commands that people run read the file. `tenure serve` and `tenure run` never read it,
//! because a service must not depend on the user who starts the service.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use tenure::__cli::Settings;
use tenure::config::{ConfigError, Origin};

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
}

/// A store and the credential for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    pub(crate) servers: Vec<String>,
    ca_file: Option<String>,
    ca: Option<String>,
    token_file: Option<String>,
    token: Option<String>,
    client_certificate: Option<String>,
    client_key: Option<String>,
}

/// The token must not be shown.
impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("servers", &self.servers)
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
        let origin = || Origin::File {
            path: path.clone(),
            line: 1,
        };
        settings.set_context(name);
        settings.set("servers", &context.servers, origin());
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
                settings.set(key, [value], origin());
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
        toml::from_str(&text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text[..offset].matches('\n').count() + 1;
            ConfigError::Syntax {
                path: path.into(),
                // The message does not contain the line itself, because the line may contain a
                // token.
                message: format!("line {line}: {}", error.message()),
            }
        })
    }
}

/// Returns the path of this user's context file.
pub(crate) fn default_path() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")));
    Some(folder?.join("tenure/config.toml"))
}
