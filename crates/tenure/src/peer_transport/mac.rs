//! Authentication of members by a shared key.

use std::fmt;
use std::fmt::Write as _;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

/// The header with the MAC of a request or an answer.
pub(super) const MAC_HEADER: &str = "tenure-mac";

/// The shortest length of a key, which is long enough against guessing.
pub(super) const MIN_KEY_BYTES: usize = 16;

/// The key that the members of a group share. A holder of the key can vote, and be elected.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerKey(Vec<u8>);

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
        Ok(Self(bytes))
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

/// Authenticates messages by HMAC-SHA256 in hexadecimal digits.
#[derive(Debug)]
pub(crate) struct Mac(Option<hmac::Key>);

impl Mac {
    /// Creates an authenticator with this key. Without a key nothing is authenticated: **any
    /// process that reaches this member can vote, and be elected.** Use that only in a trusted
    /// network, and only if the configuration explicitly requests it.
    pub(crate) fn new(key: Option<&PeerKey>) -> Self {
        Self(key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, &key.0)))
    }

    /// Computes the MAC of a request.
    pub(super) fn of_request(&self, path: &str, body: &[u8]) -> Option<String> {
        self.compute(&["request", "POST", path], body)
    }

    /// Computes the MAC of an answer. It is valid only for this request, because no other request
    /// has the same MAC: a message contains the number of its sender's process and a number of its
    /// own.
    pub(super) fn of_answer(&self, request: &str, status: u16, body: &[u8]) -> Option<String> {
        self.compute(&["answer", request, &status.to_string()], body)
    }

    /// Returns whether a MAC equals the `expected` one. If no MAC is expected, there must be no
    /// MAC.
    pub(super) fn is_good(expected: Option<&str>, mac: Option<&str>) -> bool {
        match (expected, mac) {
            (None, None) => true,
            // The comparison takes constant time, so it does not reveal how much of a wrong MAC was
            // correct.
            (Some(expected), Some(mac)) => {
                verify_slices_are_equal(expected.as_bytes(), mac.as_bytes()).is_ok()
            }
            _ => false,
        }
    }

    /// Computes the MAC of the words and the body. No word contains a line feed, so different
    /// contents never result in the same input.
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
