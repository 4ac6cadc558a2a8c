//! Lease ids: the secrets that prove the ownership of a lease.

use core::fmt;
use core::str::FromStr;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, Serializer};
use uuid::{Builder, Uuid};

/// A lease id: a UUID chosen by the candidate. It is the secret that proves the ownership of the
/// lease.
///
/// The candidate chooses it before its first request, so that it may repeat a request whose answer
/// was lost. Ids compare as numbers: the case, hyphens and braces of the text do not matter. An id
/// never appears in logs: `Debug` omits it, and there is no `Display`. Only [`LeaseId::to_wire`]
/// returns the text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(Uuid);

impl LeaseId {
    /// Creates a version 4 UUID from 122 of these bits.
    #[must_use]
    pub const fn from_random_bits(high: u64, low: u64) -> Self {
        let bits = ((high as u128) << 64) | low as u128;
        Self(Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// Returns the id as 16 bytes, for the disk of a store.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// Creates the id from the bytes of [`LeaseId::to_bytes`].
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the id as text, in lower case with hyphens. Only the holder may see it.
    #[must_use]
    pub const fn to_wire(self) -> impl fmt::Display {
        self.0.hyphenated()
    }
}

/// The form is the 16 bytes, for the disk of a store. A form that people read, such as JSON, is an error:
/// the id is a secret.
impl Serialize for LeaseId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return Err(S::Error::custom("a lease id is a secret"));
        }
        self.to_bytes().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LeaseId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Deserialize::deserialize(deserializer).map(Self::from_bytes)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(secret)")
    }
}

impl FromStr for LeaseId {
    type Err = LeaseIdError;

    fn from_str(text: &str) -> Result<Self, LeaseIdError> {
        let uuid = Uuid::try_parse(text).map_err(|_| LeaseIdError)?;
        if uuid.is_nil() {
            Err(LeaseIdError)
        } else {
            Ok(Self(uuid))
        }
    }
}

/// The text is not a UUID, or it is the nil UUID (an unset variable). The message does not quote
/// the text, because it may be a mistyped secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a lease id must be a UUID such as 6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10, and not the nil UUID"
)]
pub struct LeaseIdError;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    #[test]
    fn all_spellings_of_a_uuid_are_the_same_id() {
        let id: LeaseId = "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10".parse().unwrap();
        for spelling in [
            "6F1C9A64-3A52-4C0E-9D43-0D7F5B1F2A10",
            "6f1c9a643a524c0e9d430d7f5b1f2a10",
            "{6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10}",
        ] {
            assert_eq!(spelling.parse::<LeaseId>().unwrap(), id);
        }
        assert_eq!(LeaseId::from_bytes(id.to_bytes()), id);
        assert_eq!(
            id.to_wire().to_string(),
            "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10"
        );
    }

    #[test]
    fn an_error_does_not_quote_the_refused_id() {
        for bad in [
            "",
            "x",
            "00000000-0000-0000-0000-000000000000",
            "6f1c9a64-3a52",
        ] {
            let error = bad.parse::<LeaseId>().unwrap_err().to_string();
            assert!(!error.contains("3a52\"") && error.contains("UUID"));
        }
    }

    #[test]
    fn debug_omits_the_secret() {
        let id = LeaseId::from_random_bits(1, 2);
        assert_eq!(format!("{id:?}"), "LeaseId(secret)");
    }

    #[test]
    fn an_id_has_no_form_that_people_read() {
        let error = serde_json::to_string(&LeaseId::from_random_bits(1, 2)).unwrap_err();
        assert_eq!(error.to_string(), "a lease id is a secret");
    }
}
