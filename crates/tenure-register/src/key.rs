//! The names of registers and files.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tenure_core::{Name, NameError};

/// The name of a register or of a file: one or more [names](Name) with `/` between them, for
/// example `elections/billing/nightly`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterKey(Arc<str>);

impl RegisterKey {
    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the parts of the key.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Returns whether the first parts of this key are those of `folder`, and there is one more.
    #[must_use]
    pub fn is_in(&self, folder: &Self) -> bool {
        let rest = self.0.strip_prefix(folder.as_str());
        rest.is_some_and(|rest| rest.starts_with('/'))
    }
}

impl FromStr for RegisterKey {
    type Err = RegisterKeyError;

    fn from_str(text: &str) -> Result<Self, RegisterKeyError> {
        for part in text.split('/') {
            Name::check(part).map_err(|reason| RegisterKeyError {
                key: text.to_owned(),
                reason,
            })?;
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for RegisterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason why a text is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {key:?} is not names with / between them: {reason}")]
pub struct RegisterKeyError {
    key: String,
    #[source]
    reason: NameError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_names_with_slashes_between_them() {
        for good in ["a", "a/b", "A.b_c-9/x", "elections/billing/nightly"] {
            assert_eq!(good.parse::<RegisterKey>().unwrap().as_str(), good);
        }
        for bad in [
            "", "/", "a/", "/a", "a//b", "a/../b", ".", "a b", "ä", "a\0",
        ] {
            assert!(bad.parse::<RegisterKey>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_key_is_in_a_folder_if_it_has_more_parts() {
        let key = |text: &str| text.parse::<RegisterKey>().unwrap();
        assert!(key("a/b").is_in(&key("a")));
        assert!(key("a/b/c").is_in(&key("a")));
        for outside in ["a", "ab", "ab/c", "b/a"] {
            assert!(!key(outside).is_in(&key("a")), "{outside}");
        }
    }
}
