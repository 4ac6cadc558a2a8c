//! Snapshots: files with the whole state up to an entry of the log.
//!
//! ```text
//! "tenure snapshot 1\n"
//! header     the store, the last entry that the snapshot covers
//! chunks     of up to 1 MiB, compressed, each with a checksum: documents, deleted leases, terms,
//!            and then the leases in the order of their names
//! end        the numbers of all of these, and a checksum over the checksums
//! ```
//!
//! **A new snapshot is made of the one before and of the entries after it**, and of nothing else. So it
//! has exactly what was committed, it needs no lock of the store's table, and it is made in the same way
//! by a running store, by a backup and by a start. The leases of the snapshot before pass through
//! without being decoded, unless an entry changes them.
//!
//! A snapshot is written under another name, and gets its own when all of it is durable.

mod reader;
mod writer;

use super::entry::{ChangedLease, ChangedLeases, Columns, DecodeError, decode};
use super::{LoadedLease, OpenError};
use crate::model::{LeaseKey, StoreId};

pub(super) use reader::{SnapshotReader, format_of};
pub(super) use writer::SnapshotWriter;

/// The first bytes of a snapshot, before the number of its format.
const MAGIC: &str = "tenure snapshot ";

/// The format that this version reads and writes.
const FORMAT: u32 = 1;

/// The size at which a chunk is written, in bytes before its compression.
const CHUNK: usize = 1024 * 1024;

/// The number of bytes before the content of a chunk: its kind, the number of its items, its length,
/// and its checksum.
const CHUNK_HEADER: usize = 13;

/// The kinds of chunks.
mod kind {
    pub(super) const HEADER: u8 = b'H';
    pub(super) const DOCUMENT: u8 = b'B';
    pub(super) const DELETED: u8 = b'D';
    pub(super) const TERM: u8 = b'T';
    pub(super) const LEASE: u8 = b'L';
    pub(super) const END: u8 = b'E';
}

/// The place of an entry in its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Its number.
    pub(super) sequence: u64,
    /// Its checksum.
    pub(super) checksum: u32,
}

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SnapshotHeader {
    pub(super) store: StoreId,
    /// The last entry that it covers.
    pub(super) covers: Position,
    /// It is the last backup of a store that was stopped for good.
    pub(super) is_final: bool,
}

/// Decodes a lease of a snapshot.
pub(super) fn decoded(
    bytes: &[u8],
    damaged: &impl Fn(String) -> OpenError,
) -> Result<LoadedLease, OpenError> {
    let mut columns = Columns(bytes);
    let lease = decode(&mut columns).and_then(|lease| columns.end().map(|()| lease));
    lease.map_err(|DecodeError(column)| damaged(format!("a lease has an invalid {column}")))
}

/// Gives the leases of a snapshot after these changes to `each`, in the order of their names and in the
/// form that [`decoded`] reads.
///
/// # Errors
///
/// The first error of `each`, or [`OpenError::Damaged`].
pub(super) fn merge<E: From<OpenError>>(
    base: &mut SnapshotReader,
    changed: ChangedLeases,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let damaged = base.damaged();
    let mut changed = changed.into_iter().peekable();
    let finish = |(key, change): (LeaseKey, ChangedLease),
                  before: Option<&[u8]>,
                  each: &mut dyn FnMut(&[u8]) -> Result<(), E>| {
        let finished = change.finish(before);
        let finished = finished.map_err(|detail| damaged(format!("{}: {detail}", key.as_str())))?;
        finished.map_or(Ok(()), |bytes| each(&bytes))
    };
    while let Some((key, bytes)) = base.next_lease()? {
        while let Some(next) = changed.next_if(|(it, _)| *it < key) {
            finish(next, None, &mut each)?;
        }
        match changed.next_if(|(it, _)| *it == key) {
            Some(change) => finish(change, Some(bytes), &mut each)?,
            None => each(bytes)?,
        }
    }
    changed.try_for_each(|change| finish(change, None, &mut each))
}

#[cfg(test)]
mod tests;
