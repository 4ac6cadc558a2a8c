//! Names of namespaces, leases and elections.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// The longest name, in bytes: long enough for a host name with a prefix, and short enough for an
/// index.
pub const MAX_NAME_LEN: usize = 128;

/// The name of a namespace or of a lease: 1 to 128 of `A-Z a-z 0-9 . _ -`.
///
/// Names compare byte by byte, without normalisation, so a name has only one spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks `text` without allocating a [`Name`].
    ///
    /// # Errors
    ///
    /// [`NameError`], as for parsing.
    pub fn check(text: &str) -> Result<(), NameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if text.is_empty() {
            Err(NameError::Empty)
        } else if text.len() > MAX_NAME_LEN {
            Err(NameError::TooLong { len: text.len() })
        } else if let Some(character) = text.chars().find(|&c| !allowed(c)) {
            let name = text.into();
            Err(NameError::Character { name, character })
        } else if text == "." || text == ".." {
            // URL libraries resolve these as path segments before they send a request, so no
            // request could name such a lease.
            Err(NameError::Dots { name: text.into() })
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::check(text)?;
        Ok(Self(text.into()))
    }
}

/// The reason why a text is not a name. The caller provided the text; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text is empty.
    #[error("a name must have 1 to {MAX_NAME_LEN} characters and this one is empty")]
    Empty,
    /// The text has more than [`MAX_NAME_LEN`] bytes.
    #[error("a name must have 1 to {MAX_NAME_LEN} characters and this one has {len}")]
    TooLong {
        /// The length of the text, in bytes.
        len: usize,
    },
    /// The text contains a character outside `A-Za-z0-9._-`.
    #[error("name {name:?} has {character:?}, only A-Z a-z 0-9 . _ - are allowed")]
    Character {
        /// The given text.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
    /// The text is `.` or `..`, which have a special meaning in the path of a URL.
    #[error("name {name:?} means a step in a URL's path, give it another character")]
    Dots {
        /// The given text.
        name: String,
    },
}

/// The full name of an election, `namespace/name`. The namespace of a name without one is
/// `default`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElectionName {
    /// The namespace of the election.
    pub namespace: Name,
    /// The name of the election in its namespace, which is also the name of its lease.
    pub name: Name,
}

impl ElectionName {
    /// The namespace of an election whose name contains none.
    pub const DEFAULT_NAMESPACE: &str = "default";
}

impl fmt::Display for ElectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for ElectionName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (namespace, name) = text
            .split_once('/')
            .unwrap_or((Self::DEFAULT_NAMESPACE, text));
        Ok(Self {
            namespace: namespace.parse()?,
            name: name.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_name_is_up_to_128_plain_characters() {
        for good in ["a", "A-z.0_9", &"x".repeat(128), "..."] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            &"x".repeat(129),
            "a/b",
            "a b",
            "é",
            "a\0",
            "%41",
            ".",
            "..",
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_error_quotes_the_refused_name() {
        let error = "top secret".parse::<Name>().unwrap_err().to_string();
        assert!(
            error.contains("\"top secret\"") && error.contains("' '"),
            "{error}"
        );
    }

    #[test]
    fn an_election_without_a_namespace_is_in_default() {
        let short: ElectionName = "nightly".parse().unwrap();
        assert_eq!(short.to_string(), "default/nightly");
        let full: ElectionName = "billing/nightly".parse().unwrap();
        assert_eq!(
            (full.namespace.as_str(), full.name.as_str()),
            ("billing", "nightly")
        );
        for bad in ["/x", "x/", "a/b/c", ""] {
            assert!(bad.parse::<ElectionName>().is_err(), "{bad:?}");
        }
    }
}
