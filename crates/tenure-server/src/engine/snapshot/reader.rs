//! The reader of snapshots.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use axum::body::Bytes;

use super::{CHUNK_HEADER, FORMAT, MAGIC, Position, SnapshotHeader, kind};
use crate::engine::entry::{Columns, DecodeError, decode_term, decompressed};
use crate::engine::{Document, Loaded, OpenError};
use crate::model::{LeaseKey, StoreId};

/// Reads a snapshot and checks it while it reads.
pub(in crate::engine) struct SnapshotReader {
    chunks: Chunks,
    pub(in crate::engine) header: SnapshotHeader,
    /// The place of the next lease in the chunk.
    at: usize,
    /// The lease before.
    last: Option<LeaseKey>,
}

/// Reads the chunks of a snapshot.
struct Chunks {
    path: PathBuf,
    from: Box<dyn Read + Send>,
    /// The size of the file in bytes.
    bytes: u64,
    kind: u8,
    content: Vec<u8>,
    /// The number of items in all chunks so far, and the checksum over their checksums.
    total: u64,
    sum: crc32fast::Hasher,
}

impl SnapshotReader {
    /// Opens a snapshot. Returns everything but its leases, too.
    ///
    /// # Errors
    ///
    /// It can't be read, it is damaged, or a later version wrote it.
    pub(in crate::engine) fn open(path: &Path) -> Result<(Self, Loaded<()>), OpenError> {
        let file = File::open(path).map_err(OpenError::io(path))?;
        let bytes = file.metadata().map_err(OpenError::io(path))?.len();
        Self::over(path, file, bytes)
    }

    /// Reads a snapshot of this size. Errors name `path`.
    pub(in crate::engine) fn over(
        path: &Path,
        from: impl Read + Send + 'static,
        bytes: u64,
    ) -> Result<(Self, Loaded<()>), OpenError> {
        let mut chunks = Chunks::new(path, Box::new(from), bytes)?;
        let mut content = Loaded::default();
        chunks.next()?;
        let header = match chunks.kind {
            kind::HEADER => chunks.read_header(&mut content)?,
            other => return Err(chunks.unknown(other)),
        };
        loop {
            chunks.next()?;
            if matches!(chunks.kind, kind::LEASE | kind::END) {
                break;
            }
            chunks.read_part(&mut content)?;
        }
        let reader = Self {
            chunks,
            header,
            at: 0,
            last: None,
        };
        Ok((reader, content))
    }

    /// Returns the next lease: its name, and its bytes as `decode` reads them. `None` says that the
    /// snapshot is complete.
    pub(in crate::engine) fn next_lease(&mut self) -> Result<Option<(LeaseKey, &[u8])>, OpenError> {
        let chunks = &mut self.chunks;
        if chunks.kind == kind::LEASE && self.at == chunks.content.len() {
            chunks.next()?;
            self.at = 0;
        }
        match chunks.kind {
            kind::LEASE => {}
            kind::END => return chunks.check_end().map(|()| None),
            other => return Err(chunks.unknown(other)),
        }
        let damaged = chunks.damaged();
        let mut rest = Columns(&chunks.content[self.at..]);
        let item = rest
            .bytes("lease")
            .map_err(|_| invalid(&damaged, "lease"))?;
        self.at = chunks.content.len() - rest.0.len();
        let key = Columns(item).key().map_err(|_| invalid(&damaged, "name"))?;
        if self.last.as_ref().is_some_and(|last| *last >= key) {
            return Err(damaged(format!("{} is not in order", key.as_str())));
        }
        self.last = Some(key.clone());
        Ok(Some((key, item)))
    }

    /// Returns the error for this detail.
    pub(in crate::engine) fn damaged(&self) -> impl Fn(String) -> OpenError + use<> {
        self.chunks.damaged()
    }

    /// The size of the file in bytes.
    pub(in crate::engine) const fn bytes(&self) -> u64 {
        self.chunks.bytes
    }
}

impl Chunks {
    fn new(path: &Path, from: Box<dyn Read + Send>, bytes: u64) -> Result<Self, OpenError> {
        let mut chunks = Self {
            path: path.to_owned(),
            from,
            bytes,
            kind: 0,
            content: Vec::new(),
            total: 0,
            sum: crc32fast::Hasher::new(),
        };
        chunks.read_format()?;
        Ok(chunks)
    }

    fn damaged(&self) -> impl Fn(String) -> OpenError + use<> {
        let path = self.path.clone();
        move |detail| OpenError::Damaged {
            path: path.clone(),
            detail,
        }
    }

    fn unknown(&self, kind: u8) -> OpenError {
        self.damaged()(format!("it has an unknown part {kind}"))
    }

    fn read_format(&mut self) -> Result<(), OpenError> {
        let mut line = Vec::new();
        // The number of the format has few digits.
        while line.len() < MAGIC.len() + 10 && line.last() != Some(&b'\n') {
            let mut byte = [0];
            if self.read_all(&mut byte)? == 0 {
                break;
            }
            line.extend(byte);
        }
        match format_of(&line, MAGIC) {
            Some(FORMAT) => Ok(()),
            Some(found) => Err(OpenError::Newer {
                path: self.path.clone(),
                found,
                known: FORMAT,
            }),
            None => Err(self.damaged()("it does not begin like a snapshot".into())),
        }
    }

    /// Reads the next chunk and checks its checksum.
    fn next(&mut self) -> Result<(), OpenError> {
        let mut header = [0; CHUNK_HEADER];
        if self.read_all(&mut header)? < header.len() {
            return Err(self.damaged()("it is cut off".into()));
        }
        let number = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (items, len, sum) = (number(1), number(5) as usize, number(9));
        if len as u64 > self.bytes {
            return Err(self.damaged()("it is cut off, or a length is wrong".into()));
        }
        let mut content = vec![0; len];
        if self.read_all(&mut content)? < len {
            return Err(self.damaged()("it is cut off".into()));
        }
        let mut computed = crc32fast::Hasher::new();
        computed.update(&header[..9]);
        computed.update(&content);
        if computed.finalize() != sum {
            let at = self.total;
            return Err(self.damaged()(format!(
                "the part after item {at} does not match its checksum"
            )));
        }
        // The checksum of the end covers only the chunks before it.
        if header[0] != kind::END {
            self.total += u64::from(items);
            self.sum.update(&sum.to_le_bytes());
        }
        let content = decompressed(&content);
        self.content =
            content.ok_or_else(|| self.damaged()("a part can't be decompressed".into()))?;
        self.kind = header[0];
        Ok(())
    }

    fn read_header(&self, content: &mut Loaded<()>) -> Result<SnapshotHeader, OpenError> {
        let damaged = self.damaged();
        let header = Columns(&self.content).bytes("header").and_then(|item| {
            let mut item = Columns(item);
            let header = read_header(&mut item, content)?;
            item.end().map(|()| header)
        });
        header.map_err(|DecodeError(column)| invalid(&damaged, column))
    }

    /// Reads the items of a chunk that has no leases.
    fn read_part(&self, content: &mut Loaded<()>) -> Result<(), OpenError> {
        let damaged = self.damaged();
        let mut items = Columns(&self.content);
        while !items.is_empty() {
            let item = items.bytes("item").map_err(|_| invalid(&damaged, "item"))?;
            let mut item = Columns(item);
            let read = match self.kind {
                kind::DOCUMENT => read_document(&mut item).map(|document| {
                    content.documents.insert(document.name.clone(), document);
                }),
                kind::DELETED => item.key().and_then(|key| {
                    content.deleted.push((key, item.ids("retired")?));
                    Ok(())
                }),
                kind::TERM => item.key().and_then(|key| {
                    content.history.record(&key, decode_term(&mut item)?);
                    Ok(())
                }),
                other => return Err(self.unknown(other)),
            };
            let read = read.and_then(|()| item.end());
            read.map_err(|DecodeError(column)| invalid(&damaged, column))?;
        }
        Ok(())
    }

    /// Checks that the snapshot is complete and that nothing follows its end.
    fn check_end(&mut self) -> Result<(), OpenError> {
        let mut columns = Columns(&self.content);
        let end = columns
            .bytes("end")
            .map(Columns)
            .and_then(|mut end| Ok((end.number("total")?, end.number("sum")?)));
        let sum = self.sum.clone().finalize();
        if end != Ok((self.total, sum.into())) {
            return Err(self.damaged()("a part of it is missing".into()));
        }
        match self.read_all(&mut [0])? {
            0 => Ok(()),
            _ => Err(self.damaged()("something follows its end".into())),
        }
    }

    /// Fills the buffer, unless the file ends before. Returns the number of bytes.
    fn read_all(&mut self, buffer: &mut [u8]) -> Result<usize, OpenError> {
        let mut read = 0;
        while read < buffer.len() {
            match self.from.read(&mut buffer[read..]) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(OpenError::io(&self.path)(error)),
            }
        }
        Ok(read)
    }
}

/// Returns the number of the format in the first line of a file.
pub(in crate::engine) fn format_of(line: &[u8], magic: &str) -> Option<u32> {
    let line = str::from_utf8(line).ok()?;
    line.strip_prefix(magic)?.strip_suffix('\n')?.parse().ok()
}

fn invalid(damaged: &impl Fn(String) -> OpenError, what: &str) -> OpenError {
    damaged(format!("it has an invalid {what}"))
}

fn read_header(
    item: &mut Columns<'_>,
    content: &mut Loaded<()>,
) -> Result<SnapshotHeader, DecodeError> {
    let store = StoreId::parse(item.text("store")?).ok_or(DecodeError("store"))?;
    let sequence = item.number("sequence")?;
    let checksum = u32::try_from(item.number("checksum")?);
    let is_final = item.number("final")? != 0;
    content.is_guarded = item.number("guarded")? != 0;
    content.revision = item.number("revision")?;
    let floors = serde_json::from_str(item.text("floors")?);
    content.floors = floors.map_err(|_| DecodeError("floors"))?;
    content.store_id = Some(store.clone());
    Ok(SnapshotHeader {
        store,
        covers: Position {
            sequence,
            checksum: checksum.map_err(|_| DecodeError("checksum"))?,
        },
        is_final,
    })
}

fn read_document(item: &mut Columns<'_>) -> Result<Document, DecodeError> {
    Ok(Document {
        name: item.text("name")?.to_owned(),
        revision: item.number("revision")?,
        content: Bytes::copy_from_slice(item.bytes("content")?),
    })
}
