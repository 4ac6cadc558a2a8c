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

use std::collections::btree_map;
use std::iter::Peekable;

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

/// A lease of a snapshot after the entries behind it.
pub(super) enum MergedLease<'a> {
    /// No entry changed it. Its bytes are as [`decode`] reads them.
    Kept(&'a [u8]),
    Changed(LoadedLease),
}

/// Decodes a lease.
pub(super) fn decoded(
    lease: MergedLease<'_>,
    damaged: &impl Fn(String) -> OpenError,
) -> Result<LoadedLease, OpenError> {
    match lease {
        MergedLease::Changed(lease) => Ok(lease),
        MergedLease::Kept(bytes) => decode(&mut Columns(bytes))
            .map_err(|DecodeError(column)| damaged(format!("a lease has an invalid {column}"))),
    }
}

/// Gives the leases of a snapshot after these changes to `each`, in the order of their names.
///
/// # Errors
///
/// The first error of `each`, or [`OpenError::Damaged`].
pub(super) fn merge<E: From<OpenError>>(
    base: &mut SnapshotReader,
    changed: ChangedLeases,
    mut each: impl FnMut(MergedLease<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let damaged = base.damaged();
    let mut changed = changed.into_iter().peekable();
    while let Some((key, bytes)) = base.next_lease()? {
        finish_before(&mut changed, &key, &damaged, &mut each)?;
        let Some((key, change)) = changed.next_if(|(it, _)| *it == key) else {
            each(MergedLease::Kept(bytes))?;
            continue;
        };
        let before = match change.needs_before() {
            true => {
                let lease = decode(&mut Columns(bytes));
                let (_, stored, revision) = lease.map_err(|DecodeError(column)| {
                    damaged(format!("{} has an invalid {column}", key.as_str()))
                })?;
                Some((stored, revision))
            }
            false => None,
        };
        finish(key, change, before, &damaged, &mut each)?;
    }
    for (key, change) in changed {
        finish(key, change, None, &damaged, &mut each)?;
    }
    Ok(())
}

/// Gives the leases before this one to `each` that only entries have.
fn finish_before<E: From<OpenError>>(
    changed: &mut Peekable<btree_map::IntoIter<LeaseKey, ChangedLease>>,
    next: &LeaseKey,
    damaged: &impl Fn(String) -> OpenError,
    each: &mut impl FnMut(MergedLease<'_>) -> Result<(), E>,
) -> Result<(), E> {
    while let Some((key, change)) = changed.next_if(|(key, _)| key < next) {
        finish(key, change, None, damaged, each)?;
    }
    Ok(())
}

fn finish<E: From<OpenError>>(
    key: LeaseKey,
    change: ChangedLease,
    before: Option<(tenure_core::lease::Stored, u64)>,
    damaged: &impl Fn(String) -> OpenError,
    each: &mut impl FnMut(MergedLease<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let finished = change.finish(before);
    match finished.map_err(|detail| damaged(format!("{}: {detail}", key.as_str())))? {
        Some((stored, revision)) => each(MergedLease::Changed((key, stored, revision))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
