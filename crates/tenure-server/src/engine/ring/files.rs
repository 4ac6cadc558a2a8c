//! Snapshots and segments: the files from which a server starts.
//!
//! A file is written once, under a name that nobody else uses. A *segment* has consecutive entries, and
//! a snapshot is in one or more *parts*, because a home limits the size of a value. The newest file of a
//! base begins with the list of the other ones, so a segment is one write. A file counts from the entry
//! on that names its base: argument 6 of the [ring](tenure_core::ring).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use tenure_core::Random as _;
use tenure_core::ring::{Base, FileId};
use tenure_register::{Failure, MOST_BYTES, Register, RegisterKey};

use crate::engine::entry::{DecodeError, Position, only_frame, put, put_frame, read, take};
use crate::engine::replica::Replica;
use crate::random::OsRandom;

/// The number of files that are read or written at the same time.
const AT_ONCE: usize = 8;

/// The bytes of a value that are left for the list of files and for the form of the home.
const RESERVE: usize = 96 * 1024;

/// The name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct FileName {
    /// The last entry that it covers.
    pub(in crate::engine) covered: u64,
    pub(in crate::engine) id: FileId,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) enum FileKind {
    Snapshot,
    Segment,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct LogFile {
    pub(in crate::engine) name: FileName,
    pub(in crate::engine) kind: FileKind,
    /// The other files of the base, if this is the newest one: first the parts of the snapshot.
    others: Vec<FileName>,
    pub(in crate::engine) content: Bytes,
}

/// The files of a base, in the order in which they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct BaseFiles {
    pub(in crate::engine) names: Vec<FileName>,
    /// The bytes of the snapshot, and of the segments after it.
    pub(in crate::engine) snapshot_bytes: usize,
    pub(in crate::engine) segment_bytes: usize,
}

/// The reason why a base can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::engine) enum BaseError {
    /// The home has not answered.
    #[error(transparent)]
    Home(#[from] Failure),
    /// A file is missing: the log has moved on, or it is damaged.
    #[error("{0} is missing")]
    Missing(RegisterKey),
    /// A file has content that no server writes.
    #[error("{0}")]
    Damaged(String),
}

/// The files of one log.
#[derive(Clone, Debug)]
pub(in crate::engine) struct LogFiles {
    pub(in crate::engine) home: Arc<dyn Register>,
    folder: RegisterKey,
}

impl FileName {
    fn random(covered: u64) -> Self {
        let half = || u128::from(OsRandom.next_u64());
        Self {
            covered,
            id: FileId(half() << 64 | half()),
        }
    }

    const fn base(self) -> Base {
        Base {
            newest: self.id,
            covered: self.covered,
        }
    }

    /// Reads the last part of a key.
    fn parse(key: &RegisterKey) -> Option<Self> {
        let (covered, id) = key.parts().last()?.split_once('-')?;
        Some(Self {
            covered: covered.parse().ok()?,
            id: FileId(u128::from_str_radix(id, 16).ok()?),
        })
    }
}

impl LogFiles {
    pub(in crate::engine) fn new(home: Arc<dyn Register>, name: &RegisterKey) -> Self {
        Self {
            home,
            folder: key(&format!("{name}/file")),
        }
    }

    pub(in crate::engine) fn key(&self, name: FileName) -> RegisterKey {
        key(&format!(
            "{}/{:020}-{:032x}",
            self.folder, name.covered, name.id.0
        ))
    }

    /// Returns the names of all files.
    pub(in crate::engine) async fn list(&self) -> Result<Vec<FileName>, Failure> {
        let keys = self.home.list(&self.folder).await?;
        Ok(keys.iter().filter_map(FileName::parse).collect())
    }

    /// Writes a file that no entry ever names, and deletes it.
    pub(in crate::engine) async fn try_write(&self) -> Result<(), Failure> {
        let name = FileName::random(0);
        self.home.write(&self.key(name), Bytes::new()).await?;
        self.delete(&[name]).await
    }

    pub(in crate::engine) async fn delete(&self, names: &[FileName]) -> Result<(), Failure> {
        let keys: Vec<_> = names.iter().map(|name| self.key(*name)).collect();
        self.home.delete(&keys).await
    }

    /// Writes the state of a replica as a snapshot.
    pub(in crate::engine) async fn write_state(
        &self,
        replica: &mut Replica,
    ) -> Result<(Base, BaseFiles), BaseError> {
        let snapshot = replica.snapshot().map_err(BaseError::Damaged)?;
        Ok(self.write_snapshot(snapshot, replica.at.sequence).await?)
    }

    /// Writes the parts of a snapshot. Then it is complete, and an entry may name it.
    pub(super) async fn write_snapshot(
        &self,
        snapshot: Bytes,
        covered: u64,
    ) -> Result<(Base, BaseFiles), Failure> {
        let part = |content| LogFile {
            name: FileName::random(covered),
            kind: FileKind::Snapshot,
            others: Vec::new(),
            content: snapshot.slice_ref(content),
        };
        let mut parts: Vec<_> = snapshot.chunks(self.most()).map(part).collect();
        let names: Vec<_> = parts.iter().map(|file| file.name).collect();
        let Some(mut newest) = parts.pop() else {
            return Err(Failure::NotApplied("a snapshot is empty".into()));
        };
        newest.others = names[..parts.len()].to_vec();
        let writes = stream::iter(&parts).map(|file| self.write(file));
        let written = writes.buffer_unordered(AT_ONCE);
        written.try_for_each(async |()| Ok(())).await?;
        self.write(&newest).await?;
        let files = BaseFiles {
            names,
            snapshot_bytes: snapshot.len(),
            segment_bytes: 0,
        };
        Ok((newest.name.base(), files))
    }

    /// Writes the entries after a base as further files of it. Then an entry may name the new base.
    pub(in crate::engine) async fn write_segment(
        &self,
        before: &BaseFiles,
        entries: &[(Position, Bytes)],
    ) -> Result<(Base, BaseFiles), Failure> {
        let most = self.most();
        let mut files = before.clone();
        let mut content = Vec::new();
        let mut entries = entries.iter().peekable();
        while let Some((last, entry)) = entries.next() {
            put(&mut content, entry);
            let next = entries.peek().map(|(_, next)| next.len());
            if next.is_some_and(|next| content.len() + next <= most) {
                continue;
            }
            let segment = LogFile {
                name: FileName::random(last.sequence),
                kind: FileKind::Segment,
                others: files.names.clone(),
                content: std::mem::take(&mut content).into(),
            };
            self.write(&segment).await?;
            files.names.push(segment.name);
            files.segment_bytes += segment.content.len();
        }
        match files.names.last() {
            Some(newest) => Ok((newest.base(), files)),
            None => Err(Failure::NotApplied("a segment is empty".into())),
        }
    }

    /// The greatest content of a file in bytes.
    pub(super) fn most(&self) -> usize {
        MOST_BYTES.saturating_sub(RESERVE).max(1)
    }

    async fn write(&self, file: &LogFile) -> Result<(), Failure> {
        let mut bytes = Vec::with_capacity(file.content.len() + 48 * file.others.len() + 64);
        put_frame(&mut bytes, 0, |to| put(to, file));
        self.home.write(&self.key(file.name), bytes.into()).await
    }

    async fn read(&self, name: FileName) -> Result<LogFile, BaseError> {
        let key = self.key(name);
        let Some(bytes) = self.home.read_file(&key).await? else {
            return Err(BaseError::Missing(key));
        };
        let file = only_frame(&bytes).and_then(|file| read::<LogFile>(file).ok());
        file.filter(|file| file.name == name).ok_or_else(|| {
            BaseError::Damaged(format!("{key} is damaged: its checksum is not valid"))
        })
    }

    /// Reads the files of a base, in their order: the parts of the snapshot, and the segments. Files
    /// that cover nothing after the entry `known` are left out.
    pub(in crate::engine) async fn read_base(
        &self,
        base: Base,
        known: u64,
    ) -> Result<Vec<LogFile>, BaseError> {
        let newest = self.read(FileName {
            covered: base.covered,
            id: base.newest,
        });
        let newest = newest.await?;
        let others = newest.others.iter().filter(|it| it.covered > known);
        let reads = stream::iter(others.copied()).map(|name| self.read(name));
        let mut files: Vec<_> = reads.buffered(AT_ONCE).try_collect().await?;
        files.push(newest);
        Ok(files)
    }
}

impl LogFile {
    /// Returns the entries of a segment.
    pub(in crate::engine) fn entries(&self) -> impl Iterator<Item = Result<&[u8], DecodeError>> {
        let mut rest = self.content.as_ref();
        std::iter::from_fn(move || (!rest.is_empty()).then(|| take(&mut rest)))
    }
}

/// Returns a key whose parts are names: the name of a cluster was checked.
pub(super) fn key(text: &str) -> RegisterKey {
    text.parse().expect("the parts are names")
}
