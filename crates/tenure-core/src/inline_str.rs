//! An immutable string that is stored inline if it is short.

use alloc::sync::Arc;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

/// The longest inline string, in bytes. It fits in four words together with its length and the
/// variant. Most lease names with their namespaces, and most candidate ids, are shorter.
const SHORT: usize = 30;

/// An immutable string. A short string is stored inline, so that reading it costs no further cache
/// miss: a store may hold a million of them, and few are in the processor's cache.
///
/// A string has only one representation: the unused bytes of an inline string are zero. So equality
/// of the representation is that of the text, but its order is not.
#[derive(Clone, PartialEq, Eq)]
pub struct InlineStr(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    Inline { len: u8, bytes: [u8; SHORT] },
    Heap(Arc<str>),
}

impl InlineStr {
    /// Creates the concatenation of `parts`.
    #[must_use]
    pub fn of<const N: usize>(parts: [&str; N]) -> Self {
        let mut bytes = [0; SHORT];
        let mut len = 0;
        for part in parts {
            let Some(room) = bytes.get_mut(len..len + part.len()) else {
                return Self(Repr::Heap(parts.concat().into()));
            };
            room.copy_from_slice(part.as_bytes());
            len += part.len();
        }
        // `len` is at most `SHORT`.
        let len = len as u8;
        Self(Repr::Inline { len, bytes })
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // The bytes are a concatenation of complete strings, so they are valid UTF-8.
            Repr::Inline { .. } => str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Repr::Heap(text) => text,
        }
    }

    /// Returns the bytes of the text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(text) => text.as_bytes(),
        }
    }
}

// Hash and order are those of the text, so that a string can be looked up by its text.
impl Borrow<str> for InlineStr {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Hash for InlineStr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

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
    fn a_short_string_is_stored_inline() {
        assert_eq!(size_of::<InlineStr>(), 32);
        let is_inline = |len| matches!(InlineStr::of([&"x".repeat(len)]).0, Repr::Inline { .. });
        assert!(is_inline(0) && is_inline(SHORT) && !is_inline(SHORT + 1));
    }

    proptest! {
        #[test]
        fn it_equals_the_concatenation_of_its_parts_for_every_length(
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
