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
    let name = match key {
        "access.file" => "access",
        key if key == ALIAS.1 => ALIAS.0,
        key => key,
    };
    let table = ["serve.", "access.", "bully.", "fallback."]
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
    tables().any(|table| table == name)
}

/// Returns the tables of all scopes.
fn tables() -> impl Iterator<Item = &'static str> + Clone {
    let tables = KEYS.iter().filter_map(|key| Some(key.split_once('.')?.0));
    let mut last = "";
    let first_keys = tables.filter(move |table| std::mem::replace(&mut last, table) != *table);
    first_keys.chain([METADATA])
}

/// Returns whether any scope has this key.
pub(super) fn is_known(key: &str) -> bool {
    metadata_name(key).is_some() || KEYS.iter().any(|known| known == key)
}

/// Returns what the writer of an unknown key or table most likely meant, as the end of an error
/// message. `table` is the table of the key, or empty.
pub(super) fn hint(table: &str, name: &str, is_table: bool) -> String {
    let of_table = |key: &&'static str| {
        let (known, name) = key.rsplit_once('.').unwrap_or(("", key));
        (known == table).then_some(name)
    };
    let keys = KEYS.iter().map(String::as_str);
    let elsewhere = keys.clone().filter(|key| {
        let (known, same) = key.split_once('.').unwrap_or(("", key));
        *key == name || (same == name && known != table)
    });
    let elsewhere: Vec<_> = elsewhere.map(place).collect();
    if !is_table && !elsewhere.is_empty() {
        return format!("; did you mean {}?", elsewhere.join(" or "));
    }
    let bracketed = |table: &str| format!("[{table}]");
    let full = |name: &str| match table {
        "" => name.to_owned(),
        table => shown(&format!("{table}.{name}")).to_owned(),
    };
    let keys = keys.filter_map(|key| of_table(&key));
    let near_table = nearest_table(name).filter(|_| table.is_empty());
    let near_key = nearest(name, keys.clone()).filter(|_| !is_table || !table.is_empty());
    if let Some(near) = near_key.map(full).or_else(|| near_table.map(bracketed)) {
        return format!("; did you mean {near}?");
    }
    let known: Vec<_> = match is_table {
        true => tables().map(bracketed).collect(),
        false => keys.map(full).collect(),
    };
    format!("; known are {}", known.join(", "))
}

/// Returns the table whose name is most similar to this one, if one is similar.
pub(super) fn nearest_table(name: &str) -> Option<&'static str> {
    nearest(name, tables())
}

/// Returns a key with its place in a file.
fn place(key: &str) -> String {
    match key.split_once('.') {
        Some((table, key)) => format!("{key} in [{table}]"),
        None => format!("{key} above all tables"),
    }
}

/// Returns the most similar of these names, if one is similar. The case does not matter.
#[must_use]
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&name, &known.to_ascii_lowercase());
    let with_distance = known.into_iter().map(|known| (distance(known), known));
    let (distance, known) = with_distance.min()?;
    (distance <= known.len() / 3 + 1).then_some(known)
}

/// Returns whether any key with this name, in any table, is a secret.
pub(super) fn may_be_secret(name: &str) -> bool {
    let is_named = |secret: &str| secret == name || secret.ends_with(&format!(".{name}"));
    SECRETS.into_iter().any(is_named)
}

/// Returns the environment variables of all settings.
pub(super) fn variables() -> impl Iterator<Item = String> {
    let keys = KEYS.iter().map(String::as_str);
    keys.chain([ALIAS.0]).map(variable)
}

/// Returns the environment variables that contain secrets. Programs under `tenure run` do not need
/// them.
pub fn secret_variables() -> impl Iterator<Item = String> {
    SECRETS.into_iter().map(variable)
}

/// Returns the variable whose key, written with its table, has this name. The variables of one table
/// go without the table.
pub(super) fn variable_of_full_name(name: &str) -> Option<String> {
    let full = |key: &&String| key.replace('.', "_").eq_ignore_ascii_case(name);
    KEYS.iter().find(full).map(|key| variable(key))
}

/// Returns the environment variable of a key of the file.
fn variable(key: &str) -> String {
    let key = key.strip_prefix("serve.").unwrap_or(key);
    format!("{PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}
