//! A key of a TOML file that is read again while the process runs.

use std::fmt;
use std::path::PathBuf;

/// The place of a text in a TOML file: a bundle with a token and the certificate of the store's
/// authority is replaced like a file that has only one of them.
#[derive(Clone, Debug)]
pub(crate) struct FileKey {
    pub(super) path: PathBuf,
    /// The context that has the key, in a file of contexts.
    pub(super) context: Option<String>,
    pub(super) key: String,
}

impl FileKey {
    /// Reads the text. The error names neither the file nor any part of its content.
    pub(crate) fn read(&self) -> Result<String, String> {
        let text = std::fs::read_to_string(&self.path).map_err(|error| error.to_string())?;
        let file: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| format!("it is not TOML ({})", error.message()))?;
        let table = match &self.context {
            None => Some(&file),
            Some(name) => file
                .get("context")
                .and_then(|contexts| contexts.get(name)?.as_table()),
        };
        let value = table.and_then(|table| table.get(&self.key)?.as_str());
        let value = value.filter(|value| !value.trim().is_empty());
        value
            .map(str::to_owned)
            .ok_or_else(|| "the key is not in it any more".into())
    }
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.path.display())?;
        if let Some(name) = &self.context {
            write!(f, "context.{name}.")?;
        }
        write!(f, "{})", self.key)
    }
}
