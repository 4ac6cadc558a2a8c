//! Authentication of members: those that have the key.

use std::fmt;
use std::fmt::Write as _;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

/// The header with the MAC of a request or an answer.
pub(super) const MAC_HEADER: &str = "tenure-mac";

/// Fewest bytes of a key: too many to guess.
pub(super) const MIN_KEY_BYTES: usize = 16;

/// The key that the members of a group share. A holder of the key can vote, and be elected.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerKey(Vec<u8>);

impl PeerKey {
    /// This key. It should be random, for instance from `openssl rand -base64 32`.
    ///
    /// # Errors
    ///
    /// [`PeerKeyError`] if it has fewer than 16 bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, PeerKeyError> {
        let bytes = bytes.into();
        if bytes.len() < MIN_KEY_BYTES {
            return Err(PeerKeyError { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The key is too short. The operator must make a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has {bytes} bytes and must have at least {MIN_KEY_BYTES}")]
pub struct PeerKeyError {
    /// The length of the key that was given.
    pub bytes: usize,
}

/// Authenticates messages: HMAC-SHA256, in hexadecimal digits.
#[derive(Debug)]
pub(crate) struct Mac(Option<hmac::Key>);

impl Mac {
    /// Authenticates with this key. Without one it authenticates nothing: **any process that reaches
    /// this member can vote, and be elected.** Only for a network in which that is wanted, and only
    /// when the configuration asks for it by name.
    pub(crate) fn new(key: Option<&PeerKey>) -> Self {
        Self(key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, &key.0)))
    }

    /// The MAC of a request.
    pub(super) fn of_request(&self, path: &str, body: &[u8]) -> Option<String> {
        self.compute(&["request", "POST", path], body)
    }

    /// The MAC of an answer. It is good for this one request, whose MAC no other request has: a
    /// message names its sender's process and has a number.
    pub(super) fn of_answer(&self, request: &str, status: u16, body: &[u8]) -> Option<String> {
        self.compute(&["answer", request, &status.to_string()], body)
    }

    /// Whether a MAC is the `expected` one; where none is expected, there must be none.
    pub(super) fn is_good(expected: Option<&str>, mac: Option<&str>) -> bool {
        match (expected, mac) {
            (None, None) => true,
            // In constant time: the comparison must not reveal how much of a wrong MAC was right.
            (Some(expected), Some(mac)) => {
                verify_slices_are_equal(expected.as_bytes(), mac.as_bytes()).is_ok()
            }
            _ => false,
        }
    }

    /// None of the words has a line feed, so two different contents never give the same input.
    fn compute(&self, words: &[&str], body: &[u8]) -> Option<String> {
        let mut context = hmac::Context::with_key(self.0.as_ref()?);
        for word in words {
            context.update(word.as_bytes());
            context.update(b"\n");
        }
        context.update(body);
        Some(hex(context.sign().as_ref()))
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
