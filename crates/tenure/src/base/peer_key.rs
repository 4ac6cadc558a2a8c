//! The key that members share.

use std::fmt;
use std::path::PathBuf;

/// The shortest length of a key, which is long enough against guessing.
const MIN_KEY_BYTES: usize = 16;

/// The key that the members of a group share. A holder of the key can vote, and be elected.
///
/// During the replacement of a key, members have two keys: they send with the first and accept
/// both.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerKey {
    /// The key to send with comes first. A second key is only accepted.
    pub(crate) keys: Vec<Vec<u8>>,
    /// The file that contains the key. It is read again while the member runs.
    pub(crate) file: Option<PathBuf>,
}

impl PeerKey {
    /// Creates a key. The bytes should be random, for instance from `openssl rand -base64 32`.
    ///
    /// # Errors
    ///
    /// [`PeerKeyError`] if it has fewer than 16 bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, PeerKeyError> {
        let bytes = bytes.into();
        if bytes.len() < MIN_KEY_BYTES {
            return Err(PeerKeyError { bytes: bytes.len() });
        }
        Ok(Self {
            keys: vec![bytes],
            file: None,
        })
    }

    /// Parses the contents of a key file. A text of two lines has two keys: a member sends with the
    /// first and accepts both. Anything else is one key.
    ///
    /// # Errors
    ///
    /// [`PeerKeyError`] if a key has fewer than 16 bytes.
    pub fn from_lines(bytes: &[u8]) -> Result<Self, PeerKeyError> {
        let lines = std::str::from_utf8(bytes).map(|text| text.trim().lines());
        let lines: Vec<&str> = lines.map(Iterator::collect).unwrap_or_default();
        let [first, second] = lines[..] else {
            return Self::new(bytes.trim_ascii());
        };
        let mut key = Self::new(first.trim())?;
        key.keys.extend(Self::new(second.trim())?.keys);
        Ok(key)
    }

    /// Sets the file that contains the key.
    #[cfg(feature = "config-file")]
    pub(crate) fn with_file(self, file: PathBuf) -> Self {
        Self {
            file: Some(file),
            ..self
        }
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The key is too short. The operator must create a longer key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has {bytes} bytes and must have at least {MIN_KEY_BYTES}")]
pub struct PeerKeyError {
    /// The length of the key that was given.
    pub bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "the old key of the group";
    const NEW: &str = "the new key of the group";

    #[test]
    fn two_lines_of_text_are_two_keys_and_anything_else_is_one() {
        let count = |bytes: &[u8]| PeerKey::from_lines(bytes).map(|key| key.keys.len());
        assert_eq!(count(format!("{OLD}\n").as_bytes()), Ok(1));
        assert_eq!(count(format!("{OLD}\r\n{NEW}\n").as_bytes()), Ok(2));
        assert_eq!(count(format!("{OLD}\n{OLD}\n{OLD}").as_bytes()), Ok(1));
        let binary = [0xff, b'\n'].repeat(16);
        assert_eq!(count(&binary), Ok(1));
        let short = PeerKey::from_lines(format!("{OLD}\nshort").as_bytes());
        assert_eq!(short, Err(PeerKeyError { bytes: 5 }));
    }
}
