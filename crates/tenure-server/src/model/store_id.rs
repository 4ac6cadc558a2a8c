//! The id of a store.

use serde::{Deserialize, Serialize};
use tenure_core::Random;

/// The id of a store: 128 random bits as 32 hexadecimal digits. It is drawn when the data directory
/// is created, and backups keep it. A store in memory has a new one at each start.
///
/// Candidates with a fallback compare it: two members that count the leases of two stores could
/// both lead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct StoreId(String);

impl StoreId {
    /// Draws a new id.
    pub(crate) fn random(random: &mut dyn Random) -> Self {
        Self(format!(
            "{:016x}{:016x}",
            random.next_u64(),
            random.next_u64()
        ))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for StoreId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.len() == 32 && text.bytes().all(is_digit) {
            true => Ok(Self(text)),
            false => Err("not the id of a store"),
        }
    }
}
