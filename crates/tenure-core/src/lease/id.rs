//! The secret proof of holding a lease.

use core::fmt;
use core::str::FromStr;

use uuid::{Builder, Uuid};

/// A lease id: a UUID that its candidate chose, and the secret proof of holding the lease.
///
/// The candidate chooses it before it asks, so that asking again after a lost answer is harmless.
/// It is compared as a number: case, hyphens and braces of the text don't matter. It never shows
/// in logs: `Debug` leaves it out, and there is no `Display`; [`LeaseId::to_wire`] is the one way
/// to the text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(Uuid);

impl LeaseId {
    /// A version 4 UUID of 122 of these bits.
    #[must_use]
    pub const fn from_random_bits(high: u64, low: u64) -> Self {
        let bits = ((high as u128) << 64) | low as u128;
        Self(Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// The id as 16 bytes, for a store's disk.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// The id that [`LeaseId::to_bytes`] gave.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The id as text, lower case with hyphens, for its holder's eyes only.
    #[must_use]
    pub const fn to_wire(self) -> impl fmt::Display {
        self.0.hyphenated()
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

/// The text is no UUID, or the nil UUID that an unset variable leaves. The text is not told back,
/// because it may be a mistyped secret.
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
    fn spellings_of_one_uuid_are_one_id() {
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
    fn what_is_no_uuid_is_refused_without_telling_it_back() {
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
    fn debug_keeps_the_secret() {
        let id = LeaseId::from_random_bits(1, 2);
        assert_eq!(format!("{id:?}"), "LeaseId(secret)");
    }
}
