//! The writer of snapshots.

use std::fs::File;
use std::io::{self, Write};

use tenure_core::lease::Stored;

use super::{CHUNK, CHUNK_HEADER, FORMAT, MAGIC, SnapshotHeader, kind};
use crate::engine::Loaded;
use crate::engine::entry::{Column, columns, put, put_nested, term_columns};
use crate::model::LeaseKey;

/// Writes a snapshot.
///
/// Each chunk is synced at once. So the disk works evenly, and the commits of the store that go on
/// meanwhile do not wait for a large sync at the end.
#[derive(Debug)]
pub(in crate::engine) struct SnapshotWriter<W> {
    to: W,
    /// The kind of the items in the chunk.
    kind: u8,
    /// The items of the next chunk.
    chunk: Vec<u8>,
    items: u32,
    /// The number of items of all chunks but the header.
    total: u64,
    bytes: u64,
    /// The checksum over the checksums of the chunks.
    sum: crc32fast::Hasher,
}

/// The place of a snapshot.
pub(in crate::engine) trait SnapshotTarget: Write {
    /// Makes everything that was written durable, if this is a file.
    fn sync(&mut self, is_complete: bool) -> io::Result<()>;
}

impl SnapshotTarget for File {
    fn sync(&mut self, is_complete: bool) -> io::Result<()> {
        match is_complete {
            true => self.sync_all(),
            false => self.sync_data(),
        }
    }
}

impl SnapshotTarget for &mut Vec<u8> {
    fn sync(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

impl<W: SnapshotTarget> SnapshotWriter<W> {
    /// Begins a snapshot in an empty file, with everything but its leases.
    pub(in crate::engine) fn begin(
        to: W,
        header: &SnapshotHeader,
        content: &Loaded<()>,
    ) -> io::Result<Self> {
        let mut writer = Self {
            to,
            kind: kind::HEADER,
            chunk: Vec::with_capacity(CHUNK + 4_096),
            items: 0,
            total: 0,
            bytes: 0,
            sum: crc32fast::Hasher::new(),
        };
        let magic = format!("{MAGIC}{FORMAT}\n");
        writer.to.write_all(magic.as_bytes())?;
        writer.bytes += magic.len() as u64;
        // Names and numbers always have a form in JSON.
        let floors = serde_json::to_string(&content.floors).unwrap_or_default();
        writer.item(kind::HEADER, |to| {
            put(
                to,
                &[
                    header.store.as_str().into(),
                    header.covers.sequence.into(),
                    u64::from(header.covers.checksum).into(),
                    u64::from(header.is_final).into(),
                    u64::from(content.is_guarded).into(),
                    content.revision.into(),
                    floors.as_str().into(),
                ],
            );
        })?;
        for document in content.documents.values() {
            writer.item(kind::DOCUMENT, |to| {
                let name = document.name.as_str().into();
                let content = Column::Bytes(&document.content);
                put(to, &[name, document.revision.into(), content]);
            })?;
        }
        for (key, retired) in &content.deleted {
            writer.item(kind::DELETED, |to| {
                let (namespace, lease) = key.names();
                put(to, &[namespace.into(), lease.into(), Column::Ids(retired)]);
            })?;
        }
        for (key, term) in content.history.iter() {
            writer.item(kind::TERM, |to| {
                let (namespace, lease) = key.names();
                put(to, &[namespace.into(), lease.into()]);
                put(to, &term_columns(term));
            })?;
        }
        Ok(writer)
    }

    /// Adds a lease, in the order of names.
    pub(in crate::engine) fn lease(
        &mut self,
        key: &LeaseKey,
        stored: &Stored,
        revision: u64,
    ) -> io::Result<()> {
        self.item(kind::LEASE, |to| {
            put(to, &columns(key, stored, &stored.retired, revision));
        })
    }

    /// Adds an encoded lease.
    pub(in crate::engine) fn encoded_lease(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.item(kind::LEASE, |to| to.extend_from_slice(bytes))
    }

    /// Ends the snapshot. Then all of it is durable. Returns its size in bytes.
    pub(in crate::engine) fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        let sum = self.sum.clone().finalize();
        let total = self.total;
        self.item(kind::END, |to| {
            put(to, &[total.into(), u64::from(sum).into()]);
        })?;
        self.flush()?;
        self.to.sync(true)?;
        Ok(self.bytes)
    }

    /// Adds an item, whose bytes `write` appends.
    fn item(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        if kind != self.kind || self.chunk.len() >= CHUNK {
            self.flush()?;
            self.kind = kind;
        }
        put_nested(&mut self.chunk, write);
        self.items += 1;
        Ok(())
    }

    /// Writes the chunk, if it has an item.
    fn flush(&mut self) -> io::Result<()> {
        if self.items == 0 {
            return Ok(());
        }
        let content = lz4_flex::compress_prepend_size(&self.chunk);
        let mut header = [0; CHUNK_HEADER];
        header[0] = self.kind;
        header[1..5].copy_from_slice(&self.items.to_le_bytes());
        // A chunk has little more than 1 MiB, or a single item.
        let len = u32::try_from(content.len()).map_err(io::Error::other)?;
        header[5..9].copy_from_slice(&len.to_le_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&header[..9]);
        sum.update(&content);
        let sum = sum.finalize();
        header[9..].copy_from_slice(&sum.to_le_bytes());
        self.to.write_all(&header)?;
        self.to.write_all(&content)?;
        self.to.sync(false)?;
        self.bytes += (header.len() + content.len()) as u64;
        self.sum.update(&sum.to_le_bytes());
        self.total += u64::from(self.items);
        self.items = 0;
        self.chunk.clear();
        Ok(())
    }
}
