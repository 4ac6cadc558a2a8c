//! The id of a store.

use tenure_core::Random;

/// The id of a store: 128 random bits as 32 hexadecimal digits. It is drawn when the data directory
/// is created, and backups keep it. A store in memory has a new one at each start.
///
/// Candidates with a fallback compare it: two members that count the leases of two stores could
/// both lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    /// Returns the id with this text, if the text is an id.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
