//! The reader of snapshots.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::KIND;
use crate::engine::entry::{
    DecodeError, EncodedLease, FRAME, Item, SnapshotHeader, check_format, decompressed, frame,
    frame_length, lease_key, take,
};
use crate::engine::{Loaded, OpenError};
use crate::model::LeaseKey;

/// The greatest length of the first line.
const FIRST_LINE: u64 = 32;

/// Reads a snapshot and checks it while it reads.
pub(in crate::engine) struct SnapshotReader {
    pub(in crate::engine) path: PathBuf,
    from: Box<dyn BufRead + Send>,
    /// The items of the last frame, and the place of the next one.
    chunk: Vec<u8>,
    at: usize,
    /// The checksum of the last frame.
    sum: u32,
    /// The lease before.
    last: Option<LeaseKey>,
}

impl fmt::Debug for SnapshotReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SnapshotReader").field(&self.path).finish()
    }
}

impl SnapshotReader {
    /// Opens a snapshot. Returns everything but its leases, too.
    ///
    /// # Errors
    ///
    /// It can't be read, it is damaged, or a later version wrote it.
    pub(in crate::engine) fn open(
        path: &Path,
    ) -> Result<(Self, SnapshotHeader, Loaded), OpenError> {
        let file = File::open(path).map_err(OpenError::io(path))?;
        Self::over(path, BufReader::new(file))
    }

    /// Reads a snapshot from `from`. Errors name `path`.
    pub(in crate::engine) fn over(
        path: &Path,
        from: impl BufRead + Send + 'static,
    ) -> Result<(Self, SnapshotHeader, Loaded), OpenError> {
        let mut reader = Self {
            path: path.to_owned(),
            from: Box::new(from),
            chunk: Vec::new(),
            at: 0,
            sum: 0,
            last: None,
        };
        let mut line = Vec::new();
        let mut first = reader.from.by_ref().take(FIRST_LINE);
        let read = first.read_until(b'\n', &mut line);
        read.map_err(OpenError::io(path))?;
        check_format(path, &line, KIND)?;
        let (item, next) = reader.item()?;
        let Item::Snapshot(header) = item else {
            return Err(OpenError::damaged(path, "it does not begin with its store"));
        };
        reader.at = next;
        let mut content = Loaded {
            store_id: Some(header.store.clone()),
            revision: header.revision,
            is_guarded: header.is_guarded,
            ..Loaded::default()
        };
        loop {
            let (item, next) = reader.item()?;
            if matches!(item, Item::Lease(..) | Item::End) {
                return Ok((reader, header, content));
            }
            content.add(item).map_err(|error| not_valid(path, &error))?;
            reader.at = next;
        }
    }

    /// Returns the next lease. `None` says that the snapshot is complete.
    pub(in crate::engine) fn next_lease(
        &mut self,
    ) -> Result<Option<(LeaseKey, EncodedLease<'_>)>, OpenError> {
        self.fill()?;
        let Self {
            path,
            from,
            chunk,
            at,
            last,
            ..
        } = self;
        let (item, next) = item_at(path, chunk, *at)?;
        let (key, lease) = match item {
            Item::Lease(key, lease) => (lease_key(key), lease.into_owned()),
            Item::End => {
                let behind = from.fill_buf().map_err(OpenError::io(&*path))?;
                return match next == chunk.len() && behind.is_empty() {
                    true => {
                        *at = next;
                        Ok(None)
                    }
                    false => Err(OpenError::damaged(path, "something follows its end")),
                };
            }
            _ => return Err(OpenError::damaged(path, "its parts are not in order")),
        };
        let key = key.map_err(|error| not_valid(path, &error))?;
        if last.as_ref().is_some_and(|last| *last >= key) {
            let detail = format!("{} is not in order", key.as_str());
            return Err(OpenError::damaged(path, detail));
        }
        *last = Some(key.clone());
        *at = next;
        Ok(Some((key, lease)))
    }

    /// Returns the next item, and the place behind it.
    fn item(&mut self) -> Result<(Item<'_>, usize), OpenError> {
        self.fill()?;
        item_at(&self.path, &self.chunk, self.at)
    }

    /// Reads the next frame, if all items were read.
    fn fill(&mut self) -> Result<(), OpenError> {
        if self.at < self.chunk.len() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.read(FRAME as u64, &mut bytes)?;
        if let Some(length) = frame_length(&bytes) {
            self.read(length, &mut bytes)?;
        }
        let damaged = |detail| OpenError::damaged(&self.path, detail);
        let (content, sum, _) = frame(&bytes, self.sum)
            .ok_or_else(|| damaged("it is cut off, or a part does not match its checksum"))?;
        let chunk = decompressed(content).filter(|it| !it.is_empty());
        self.chunk = chunk.ok_or_else(|| damaged("a part can't be decompressed"))?;
        (self.sum, self.at) = (sum, 0);
        Ok(())
    }

    /// Appends the next bytes, unless the file ends before.
    fn read(&mut self, length: u64, to: &mut Vec<u8>) -> Result<(), OpenError> {
        let read = self.from.by_ref().take(length).read_to_end(to);
        read.map(drop).map_err(OpenError::io(&self.path))
    }
}

/// Reads the item at this place. Returns the place behind it, too.
fn item_at<'a>(path: &Path, chunk: &'a [u8], at: usize) -> Result<(Item<'a>, usize), OpenError> {
    let mut rest = &chunk[at..];
    let item = take(&mut rest).map_err(|error| not_valid(path, &error))?;
    Ok((item, chunk.len() - rest.len()))
}

fn not_valid(path: &Path, error: &DecodeError) -> OpenError {
    OpenError::damaged(path, format!("a part is not valid: {error}"))
}
