//! The table of all settings.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// All settings of candidates and of the store, each with its meaning and a value: its default, if
/// the key has one. **This text is the table of keys**: a key that is not in it is unknown. It is
/// also a valid configuration, which `tenure config example` prints.
pub const EXAMPLE: &str = include_str!("../example.toml");

/// The tables of the store. All other settings belong to candidates.
const STORE_TABLES: [&str; 9] = [
    "serve", "cluster", "etcd", "postgres", "access", "audit", "metrics", "tls", "azure",
];

/// The table whose keys the user chooses.
pub(super) const METADATA: &str = "metadata";

/// An alternative spelling of a key, and the key itself.
const ALIAS: (&str, &str) = ("server", "servers");

/// Keys whose values are never shown.
const SECRETS: [&str; 8] = [
    "token",
    "azure_blob.key",
    "azure_blob.sas",
    "azure_blob.connection_string",
    "bully.key",
    "fallback.key",
    // The value may contain a password.
    "postgres.url",
    // The value contains the keys of accounts.
    "azure.accounts",
];

/// The prefix of environment variables.
pub(super) const PREFIX: &str = "TENURE_";

/// All keys in the order of the table. A key in a table of the file is written `table.key`.
static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut table = String::new();
    let mut keys = Vec::new();
    for line in EXAMPLE.lines() {
        // A key that shows its default is commented out without a space after the `#`. In a
        // comment, a space follows the `#`.
        let line = line.strip_prefix('#').unwrap_or(line);
        if let Some(name) = line.strip_prefix('[') {
            table = name.replace(']', ".");
        } else if let Some((key, _)) = line.split_once(" = ")
            && !key.contains(' ')
        {
            keys.push(format!("{table}{key}"));
        }
    }
    keys.retain(|key| metadata_name(key).is_none());
    keys
});

/// A group of settings that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The settings of a candidate.
    Candidate,
    /// The settings of the store.
    Store,
}

impl Scope {
    /// Returns the keys of this scope.
    pub(super) fn keys(self) -> impl Iterator<Item = &'static str> + Clone {
        let keys = KEYS.iter().map(String::as_str);
        keys.filter(move |key| self.owns(key))
    }

    /// Returns whether a key with this name would belong to this scope, even if there is no such
    /// key.
    pub(super) fn owns(self, key: &str) -> bool {
        let table = key.split_once('.').map(|(table, _)| table);
        let is_of_store = table.is_some_and(|table| STORE_TABLES.contains(&table));
        is_of_store == (self == Self::Store)
    }

    /// Returns whether this scope contains this key.
    pub(super) fn contains(self, key: &str) -> bool {
        let is_metadata = self == Self::Candidate && metadata_name(key).is_some();
        is_metadata || self.keys().any(|known| known == key)
    }

    /// Returns the environment variables of this scope, each with its key.
    pub(super) fn variables(self) -> BTreeMap<String, &'static str> {
        let keys = self.keys().map(|key| (variable(key), key));
        let alias = (self == Self::Candidate).then(|| (variable(ALIAS.0), ALIAS.1));
        keys.chain(alias).collect()
    }
}

/// Returns whether the value of this key is a secret, which messages must not contain.
#[must_use]
pub fn is_secret(key: &str) -> bool {
    SECRETS.contains(&key)
}

/// Returns the key as messages show it, without the table of the store.
pub(super) fn shown(key: &str) -> &str {
    let in_table = key.split_once('.');
    let in_table = in_table.filter(|(table, _)| STORE_TABLES.contains(table));
    in_table.map_or(key, |(_, key)| key)
}

/// Returns the command-line flag of a key.
pub(super) fn flag(key: &str) -> String {
    let name = if key == ALIAS.1 { ALIAS.0 } else { key };
    let table = ["serve.", "bully.", "fallback."]
        .into_iter()
        .find_map(|table| name.strip_prefix(table));
    format!("--{}", table.unwrap_or(name).replace(['.', '_'], "-"))
}

/// Returns the key with this spelling.
pub(super) fn of_spelling(spelling: &str) -> &str {
    if spelling == ALIAS.0 {
        ALIAS.1
    } else {
        spelling
    }
}

/// Returns the name of the metadata that this key sets.
pub(super) fn metadata_name(key: &str) -> Option<&str> {
    key.strip_prefix(METADATA)?.strip_prefix('.')
}

/// Returns whether a file may have a table of this name.
pub(super) fn is_table(name: &str) -> bool {
    let mut tables = KEYS.iter().filter_map(|key| key.split_once('.'));
    name == METADATA || tables.any(|(table, _)| table == name)
}

/// Returns whether any key with this name, in any table, is a secret.
pub(super) fn may_be_secret(name: &str) -> bool {
    let is_named = |secret: &str| secret == name || secret.ends_with(&format!(".{name}"));
    SECRETS.into_iter().any(is_named)
}

/// Returns the environment variables of all settings.
pub fn variables() -> impl Iterator<Item = String> {
    let keys = KEYS.iter().map(String::as_str);
    keys.chain([ALIAS.0]).map(variable)
}

/// Returns the environment variables that contain secrets. Programs under `tenure run` do not need
/// them.
pub fn secret_variables() -> impl Iterator<Item = String> {
    SECRETS.into_iter().map(variable)
}

/// Returns the environment variable of a key of the file.
fn variable(key: &str) -> String {
    let key = key.strip_prefix("serve.").unwrap_or(key);
    format!("{PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}
