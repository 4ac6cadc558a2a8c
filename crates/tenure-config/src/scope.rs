//! The keys that a program reads, and the others that may be in its file.

use std::sync::LazyLock;

use crate::keys::{Key, Keys};

/// The keys that a program reads, and the others that may be in the same file.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    all: &'static [&'static LazyLock<Keys>],
    own: usize,
    ignored: &'static [&'static str],
}

impl Scope {
    /// Creates the scope of the program with the keys `all[own]`. The others are those of programs that
    /// read the same file.
    #[must_use]
    pub const fn new(all: &'static [&'static LazyLock<Keys>], own: usize) -> Self {
        let ignored = &[];
        Self { all, own, ignored }
    }

    /// Ignores these tables of programs whose keys this program does not know.
    #[must_use]
    pub const fn ignoring(self, ignored: &'static [&'static str]) -> Self {
        Self { ignored, ..self }
    }

    /// Returns the keys of this scope, without those that the user chooses.
    pub fn keys(self) -> impl Iterator<Item = &'static Key> + Clone {
        self.all[self.own].keys.iter()
    }

    /// Returns the environment variables that contain secrets of any program.
    pub fn secret_variables(self) -> impl Iterator<Item = &'static str> {
        let secrets = self.known().filter(|key| key.is_secret());
        secrets.map(|key| &*key.variable)
    }

    fn known(self) -> impl Iterator<Item = &'static Key> + Clone {
        self.all.iter().flat_map(|keys| &keys.keys)
    }

    /// Returns what to write in place of a key that does not exist any more, in any program.
    pub(crate) fn replacement(self, key: &str, value: &str) -> Option<String> {
        let mut all = self.all.iter();
        all.find_map(|keys| keys.replacement(key, value))
    }

    /// Returns the key that this variable set in this scope, if it does not exist any more.
    pub(crate) fn replaced_by_variable(self, name: &str) -> Option<&'static str> {
        self.all[self.own].replaced_by_variable(name)
    }

    /// Returns the definition of a key of any program.
    pub(crate) fn key(self, name: &str) -> Option<&'static Key> {
        self.known().find(|key| key.name == name)
    }

    /// Returns the name of the table whose keys the user chooses.
    pub(crate) fn free_table(self) -> Option<&'static str> {
        self.all.iter().find_map(|keys| keys.free_table)
    }

    /// Returns the part of a key that the user chose.
    pub(crate) fn free_name(self, key: &str) -> Option<&str> {
        key.strip_prefix(self.free_table()?)?.strip_prefix('.')
    }

    /// Returns whether this scope contains this key.
    pub(crate) fn contains(self, key: &str) -> bool {
        let is_free = self.all[self.own].free_table.is_some() && self.free_name(key).is_some();
        is_free || self.keys().any(|known| known.name == key)
    }

    /// Returns whether any program has this key.
    pub(crate) fn is_known(self, key: &str) -> bool {
        self.free_name(key).is_some() || self.key(key).is_some()
    }

    /// Returns whether this program does not know the keys of this table.
    pub(crate) fn is_ignored(self, table: &str) -> bool {
        self.ignored.contains(&table)
    }

    /// Returns whether the value of this key is a secret, which messages must not contain.
    pub(crate) fn is_secret(self, key: &str) -> bool {
        self.key(key).is_some_and(Key::is_secret)
    }

    /// Returns whether any key with this name, in any table, is a secret.
    pub(crate) fn may_be_secret(self, name: &str) -> bool {
        let last = |key: &Key| key.name.rsplit('.').next() == Some(name);
        self.known().any(|key| key.is_secret() && last(key))
    }

    /// Returns the key as messages show it.
    pub(crate) fn shown(self, name: &str) -> &str {
        let Some((table, key)) = name.split_once('.') else {
            return name;
        };
        let is_short =
            |keys: &&LazyLock<Keys>| keys.main_table.is_some() && keys.tables.contains(&table);
        if self.all.iter().any(is_short) {
            key
        } else {
            name
        }
    }

    /// Returns the key with this spelling.
    pub(crate) fn of_spelling(self, spelling: &str) -> &str {
        let is_alias = |key: &&Key| key.alias() == Some(spelling);
        let key = self.known().find(is_alias);
        key.map_or(spelling, |key| &key.name)
    }

    /// Returns the key of this scope that this variable sets.
    pub(crate) fn key_of_variable(self, name: &str) -> Option<&'static str> {
        let mut keys = self.keys();
        let key = keys.find(|key| key.variables().any(|variable| variable == name));
        key.map(|key| &*key.name)
    }

    /// Returns the environment variables of all programs.
    pub(crate) fn known_variables(self) -> impl Iterator<Item = String> + Clone {
        self.known().flat_map(Key::variables)
    }

    /// Returns the variable whose key, written with its table, has this name.
    pub(crate) fn variable_of_full_name(self, name: &str) -> Option<&'static str> {
        let is_full = |key: &&Key| key.name.replace('.', "_").eq_ignore_ascii_case(name);
        self.known().find(is_full).map(|key| &*key.variable)
    }

    /// Returns whether a file may have a table of this name.
    pub(crate) fn is_table(self, name: &str) -> bool {
        self.tables().any(|table| table == name)
    }

    /// Returns the tables of all programs.
    fn tables(self) -> impl Iterator<Item = &'static str> + Clone {
        let known = self.all.iter().flat_map(|keys| &keys.tables);
        known.chain(self.ignored).copied()
    }

    /// Returns the table whose name is most similar to this one, if one is similar.
    pub(crate) fn nearest_table(self, name: &str) -> Option<&'static str> {
        nearest(name, self.tables())
    }

    /// Returns what the writer of an unknown key or table most likely meant, as the end of an error
    /// message. `table` is the table of the key, or empty.
    pub(crate) fn hint(self, table: &str, name: &str, is_table: bool) -> String {
        let split = |key: &'static Key| key.name.rsplit_once('.').unwrap_or(("", &key.name));
        let elsewhere = self.known().filter(|key| {
            let (known, same) = split(key);
            key.name == name || (same == name && known != table)
        });
        let elsewhere: Vec<_> = elsewhere.map(|key| place(split(key))).collect();
        let bracketed = |table: &str| format!("[{table}]");
        let full = |name: &str| match table {
            "" => name.to_owned(),
            table => self.shown(&format!("{table}.{name}")).to_owned(),
        };
        let of_table = self.known().map(split).filter(|(known, _)| *known == table);
        let keys = of_table.map(|(_, key)| key);
        if !is_table && !elsewhere.is_empty() {
            let known = keys.collect::<Vec<_>>().join(", ");
            let known = match table {
                "" => String::new(),
                table => format!(" Known in {} are {known}", bracketed(table)),
            };
            return format!("; did you mean {}?{known}", elsewhere.join(" or "));
        }
        let near_table = self.nearest_table(name).filter(|_| table.is_empty());
        let near_key = nearest(name, keys.clone()).filter(|_| !is_table || !table.is_empty());
        if let Some(near) = near_key.map(full).or_else(|| near_table.map(bracketed)) {
            return format!("; did you mean {near}?");
        }
        let known: Vec<_> = match is_table {
            true => self.tables().map(bracketed).collect(),
            false => keys.map(full).collect(),
        };
        format!("; known are {}", known.join(", "))
    }
}

/// Returns a key with its place in a file.
fn place((table, key): (&str, &str)) -> String {
    match table {
        "" => format!("{key} above all tables"),
        table => format!("{key} in [{table}]"),
    }
}

/// Returns the most similar of these names, if one is similar. The case does not matter.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&name, &known.to_ascii_lowercase());
    let with_distance = known.into_iter().map(|known| (distance(known), known));
    let (distance, known) = with_distance.min()?;
    (distance <= known.len() / 3 + 1).then_some(known)
}
