//! The writer of snapshots.

use std::borrow::Cow;

use super::{CHUNK, KIND};
use crate::engine::Loaded;
use crate::engine::entry::{EncodedLease, Item, SnapshotHeader, format_line, put, put_frame};
use crate::model::{Deleted, DocumentChange, LeaseKey};

/// Writes a snapshot: calls a function with consecutive parts of the file.
///
/// A file is to be synced after each part. So the disk works evenly, and the commits of the store that
/// go on meanwhile do not wait for a large sync at the end.
#[derive(Debug)]
pub(in crate::engine) struct SnapshotWriter<F> {
    to: F,
    /// The items of the next frame.
    chunk: Vec<u8>,
    /// The checksum of the frame before.
    sum: u32,
    /// The size so far.
    bytes: u64,
}

impl<E, F: FnMut(&[u8]) -> Result<(), E>> SnapshotWriter<F> {
    /// Begins a snapshot, with everything but its leases.
    pub(in crate::engine) fn begin(
        to: F,
        header: SnapshotHeader,
        content: &Loaded,
    ) -> Result<Self, E> {
        let mut writer = Self {
            to,
            chunk: Vec::with_capacity(CHUNK + 4_096),
            sum: 0,
            bytes: 0,
        };
        writer.write(&format_line(KIND))?;
        writer.item(&Item::Snapshot(header))?;
        writer.item(&Item::Floors(Cow::Borrowed(&content.floors)))?;
        for document in content.documents.values() {
            writer.item(&Item::Document(Cow::Owned(DocumentChange {
                name: document.name.clone(),
                revision: document.revision,
                content: Some(document.content.clone()),
            })))?;
        }
        for (key, retired) in &content.deleted {
            // The floors have its last epoch.
            let (last, retired) = (None, retired.clone());
            let deleted = Cow::Owned(Deleted { last, retired });
            writer.item(&Item::Deleted(key.as_str(), deleted))?;
        }
        for (key, term) in content.history.iter() {
            writer.item(&Item::Term(key.as_str(), Cow::Borrowed(term)))?;
        }
        Ok(writer)
    }

    /// Adds a lease, in the order of names.
    pub(in crate::engine) fn lease(
        &mut self,
        key: &LeaseKey,
        lease: &EncodedLease<'_>,
    ) -> Result<(), E> {
        self.item(&Item::Lease(key.as_str(), Cow::Borrowed(lease)))
    }

    /// Ends the snapshot. Returns its size in bytes.
    pub(in crate::engine) fn finish(mut self) -> Result<u64, E> {
        self.item(&Item::End)?;
        self.flush()?;
        Ok(self.bytes)
    }

    fn item(&mut self, item: &Item<'_>) -> Result<(), E> {
        put(&mut self.chunk, item);
        match self.chunk.len() >= CHUNK {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes the items as a frame.
    fn flush(&mut self) -> Result<(), E> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let mut frame = Vec::new();
        self.sum = put_frame(&mut frame, self.sum, |to| {
            to.extend(lz4_flex::compress_prepend_size(&self.chunk));
        });
        self.chunk.clear();
        self.write(&frame)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), E> {
        self.bytes += bytes.len() as u64;
        (self.to)(bytes)
    }
}
