//! `tenure context`: the stores that a person uses.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::json;
use tenure_config::Settings;
use tenure_core::file_path;
use toml_edit::{DocumentMut, value};

use crate::settings::CANDIDATE;
use crate::settings::contexts::{Contexts, default_path};
use crate::{exit, new_files, output};

/// List the stores of ~/.config/tenure/config.toml, add one, or choose one
///
/// The commands that ask a store use the current context if neither flags nor the environment nor a
/// configuration file name a store.
#[derive(Debug, Args)]
pub(crate) struct Context {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Use(Use),
    Add(Add),
}

/// List the contexts
#[derive(Debug, Args)]
struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Make a context the current one
#[derive(Debug, Args)]
struct Use {
    /// Name of the context
    name: String,
}

/// Add a context from a configuration file, such as tenure token create --bundle writes
#[derive(Debug, Args)]
struct Add {
    /// Name of the context
    name: String,
    /// Configuration file with the keys servers, ca or ca_file, and token, token_file, or
    /// client_certificate and client_key
    file: PathBuf,
}

const KEYS: [&str; 7] = [
    "servers",
    "ca_file",
    "ca",
    "token_file",
    "token",
    "client_certificate",
    "client_key",
];

impl Context {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let path = default_path().context("neither HOME nor XDG_CONFIG_HOME is set")?;
        let contexts = Contexts::read(&path)?;
        match &self.command {
            Command::List(list) => list.run(&contexts),
            Command::Use(Use { name }) => {
                if !contexts.context.contains_key(name) {
                    let text = format!("{} has no context {name:?}", path.display());
                    return Err(exit::bad_configuration(text));
                }
                change(&path, |document| document["current"] = value(name))
            }
            Command::Add(Add { name, file }) => {
                if contexts.context.contains_key(name) {
                    let text = format!("{} has a context {name:?} already", path.display());
                    return Err(exit::bad_configuration(text));
                }
                let text = fs::read_to_string(file)
                    .with_context(|| format!("can't read {}", file.display()))?;
                // A misspelt key would be left out without a word.
                Settings::of_file(CANDIDATE, file)?;
                let mut added: DocumentMut = text
                    .parse()
                    .with_context(|| format!("{} is not TOML", file.display()))?;
                // A context is used in any directory, so its paths are made absolute.
                for key in ["ca_file", "token_file", "client_certificate", "client_key"] {
                    if let Some(path) = added.get(key).and_then(|item| item.as_str()) {
                        file_path::check(path).map_err(|error| {
                            let text = format!("{}: {key} = {path:?}: {error}", file.display());
                            exit::bad_configuration(text)
                        })?;
                        let path = std::path::absolute(path)?;
                        added[key] = value(path.to_string_lossy().into_owned());
                    }
                }
                if !added.contains_key("servers") {
                    let text = format!("{}: servers is not set", file.display());
                    return Err(exit::bad_configuration(text));
                }
                change(&path, |document| add(document, name, &added))
            }
        }
    }
}

impl List {
    fn run(&self, contexts: &Contexts) -> anyhow::Result<()> {
        let is_current = |name: &str| contexts.current.as_deref() == Some(name);
        if self.json {
            let list = contexts.context.iter().map(|(name, context)| {
                json!({"name": name, "servers": context.servers(), "current": is_current(name)})
            });
            return output::json(&list.collect::<Vec<_>>());
        }
        let mut table = output::table(&["CONTEXT", "SERVERS", "CURRENT"]);
        for (name, context) in &contexts.context {
            let current = if is_current(name) { "yes" } else { "" };
            table.add_row([
                name.clone(),
                context.servers().join(", "),
                current.to_owned(),
            ]);
        }
        output::print_table(&table)
    }
}

/// Adds a context, and makes it the current context if it is the first.
pub(crate) fn add(document: &mut DocumentMut, name: &str, added: &DocumentMut) {
    let mut table = toml_edit::Table::new();
    for key in KEYS {
        if let Some(item) = added.get(key) {
            table.insert(key, item.clone());
        }
    }
    let contexts = document.entry("context").or_insert_with(|| {
        let mut contexts = toml_edit::Table::new();
        contexts.set_implicit(true);
        toml_edit::Item::Table(contexts)
    });
    contexts[name] = toml_edit::Item::Table(table);
    if !document.contains_key("current") {
        document["current"] = value(name);
    }
}

/// Changes or creates the file. Only its owner can read it.
fn change(path: &PathBuf, change: impl FnOnce(&mut DocumentMut)) -> anyhow::Result<()> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut document: DocumentMut = text.parse().context("the file of contexts is not TOML")?;
    change(&mut document);
    let folder = path
        .parent()
        .context("the file of contexts has no directory")?;
    new_files::make_folder(folder, 0o700, None)?;
    new_files::replace(path, &document.to_string(), 0o600).map(drop)
}
