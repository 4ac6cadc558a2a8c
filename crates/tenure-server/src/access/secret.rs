//! The text of a token, and the parts of it that the access file contains: the id and the hash.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

const START: &str = "tnr1_";
const ID_LEN: usize = 8;
const RANDOM_LEN: usize = 43;
const CHECKSUM_LEN: usize = 6;
const LEN: usize = START.len() + ID_LEN + 1 + RANDOM_LEN + 1 + CHECKSUM_LEN;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The alphabet of ids. It has no capitals, so that people can read ids aloud.
const BASE36: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// A token: `tnr1_<id>_<secret>_<checksum>`.
///
/// The id finds the entry in the access file. The secret has 43 characters of base 62, which is 256
/// random bits. Prefix and checksum let scanners for secrets recognise a token, and let people
/// notice a typing error.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The part of a token that identifies it. The part is public.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretId([u8; ID_LEN]);

/// The SHA-256 of a token.
///
/// A slow hash would protect passwords, which people choose. A token has 256 random bits, so a fast
/// hash is as safe, and the store computes the hash for each connection.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretHash([u8; 32]);

/// The reason why a text is not a token. It does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The text does not have the form of a token.
    #[error("a token has {LEN} characters, {START}ID_SECRET_CHECKSUM, and this text does not")]
    Form,
    /// The checksum is wrong.
    #[error("the checksum of the token is wrong: a character is missing or mistyped")]
    Checksum,
}

impl Secret {
    /// Creates a token with 256 random bits.
    ///
    /// # Panics
    ///
    /// The operating system has no random bits.
    #[must_use]
    pub fn generate() -> Self {
        let id = random_text::<ID_LEN>(BASE36);
        let random = random_secret();
        let start = format!("{START}{id}_{random}");
        let checksum = checksum(&start);
        Self(format!("{start}_{checksum}"))
    }

    /// Returns the token as text, to be written into a file that only its owner may read.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the id of the token.
    #[must_use]
    pub fn id(&self) -> SecretId {
        let (id, _) = split(&self.0).expect("the form was checked");
        id
    }

    /// Returns the hash of the token.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let (_, start) = split(text).ok_or(SecretError::Form)?;
        if !text.ends_with(&checksum(start)) {
            return Err(SecretError::Checksum);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl SecretId {
    /// Returns the id of a presented token, if it has the form of a token.
    pub(crate) fn of_token(token: &str) -> Option<Self> {
        split(token).map(|(id, _)| id)
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for SecretId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = text.as_bytes().try_into().ok();
        bytes
            .filter(|bytes: &[u8; ID_LEN]| bytes.iter().all(|byte| BASE36.contains(byte)))
            .map(Self)
            .ok_or_else(|| format!("an id has {ID_LEN} characters of a-z and 0-9"))
    }
}

impl fmt::Display for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl SecretHash {
    /// A hash that no known token has, used for the comparison if there is no entry.
    pub(crate) const NONE: Self = Self([0; 32]);

    /// Returns the hash of a presented token.
    pub(crate) fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }

    /// Compares the hashes in a time that does not depend on the bytes.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

impl FromStr for SecretHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a SHA-256 has 64 characters of 0-9 and a-f".to_owned();
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.bytes().all(is_hex) {
            return Err(wrong());
        }
        let mut hash = [0; 32];
        for (index, byte) in hash.iter_mut().enumerate() {
            let digits = &text[2 * index..2 * index + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(hash))
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

/// Returns the id of a token, and the token without its checksum.
fn split(token: &str) -> Option<(SecretId, &str)> {
    if token.len() != LEN || !token.is_ascii() {
        return None;
    }
    let (start, checksum) = token.rsplit_once('_')?;
    let (id, random) = start.strip_prefix(START)?.split_once('_')?;
    let is_token = checksum.len() == CHECKSUM_LEN && random.len() == RANDOM_LEN;
    is_token.then_some((id.parse().ok()?, start))
}

fn checksum(start: &str) -> String {
    let mut rest = crc32fast::hash(start.as_bytes());
    let mut digits = [b'0'; CHECKSUM_LEN];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits.iter().copied().map(char::from).collect()
}

/// Returns 256 random bits as text.
pub(super) fn random_secret() -> String {
    random_text::<RANDOM_LEN>(BASE62)
}

/// Returns random characters, all equally likely.
fn random_text<const N: usize>(alphabet: &[u8]) -> String {
    // A remainder would favour the first characters, so bytes above the last multiple are not used.
    let limit = 256 - 256 % alphabet.len();
    let mut text = String::with_capacity(N);
    while text.len() < N {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("no random bits: {error}"));
        let usable = bytes.iter().map(|byte| usize::from(*byte));
        let usable = usable.filter(|byte| *byte < limit);
        let wanted = N - text.len();
        text.extend(
            usable
                .map(|byte| char::from(alphabet[byte % alphabet.len()]))
                .take(wanted),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_an_id_a_secret_and_a_checksum() {
        let token = Secret::generate();
        let text = token.reveal();
        assert_eq!(text.len(), LEN);
        assert!(text.starts_with("tnr1_"), "{text}");
        assert_eq!(text.parse::<Secret>().unwrap(), token);
        assert_eq!(SecretId::of_token(text), Some(token.id()));
        assert_ne!(Secret::generate(), token);
        assert_ne!(Secret::generate().id(), token.id());
    }

    #[test]
    fn a_mistyped_token_is_noticed() {
        let token = Secret::generate().reveal().to_owned();
        let changed = |at: usize, to: &str| {
            let mut text = token.clone();
            text.replace_range(at..=at, to);
            text.parse::<Secret>()
        };
        let other = if &token[20..=20] == "x" { "y" } else { "x" };
        assert_eq!(changed(20, other), Err(SecretError::Checksum));
        for (at, to) in [(0, "T"), (4, "-"), (7, "A"), (13, "-"), (20, "é")] {
            assert_eq!(changed(at, to), Err(SecretError::Form), "{at} {to}");
        }
        assert_eq!("".parse::<Secret>(), Err(SecretError::Form));
        assert_eq!(token[1..].parse::<Secret>(), Err(SecretError::Form));
    }

    #[test]
    fn a_hash_is_the_sha_256_of_the_whole_token() {
        let hash = SecretHash::of("abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), hex);
        assert!(hash.matches(&hex.parse().unwrap()));
        assert!(!hash.matches(&SecretHash::of("abd")) && !hash.matches(&SecretHash::NONE));
        for wrong in ["", &hex[1..], &hex.to_uppercase(), &format!("{hex}0")] {
            assert!(wrong.parse::<SecretHash>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_debug_text_has_a_secret() {
        let token = Secret::generate();
        let shown = format!("{token:?} {:?}", token.hash());
        assert_eq!(shown, "Secret(..) SecretHash(..)");
    }
}
