//! The keys of a program, by the text that defines them.

use std::fmt::Write as _;

use toml::de::DeTable;

use crate::error::Origin;
use crate::setting::Setting;

/// The prefix of environment variables.
pub(crate) const PREFIX: &str = "TENURE_";

/// The comment behind an example in a table whose keys the user chooses.
const ANY_NAME: &str = "# any name";

/// The keys of a program. Their text is a valid file, which shows each key with its meaning.
///
/// Each key is a line of its own, below the comment that describes it. A commented key has no space
/// after the `#`. Keys without a blank line or a comment between them share their comment. The comment
/// behind the value says what the value is; `; ` separates two of these:
///
/// | comment | the value is |
/// |---|---|
/// | none | the default |
/// | `# 1 to 10` or `# "a" or "b"` | the default, and the comment has all allowed values |
/// | `# also: NAME` | the default, and the comment has another spelling of the key |
/// | `# default: TEXT` | an example, and the comment describes the default |
/// | `# no default` | an example |
/// | `# secret` | an example of a value that is never shown |
/// | `# any name` | an example in a table whose keys the user chooses |
#[derive(Debug)]
pub struct Keys {
    pub(crate) text: &'static str,
    pub(crate) keys: Vec<Key>,
    pub(crate) tables: Vec<&'static str>,
    /// The table whose variables are without it, if messages show keys without their tables.
    pub(crate) main_table: Option<&'static str>,
    /// The table whose keys the user chooses.
    pub(crate) free_table: Option<&'static str>,
    /// Keys that do not exist any more, and what to write in their place.
    replaced: &'static str,
}

/// A key with its definition.
#[derive(Debug)]
pub struct Key {
    /// The name, with its table: `table.key`.
    pub name: String,
    /// The environment variable.
    pub variable: String,
    /// The value as the text has it.
    pub written: &'static str,
    /// The comment; `None` if the key shares that of the key before.
    pub doc: Option<String>,
    /// The comments behind the value.
    notes: &'static str,
    pub(crate) example: Setting,
}

impl Keys {
    /// Reads the keys of a text. With a main table, all keys are in tables, messages show them without
    /// their tables, and the variables of the main table are without it.
    ///
    /// # Panics
    ///
    /// If a line is not TOML.
    #[must_use]
    pub fn new(text: &'static str, main_table: Option<&'static str>) -> Self {
        let mut keys = Self {
            text,
            keys: Vec::new(),
            tables: Vec::new(),
            main_table,
            free_table: None,
            replaced: "",
        };
        let (mut table, mut doc) = ("", None);
        for line in text.lines() {
            let comment = line
                .strip_prefix("# ")
                .or_else(|| (line == "#").then_some(""));
            let line = line.strip_prefix('#').unwrap_or(line);
            if let Some(comment) = comment {
                let doc: &mut String = doc.get_or_insert_default();
                let _ = write!(doc, "{comment} ");
            } else if let Some(name) = line.strip_prefix('[') {
                (table, doc) = (name.trim_end_matches(']'), None);
                keys.tables.push(table);
            } else if line.is_empty() {
                doc = None;
            } else {
                let key = Key::read(line, table, main_table, doc.take());
                if line.ends_with(ANY_NAME) {
                    keys.free_table = Some(table);
                } else {
                    keys.keys.push(key);
                }
            }
        }
        keys
    }

    /// Refuses keys that do not exist any more. Each line has a key, or `KEY=VALUE` for one value of it,
    /// then `: ` and what to write in its place; `{}` stands for the old value.
    #[must_use]
    pub fn replacing(self, replaced: &'static str) -> Self {
        Self { replaced, ..self }
    }

    fn replaced(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let lines = self.replaced.lines();
        lines.filter_map(|line| line.split_once(": "))
    }

    /// Returns what to write in place of a replaced key with this value, without the schemes of URLs.
    pub(crate) fn replacement(&self, key: &str, value: &str) -> Option<String> {
        let of_value = format!("{key}={value}");
        let mut replaced = self.replaced();
        let (_, now) = replaced.find(|(old, _)| *old == key || *old == of_value)?;
        let value = value.replace("https://", "").replace("http://", "");
        Some(now.replace("{}", value.trim_end_matches('/')))
    }

    /// Returns the replaced key that this variable set.
    pub(crate) fn replaced_by_variable(&self, name: &str) -> Option<&'static str> {
        let main = |key: &'static str| key.strip_prefix(self.main_table?)?.strip_prefix('.');
        let mut keys = self.replaced().map(|(old, _)| old);
        keys.find(|key| variable(main(key).unwrap_or(key)) == name)
    }

    /// Returns the text, which is a valid file.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }
}

impl Key {
    fn read(
        line: &'static str,
        table: &str,
        main_table: Option<&str>,
        doc: Option<String>,
    ) -> Self {
        let file = DeTable::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut pairs = file.get_ref().iter();
        let (key, value) = pairs.next().unwrap_or_else(|| panic!("{line}: no key"));
        let key = key.get_ref();
        let name = match table {
            "" => key.to_string(),
            table => format!("{table}.{key}"),
        };
        let variable = match main_table {
            Some(main) if main == table => variable(key),
            _ => variable(&name),
        };
        Self {
            name,
            variable,
            written: &line[value.span()],
            doc,
            notes: line[value.span().end..].trim_start_matches([' ', '#']),
            example: Setting::of_file(line, value, Origin::Default),
        }
    }

    pub(crate) fn default(&self) -> Option<&Setting> {
        self.described_default().is_none().then_some(&self.example)
    }

    /// Returns the rest of the first comment behind the value that begins with this.
    fn note(&self, start: &str) -> Option<&'static str> {
        let mut notes = self.notes.split("; ");
        notes.find_map(|note| note.strip_prefix(start))
    }

    pub(crate) fn alias(&self) -> Option<&'static str> {
        self.note("also: ")
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.note("secret").is_some()
    }

    /// Returns the environment variables that set the key.
    pub(crate) fn variables(&self) -> impl Iterator<Item = String> + Clone {
        let alias = self.alias().map(variable);
        [self.variable.clone()].into_iter().chain(alias)
    }

    /// Returns what the value is if nobody sets it, if that is not the value in the text.
    #[must_use]
    pub fn described_default(&self) -> Option<&'static str> {
        let is_none = self.is_secret() || self.note("no default").is_some();
        self.note("default: ").or_else(|| is_none.then_some("none"))
    }

    /// Returns the allowed values: a range, or texts in quotes.
    #[must_use]
    pub fn allowed(&self) -> Option<&'static str> {
        let others = ["also: ", "default: ", "no default", "secret"];
        let is_other = |note: &&str| others.iter().any(|start| note.starts_with(start));
        let mut notes = self.notes.split("; ").filter(|note| !note.is_empty());
        notes.find(|note| !is_other(note))
    }

    /// Returns the first and the last allowed value, if the allowed values are a range.
    #[must_use]
    pub fn range(&self) -> Option<(&'static str, &'static str)> {
        self.allowed()?.split_once(" to ")
    }

    /// Returns whether the value is a time with a unit.
    pub(crate) fn is_duration(&self) -> bool {
        humantime::parse_duration(self.written.trim_matches('"')).is_ok()
    }
}

/// Returns the environment variable of a key.
fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}
