//! A key of a TOML file that is read again while the process runs.

use std::fmt;
use std::path::PathBuf;

/// The place of a text in a TOML file: a bundle with a token and the certificate of the store's
/// authority is replaced like a file that has only one of them.
#[derive(Clone, Debug)]
pub struct FileKey {
    pub(crate) path: PathBuf,
    /// The context that has the key, in a file of contexts.
    pub(crate) context: Option<String>,
    pub(crate) key: String,
}

impl FileKey {
    /// Reads the text. The error names neither the file nor any part of its content.
    ///
    /// # Errors
    ///
    /// The reason why there is no such text.
    pub fn read(&self) -> Result<String, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_at_the_top_of_a_file_or_in_its_context() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("config.toml");
        let read = |context: Option<&str>, text: &str| {
            std::fs::write(&path, text).unwrap();
            let key = FileKey {
                path: path.clone(),
                context: context.map(str::to_owned),
                key: "token".into(),
            };
            key.read()
        };
        let text = "token = \"top\"\n[context.site]\nservers = []\ntoken = \"of site\"\n";
        assert_eq!(read(None, text).unwrap(), "top");
        assert_eq!(read(Some("site"), text).unwrap(), "of site");
        for (context, wrong) in [
            (Some("other"), text),
            (None, "[context.site]\ntoken = \"of site\"\n"),
            (None, "token = \"\"\n"),
            (None, "token = 1\n"),
            (None, ""),
        ] {
            let error = read(context, wrong).unwrap_err();
            assert!(error.contains("not in it any more"), "{wrong}: {error}");
        }
        let error = read(None, "token = \"tnr1_secret\n").unwrap_err();
        assert!(error.starts_with("it is not TOML"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let key = FileKey {
            path,
            context: Some("site".into()),
            key: "ca".into(),
        };
        assert!(key.read().is_err());
        assert!(
            key.to_string().ends_with("config.toml (context.site.ca)"),
            "{key}"
        );
    }
}
