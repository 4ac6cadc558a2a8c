//! Snapshots: files with the whole state up to an entry of the log.
//!
//! ```text
//! "tenure snapshot 1\n"
//! frames     with up to 1 MiB of items, compressed: the store and the last entry that the snapshot
//!            covers, floors, documents, deleted leases, terms, the leases in the order of their names,
//!            and the end
//! ```
//!
//! The checksum of each frame continues the one of the frame before, so a missing frame is found.
//!
//! **A new snapshot is made of the one before and of the entries after it**, and of nothing else. So it
//! has exactly what was committed, it needs no lock of the store's table, and it is made in the same way
//! by a running store, by a backup and by a start. The leases of the snapshot before pass through
//! without being decoded, unless an entry changes them.
//!
//! A snapshot is written under another name, and gets its own when all of it is durable.

mod reader;
mod writer;

pub(super) use reader::SnapshotReader;
pub(super) use writer::SnapshotWriter;

/// The kind of the file, in its first line.
const KIND: &str = "snapshot";

/// The size at which a frame is written, in bytes before its compression.
const CHUNK: usize = 1024 * 1024;

#[cfg(test)]
mod tests;
