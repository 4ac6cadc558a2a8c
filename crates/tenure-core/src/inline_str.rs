//! Text that never changes, and is usually short.

use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

/// Longest text that stands in the value itself, in bytes: what fits into four words beside its length.
/// Most names of leases with their namespaces are shorter, and most candidate ids.
const SHORT: usize = 30;

/// Text that never changes. A short one stands where the value stands, so that reading it is no further
/// visit to memory: a store has a million of these, and hardly any is in the processor's cache.
#[derive(Clone)]
pub struct InlineStr(Place);

#[derive(Clone)]
enum Place {
    Here { len: u8, bytes: [u8; SHORT] },
    There(Arc<str>),
}

impl InlineStr {
    /// These parts, one after the other.
    #[must_use]
    pub fn of<const N: usize>(parts: [&str; N]) -> Self {
        let mut bytes = [0; SHORT];
        let mut len = 0;
        for part in parts {
            let Some(room) = bytes.get_mut(len..len + part.len()) else {
                return Self(Place::There(parts.concat().into()));
            };
            room.copy_from_slice(part.as_bytes());
            len += part.len();
        }
        // At most `SHORT`.
        let len = len as u8;
        Self(Place::Here { len, bytes })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // It was put together from whole texts.
            Place::Here { .. } => str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Place::There(text) => text,
        }
    }

    /// The text's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Place::Here { len, bytes } => &bytes[..usize::from(*len)],
            Place::There(text) => text.as_bytes(),
        }
    }
}

impl PartialEq for InlineStr {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for InlineStr {}

impl PartialOrd for InlineStr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InlineStr {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for InlineStr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for InlineStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for InlineStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    #[test]
    fn short_text_takes_no_room_elsewhere() {
        assert_eq!(size_of::<InlineStr>(), 32);
        let is_here = |len| matches!(InlineStr::of([&"x".repeat(len)]).0, Place::Here { .. });
        assert!(is_here(0) && is_here(SHORT) && !is_here(SHORT + 1));
    }

    proptest! {
        #[test]
        fn it_is_as_its_parts_together_whatever_their_lengths(
            parts in prop::array::uniform3(".{0,30}"), other in ".{0,60}",
        ) {
            let [a, b, c] = parts.each_ref().map(|part| part.as_str());
            let whole = format!("{a}{b}{c}");
            let (text, other_text) = (InlineStr::of([a, b, c]), InlineStr::of([&other]));
            prop_assert_eq!(text.as_str(), whole.as_str());
            prop_assert_eq!(&text, &InlineStr::of([&whole]));
            prop_assert_eq!(text.cmp(&other_text), whole.cmp(&other));
            prop_assert_eq!(format!("{text} {text:?}"), format!("{whole} {whole:?}"));
        }
    }
}
