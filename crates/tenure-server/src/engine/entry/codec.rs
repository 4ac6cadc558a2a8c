//! The bytes of values, and frames with a checksum around them.

use std::io::Write as _;
use std::mem;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::OpenError;

/// The reason why bytes are not the expected value.
pub(in crate::engine) type DecodeError = postcard::Error;

/// The number of bytes of a frame before its content: the length and the checksum of the content.
pub(in crate::engine) const FRAME: usize = 8;

/// The format of the files of a data directory that this version reads and writes.
const FORMAT: u32 = 1;

/// Appends a value.
pub(in crate::engine) fn put(to: &mut Vec<u8>, value: &impl Serialize) {
    let appended = postcard::to_extend(value, mem::take(to));
    // Only a sequence of unknown length has no form, and no value here has one.
    *to = appended.expect("a value with a form");
}

/// Reads the next value.
pub(in crate::engine) fn take<'a, T: Deserialize<'a>>(
    from: &mut &'a [u8],
) -> Result<T, DecodeError> {
    let (value, rest) = postcard::take_from_bytes(from)?;
    *from = rest;
    Ok(value)
}

/// Reads a value that has all of these bytes.
pub(in crate::engine) fn read<'a, T: Deserialize<'a>>(
    mut bytes: &'a [u8],
) -> Result<T, DecodeError> {
    let value = take(&mut bytes)?;
    match bytes.is_empty() {
        true => Ok(value),
        false => Err(DecodeError::DeserializeBadEncoding),
    }
}

/// Appends a frame with the content that `write` appends. Returns its checksum, which continues the
/// checksum `before` of another frame: frames in another order do not match.
pub(in crate::engine) fn put_frame(
    to: &mut Vec<u8>,
    before: u32,
    write: impl FnOnce(&mut Vec<u8>),
) -> u32 {
    let start = to.len() + FRAME;
    to.resize(start, 0);
    write(to);
    let (length, sum) = ((to.len() - start) as u32, checksum(before, &to[start..]));
    to[start - 8..start - 4].copy_from_slice(&length.to_le_bytes());
    to[start - 4..start].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// Returns the content of the frame at the beginning of these bytes, its checksum, and the bytes behind
/// it. Returns `None` if there is no frame that is right.
pub(in crate::engine) fn frame(bytes: &[u8], before: u32) -> Option<(&[u8], u32, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (content, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let sum = u32::from_le_bytes(*sum);
    // A power cut may leave zeros, and no content is empty.
    let is_right = !content.is_empty() && checksum(before, content) == sum;
    is_right.then_some((content, sum, rest))
}

/// Returns the length of the content of a frame that begins with these bytes.
pub(in crate::engine) fn frame_length(bytes: &[u8]) -> Option<u64> {
    let length = bytes.first_chunk().filter(|_| bytes.len() >= FRAME)?;
    Some(u32::from_le_bytes(*length).into())
}

/// Reads the only frame of these bytes.
pub(in crate::engine) fn only_frame(bytes: &[u8]) -> Option<&[u8]> {
    let (content, _, rest) = frame(bytes, 0)?;
    rest.is_empty().then_some(content)
}

fn checksum(before: u32, content: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new_with_initial(before);
    sum.update(content);
    sum.finalize()
}

/// Returns the first line of a file of this kind: its kind and its format.
pub(in crate::engine) fn format_line(kind: &str) -> Vec<u8> {
    let mut line = Vec::new();
    let _ = writeln!(line, "tenure {kind} {FORMAT}");
    line
}

/// Checks that a file of this kind begins with this line.
pub(in crate::engine) fn check_format(
    path: &Path,
    line: &[u8],
    kind: &str,
) -> Result<(), OpenError> {
    let format = str::from_utf8(line).ok().and_then(|line| {
        let line = line.strip_prefix("tenure ")?.strip_suffix('\n')?;
        line.strip_prefix(kind)?.strip_prefix(' ')?.parse().ok()
    });
    match format {
        Some(FORMAT) => Ok(()),
        Some(found) => Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            known: FORMAT,
        }),
        None => {
            let detail = format!("it does not begin like a {kind}");
            Err(OpenError::damaged(path, detail))
        }
    }
}

/// The greatest ratio of the lengths before and after a compression with LZ4.
const GREATEST_RATIO: usize = 255;

/// Returns the content of a block of LZ4 that follows the length of its content; `None` if it is
/// damaged.
pub(in crate::engine) fn decompressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let (len, block) = lz4_flex::block::uncompressed_size(bytes).ok()?;
    // A damaged length must not use up the memory.
    if len > GREATEST_RATIO * block.len() {
        return None;
    }
    let content = lz4_flex::decompress(block, len).ok()?;
    (content.len() == len).then_some(content)
}
