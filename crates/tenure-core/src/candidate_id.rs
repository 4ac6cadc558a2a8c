//! The ids of candidates.

use alloc::string::ToString as _;
use core::fmt;
use core::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{InlineStr, NodeId};

/// The longest candidate id, in bytes. Most host names fit, together with a process id and a random
/// suffix. The limit bounds the memory of every held lease.
pub const MAX_CANDIDATE_ID_LEN: usize = 256;

/// The public id of a candidate: 1 to 256 visible ASCII characters, no spaces.
///
/// It should be unique for each start of a process, so that readers can distinguish two processes
/// on one host. It proves nothing: the proof of holding a lease is the
/// [`LeaseId`](crate::lease::LeaseId).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(InlineStr);

impl CandidateId {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Serialize for CandidateId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_str().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CandidateId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for CandidateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CandidateId {
    type Err = CandidateIdError;

    // Only visible ASCII is allowed, because the id is written without escapes to header values,
    // environment variables and tables.
    fn from_str(text: &str) -> Result<Self, CandidateIdError> {
        if text.is_empty() || text.len() > MAX_CANDIDATE_ID_LEN {
            Err(CandidateIdError::Length { len: text.len() })
        } else if let Some(character) = text.chars().find(|c| !c.is_ascii_graphic()) {
            Err(CandidateIdError::Character { character })
        } else {
            Ok(Self(InlineStr::of([text])))
        }
    }
}

/// Converts the node id of a group's member to its candidate id.
impl From<NodeId> for CandidateId {
    fn from(node: NodeId) -> Self {
        Self(InlineStr::of([&node.to_string()]))
    }
}

/// The reason why a text is not a candidate id. The caller provided the text; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CandidateIdError {
    /// The text is empty or longer than [`MAX_CANDIDATE_ID_LEN`].
    #[error(
        "a candidate id must have 1 to {MAX_CANDIDATE_ID_LEN} characters and this one has {len}"
    )]
    Length {
        /// The length of the text, in bytes.
        len: usize,
    },
    /// The text contains a space, a control character or a character outside ASCII.
    #[error("a candidate id must be visible ASCII without spaces and this one has {character:?}")]
    Character {
        /// The first character that is not allowed.
        character: char,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_id_is_visible_ascii() {
        assert!("web-1.example:8080/7f3a".parse::<CandidateId>().is_ok());
        assert!("x".repeat(256).parse::<CandidateId>().is_ok());
        for bad in ["", "a b", "a\n", "ä", &"x".repeat(257)] {
            assert!(bad.parse::<CandidateId>().is_err(), "{bad:?}");
        }
    }
}
