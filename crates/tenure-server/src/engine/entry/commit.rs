//! One commit of a log, and its bytes.

use std::borrow::Cow;

use super::codec::{Column, Columns, DecodeError, put};
use super::{Batch, decompressed};

/// One commit of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Entry<'a> {
    /// Its number, one more than that of the entry before.
    pub(in crate::engine) sequence: u64,
    /// The checksum of the entry before.
    pub(in crate::engine) follows: u32,
    pub(in crate::engine) kind: EntryKind,
    /// What an operator did to the log.
    pub(in crate::engine) note: Option<String>,
    /// The changes.
    pub(in crate::engine) batch: Cow<'a, Batch>,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum EntryKind {
    /// It has changes.
    Changes,
    /// A store began to append.
    Begun,
    /// The store ended. Nothing was appended after it.
    Vacant,
    /// The content was moved away for good.
    Retired,
}

const KINDS: [(EntryKind, &str); 4] = [
    (EntryKind::Changes, "changes"),
    (EntryKind::Begun, "begun"),
    (EntryKind::Vacant, "vacant"),
    (EntryKind::Retired, "retired"),
];

impl Entry<'_> {
    /// Appends the bytes of the entry. Returns their checksum.
    ///
    /// The changes are compressed because each of their bytes is written, copied and kept several
    /// times. The changes of different leases have the same form, so half of their bytes remain.
    pub(in crate::engine) fn encode(&self, to: &mut Vec<u8>) -> u32 {
        let start = to.len();
        let kind = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let changes = match self.batch.changes.is_empty() {
            true => None,
            false => Some(lz4_flex::compress_prepend_size(&self.batch.changes)),
        };
        put(
            to,
            &[
                self.sequence.into(),
                u64::from(self.follows).into(),
                kind.map(|(_, name)| *name).into(),
                self.note.as_deref().into(),
                self.batch.previous.into(),
                self.batch.revision.into(),
                changes.as_deref().map_or(Column::Null, Column::Bytes),
            ],
        );
        crc32fast::hash(&to[start..])
    }

    /// Reads the bytes of an entry. Their checksum is right, so invalid ones were written by another
    /// program.
    pub(in crate::engine) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut columns = Columns(bytes);
        let sequence = columns.number("sequence")?;
        let follows = u32::try_from(columns.number("follows")?);
        let kind = columns.text("kind")?;
        let kind = KINDS.iter().find(|(_, name)| *name == kind);
        let entry = Self {
            sequence,
            follows: follows.map_err(|_| DecodeError("follows"))?,
            kind: kind.ok_or(DecodeError("kind"))?.0,
            note: columns.optional_text("note")?.map(ToOwned::to_owned),
            batch: Cow::Owned(Batch {
                previous: columns.number("previous")?,
                revision: columns.number("revision")?,
                changes: match columns.optional_bytes("changes")? {
                    Some(changes) => decompressed(changes).ok_or(DecodeError("changes"))?,
                    None => Vec::new(),
                },
            }),
        };
        columns.end()?;
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_its_checksum_covers_all_of_it() {
        for (kind, _) in KINDS {
            let entry = Entry {
                sequence: 7,
                follows: u32::MAX,
                kind,
                note: (kind == EntryKind::Vacant).then(|| "restored \"ä".into()),
                batch: Cow::Owned(Batch {
                    previous: 3,
                    revision: 1 << 52,
                    changes: vec![9; if kind == EntryKind::Changes { 5_000 } else { 0 }],
                }),
            };
            let mut bytes = b"before".to_vec();
            let sum = entry.encode(&mut bytes);
            let bytes = &bytes[6..];
            assert!(bytes.len() < 100, "{}", bytes.len());
            assert_eq!(Entry::decode(bytes), Ok(entry));
            for at in 0..bytes.len() {
                let mut changed = bytes.to_vec();
                changed[at] ^= 1 << (at % 8);
                assert_ne!(crc32fast::hash(&changed), sum);
                assert!(Entry::decode(&bytes[..at]).is_err(), "{at} bytes");
            }
        }
    }
}
