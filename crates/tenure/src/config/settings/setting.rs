//! A setting as text, with its origin.

use std::fmt;

use toml::Spanned;
use toml::de::DeValue;

use super::Origin;
use crate::http::store::Endpoint;

/// The value of a key.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) origin: Origin,
    pub(super) texts: Vec<String>,
    /// The value for error messages, without passwords in addresses.
    pub(super) shown: String,
    /// The TOML type of the value in a file. In the environment and in flags, every value is text.
    kind: Option<String>,
}

impl Setting {
    pub(super) fn of_text(
        texts: impl IntoIterator<Item = impl Into<String>>,
        origin: Origin,
    ) -> Self {
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        Self {
            origin,
            shown: Endpoint::shown(&format!("{:?}", texts.join(","))),
            texts,
            kind: None,
        }
    }

    pub(super) fn of_file(file: &str, value: &Spanned<DeValue<'_>>, origin: Origin) -> Self {
        let written = file.get(value.span()).unwrap_or_default();
        let written: Vec<&str> = written.split_whitespace().collect();
        let shown = Endpoint::shown(&written.join(" "));
        let mut kind = value.get_ref().type_str().to_owned();
        let texts = match value.get_ref() {
            DeValue::String(text) => vec![text.to_string()],
            DeValue::Integer(number) => {
                let decimal = i128::from_str_radix(number.as_str(), number.radix());
                vec![decimal.map_or_else(|_| number.to_string(), |number| number.to_string())]
            }
            DeValue::Array(items) => {
                let items = items.iter().map(Spanned::get_ref);
                if let Some(item) = items.clone().find(|item| !item.is_str()) {
                    kind = format!("{kind} of {}", item.type_str());
                }
                items
                    .filter_map(DeValue::as_str)
                    .map(str::to_owned)
                    .collect()
            }
            _ => vec![shown.clone()],
        };
        Self {
            origin,
            texts,
            shown,
            kind: Some(kind),
        }
    }

    /// Returns whether the value in a file is a table, or several of one name.
    pub(super) fn is_table(&self) -> bool {
        let kind = self.kind.as_deref();
        matches!(kind, Some("table" | "array of table"))
    }

    /// Returns the text if its TOML type is one of `kinds`. The text `right` describes a valid
    /// value.
    pub(super) fn text(&self, kinds: &[&str], right: &str) -> Result<&str, String> {
        match &self.kind {
            Some(kind) if !kinds.contains(&kind.as_str()) => {
                Err(format!("{right}; this is of type {kind}"))
            }
            _ => Ok(self.texts.first().map_or("", String::as_str)),
        }
    }
}

/// Omits the value, which may be a secret.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Setting of {}", self.origin)
    }
}
