//! The text of PEM files (RFC 7468), read strictly.
//!
//! A lenient parser skips each block that it does not know, and takes a marker line with a blank
//! before it for a comment. A trust anchor that is missing for such a reason is noticed much later,
//! when a peer with a good certificate is refused. So each block and each line that looks like a part
//! of a block must be read here, or the whole text is refused.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The label of a certificate.
const CERTIFICATE: &str = "CERTIFICATE";

/// The labels of the private keys that can be used: PKCS #8, PKCS #1 and SEC 1.
const KEYS: [&str; 3] = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];

/// The label of a key that needs a password.
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";

/// The label of a block that openssl writes before a key. The key contains the same parameters.
const PARAMETERS: &str = "EC PARAMETERS";

/// The beginnings of labels that make a line look like a damaged marker.
const LABELS: [&str; 9] = [
    "CERTIFICATE",
    "TRUSTED CERTIFICATE",
    "X509 ",
    "PRIVATE KEY",
    "ENCRYPTED PRIVATE",
    "RSA PRIVATE",
    "EC PRIVATE",
    "EC PARAMETERS",
    "PUBLIC KEY",
];

/// The length of a full line of base64 in PEM. A longer or equal line outside of a block is a part of
/// a block that lost its marker.
const FULL_LINE: usize = 64;

/// The byte order mark of UTF-8. Editors of Windows write it at the start of a file, so it is in the
/// middle of files that were put together.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A block of a PEM text.
#[derive(Clone, PartialEq, Eq)]
pub struct Block<'a> {
    /// The label, such as `CERTIFICATE`.
    pub label: &'a str,
    /// The line of the marker BEGIN, counted from 1.
    pub line: usize,
    /// The block with both of its markers.
    pub text: &'a [u8],
    /// The decoded content.
    pub der: Vec<u8>,
}

/// Omits the content, which may be a key.
impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("label", &self.label)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// The reason why a PEM text can't be used, with the line. It contains no part of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PemError(String);

/// Returns the certificates of authorities in a text that contains nothing else. There is at least
/// one.
///
/// # Errors
///
/// [`PemError`].
pub fn authorities(text: &[u8]) -> Result<Vec<Block<'_>>, PemError> {
    let certificates = certificates(text)?;
    if certificates.is_empty() {
        return Err(PemError(
            "there is no certificate in it; write PEM with the certificates of the authorities, \
             which begins with -----BEGIN CERTIFICATE-----"
                .into(),
        ));
    }
    Ok(certificates)
}

/// Returns the certificates in a text without other blocks. There may be none: a directory of
/// authorities may also have other files.
///
/// # Errors
///
/// [`PemError`].
pub fn certificates(text: &[u8]) -> Result<Vec<Block<'_>>, PemError> {
    read(text, &[CERTIFICATE])
}

/// Returns the certificates of a server or a client, its own first. The text may also contain the
/// key. There is at least one certificate.
///
/// # Errors
///
/// [`PemError`].
pub fn chain(text: &[u8]) -> Result<Vec<Block<'_>>, PemError> {
    let mut chain = credential(text)?;
    chain.retain(|block| block.label == CERTIFICATE);
    if chain.is_empty() {
        return Err(PemError(
            "there is no certificate in it; it must be PEM, with lines -----BEGIN \
             CERTIFICATE-----, the own certificate first"
                .into(),
        ));
    }
    Ok(chain)
}

/// Returns the only private key in a text, which may also contain certificates.
///
/// # Errors
///
/// [`PemError`].
pub fn key(text: &[u8]) -> Result<Block<'_>, PemError> {
    let mut keys = credential(text)?;
    keys.retain(|block| KEYS.contains(&block.label) || block.label == ENCRYPTED);
    let count = keys.len();
    match keys.pop() {
        Some(key) if key.label == ENCRYPTED || has_password(key.text) => Err(PemError(
            "the key is encrypted; decrypt it (openssl pkey -in OLD -out NEW)".into(),
        )),
        Some(key) if count == 1 => Ok(key),
        Some(_) => Err(PemError(format!(
            "there are {count} keys in it; keep only one"
        ))),
        None => Err(PemError(
            "there is no private key in it; it must be PEM, with a line -----BEGIN PRIVATE \
             KEY-----, RSA PRIVATE KEY or EC PRIVATE KEY"
                .into(),
        )),
    }
}

/// Reads the blocks of a file with a certificate, its key, or both.
fn credential(text: &[u8]) -> Result<Vec<Block<'_>>, PemError> {
    let [pkcs8, pkcs1, sec1] = KEYS;
    let labels = [CERTIFICATE, pkcs8, pkcs1, sec1, ENCRYPTED, PARAMETERS];
    read(text, &labels)
}

/// Reads all blocks of a text, which may have these labels only.
fn read<'a>(text: &'a [u8], labels: &[&str]) -> Result<Vec<Block<'a>>, PemError> {
    let wrong = |line: usize, reason: String| PemError(format!("line {line}: {reason}"));
    if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
        return Err(wrong(1, "the text is UTF-16; save it as UTF-8".into()));
    }
    let mut blocks = Vec::new();
    let mut open: Option<(&str, usize, usize, Vec<u8>)> = None;
    for (number, start, line) in Lines::new(text) {
        let Some((label, begin, from, mut base64)) = open.take() else {
            let unmarked = without_marks(line);
            if let Some(label) = label(unmarked, b"-----BEGIN ") {
                if !labels.contains(&label) {
                    let known = labels.join(", ");
                    let reason = format!("a block {label} is not used; write only blocks {known}");
                    return Err(wrong(number, reason));
                }
                let from = start + line.len() - unmarked.len();
                open = Some((label, number, from, Vec::new()));
            } else if is_like_marker(unmarked) {
                let reason = "a line -----BEGIN ...----- or -----END ...----- is malformed, is not \
                              at the start of its line, or has no counterpart; copy the file again";
                return Err(wrong(number, reason.into()));
            } else if line.len() >= FULL_LINE && line.iter().all(|byte| digit(*byte).is_some()) {
                let reason = "base64 without a line -----BEGIN ...----- before it; copy the file \
                              again";
                return Err(wrong(number, reason.into()));
            }
            continue;
        };
        if self::label(line, b"-----END ") == Some(label) {
            let text = &text[from..start + line.len()];
            let der = if has_password(text) {
                Some(Vec::new())
            } else {
                decoded(&base64)
            };
            let der = der.ok_or_else(|| {
                let reason = "the text between BEGIN and END is not base64; copy the file again";
                wrong(begin, reason.into())
            })?;
            let line = begin;
            blocks.push(Block {
                label,
                line,
                text,
                der,
            });
        } else if is_like_marker(line) {
            let reason = format!(
                "the block of line {begin} has no line -----END {label}-----; copy the file again"
            );
            return Err(wrong(number, reason));
        } else {
            base64.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
            open = Some((label, begin, from, base64));
        }
    }
    match open {
        None => Ok(blocks),
        Some((label, begin, ..)) => {
            let reason =
                format!("the block has no line -----END {label}-----; copy the file again");
            Err(wrong(begin, reason))
        }
    }
}

/// The lines of a text, each with its number and its offset. They end with LF, CR LF or CR.
struct Lines<'a> {
    text: &'a [u8],
    number: usize,
    offset: usize,
}

impl<'a> Lines<'a> {
    const fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            number: 0,
            offset: 0,
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, usize, &'a [u8]);

    /// Returns a line without the blanks at its end.
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self
            .text
            .get(self.offset..)
            .filter(|rest| !rest.is_empty())?;
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let len = rest.iter().position(is_end).unwrap_or(rest.len());
        let start = self.offset;
        self.number += 1;
        self.offset += len
            + if rest[len..].starts_with(b"\r\n") {
                2
            } else {
                1
            };
        Some((self.number, start, rest[..len].trim_ascii_end()))
    }
}

/// Returns the label of a marker line, if the line is one.
fn label<'a>(line: &'a [u8], marker: &[u8]) -> Option<&'a str> {
    let label = line.strip_prefix(marker)?.strip_suffix(b"-----")?;
    let is_valid = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ';
    (!label.is_empty() && label.iter().all(is_valid))
        .then(|| core::str::from_utf8(label).ok())
        .flatten()
}

/// Returns whether a line seems to be a marker, whatever is wrong with it. A comment such as `end of
/// the list` is none.
fn is_like_marker(line: &[u8]) -> bool {
    if line.starts_with(b"-----BEGIN ") || line.starts_with(b"-----END ") {
        return true;
    }
    let upper = String::from_utf8_lossy(line).to_ascii_uppercase();
    ["BEGIN", "END"].iter().any(|word| {
        upper.match_indices(word).any(|(at, _)| {
            let rest = upper[at + word.len()..].trim_start();
            LABELS.iter().any(|label| rest.starts_with(label))
        })
    })
}

/// Returns whether the block is a key that needs a password, in the form before PKCS #8.
fn has_password(block: &[u8]) -> bool {
    let header = b"Proc-Type: 4,ENCRYPTED";
    block.windows(header.len()).any(|window| window == header)
}

fn without_marks(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_prefix(MARK) {
        line = rest;
    }
    line
}

/// Returns the value of a digit of base64.
const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Decodes base64 with its padding; `None` if it is not valid, or empty.
fn decoded(base64: &[u8]) -> Option<Vec<u8>> {
    let digits = base64
        .strip_suffix(b"==")
        .or_else(|| base64.strip_suffix(b"="))
        .unwrap_or(base64);
    if base64.is_empty() || !base64.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(base64.len() / 4 * 3);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for byte in group {
            bits = bits << 6 | u32::from(digit(*byte)?);
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
