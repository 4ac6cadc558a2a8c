//! The state of all leases as of an entry of a log.

use std::fs::File;
use std::io::{self, Cursor, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::entry::{ChangedLeases, EncodedLease, Entry, EntryKind, Position, SnapshotHeader};
use super::snapshot::{SnapshotReader, SnapshotWriter};
use super::{LeaseList, Loaded, LoadedLease, OpenError};
use crate::model::{HistoryLimits, LeaseKey, StoreId};

/// The number of entries after which the names of deleted leases are forgotten.
const TIDY_EVERY: u64 = 4_096;

/// The state of all leases as of an entry of a log: a snapshot, and the changes of the entries after it.
#[derive(Debug, Default)]
pub(super) struct Replica {
    /// Everything but the leases.
    pub(super) content: Loaded,
    /// The snapshot, if its leases were not read yet.
    snapshot: Option<SnapshotReader>,
    /// All leases, or those that the entries after the snapshot changed.
    leases: ChangedLeases,
    /// The last entry that was applied.
    pub(super) at: Position,
    /// When and where the content was moved, if it was.
    pub(super) moved: Option<String>,
    /// The snapshot is the last backup of a store that was stopped for good.
    pub(super) is_final: bool,
    /// The name of the snapshot, for errors.
    pub(super) path: PathBuf,
}

impl Replica {
    /// Creates the replica of an empty log.
    pub(super) fn empty(history: HistoryLimits) -> Self {
        let mut replica = Self::default();
        replica.content.history.limit(history);
        replica
    }

    /// Opens a snapshot, whose leases are read when they are needed. A second use of them is an error.
    pub(super) fn open(path: &Path, history: HistoryLimits) -> Result<Self, OpenError> {
        let snapshot = SnapshotReader::open(path)?;
        Ok(Self::over(snapshot, history))
    }

    /// Reads all of a snapshot. The name is for errors.
    pub(super) fn read(
        name: &str,
        snapshot: Vec<u8>,
        history: HistoryLimits,
    ) -> Result<Self, String> {
        let snapshot = SnapshotReader::over(Path::new(name), Cursor::new(snapshot));
        let read = snapshot.and_then(|snapshot| Self::over(snapshot, history).load());
        read.map_err(|error| match error {
            OpenError::Damaged { detail, .. } => format!("{name}: {detail}"),
            other => other.to_string(),
        })
    }

    /// Reads the leases of the snapshot. Then they can be used again and again.
    pub(super) fn load(mut self) -> Result<Self, OpenError> {
        if let Some(mut snapshot) = self.snapshot.take() {
            while let Some((key, lease)) = snapshot.next_lease()? {
                self.leases.insert(key, Some(lease.into_owned()));
            }
        }
        Ok(self)
    }

    fn over(
        (snapshot, header, mut content): (SnapshotReader, SnapshotHeader, Loaded),
        history: HistoryLimits,
    ) -> Self {
        content.history.limit(history);
        Self {
            content,
            path: snapshot.path.clone(),
            snapshot: Some(snapshot),
            leases: ChangedLeases::new(),
            at: header.covers,
            moved: None,
            is_final: header.is_final,
        }
    }

    /// Applies the next entry. An entry that was applied already changes nothing.
    pub(super) fn apply(&mut self, bytes: &[u8]) -> Result<(), String> {
        let entry = Entry::decode(bytes).map_err(|error| format!("an entry: {error}"))?;
        self.add(&entry, crc32fast::hash(bytes))
    }

    /// Returns whether this entry follows the last one.
    pub(super) fn is_next(&self, entry: &Entry<'_>) -> bool {
        entry.sequence == self.at.sequence + 1 && entry.follows == self.at.checksum
    }

    /// Applies the next entry, which has this checksum.
    pub(super) fn add(&mut self, entry: &Entry<'_>, checksum: u32) -> Result<(), String> {
        let sequence = entry.sequence;
        if sequence <= self.at.sequence {
            return Ok(());
        }
        if !self.is_next(entry) {
            return Err(format!(
                "entry {sequence} does not follow entry {}",
                self.at.sequence
            ));
        }
        // The first entry of a log begins its revisions.
        if self.at == Position::default() {
            self.content.revision = entry.batch.previous;
        }
        self.content
            .apply(&entry.batch, &mut self.leases)
            .map_err(|detail| format!("entry {sequence}: {detail}"))?;
        self.at = Position { sequence, checksum };
        self.moved =
            (entry.kind == EntryKind::Retired).then(|| entry.note.clone().unwrap_or_default());
        if sequence.is_multiple_of(TIDY_EVERY) {
            self.tidy();
        }
        Ok(())
    }

    /// Notes what each entry says about the store.
    pub(super) fn note(&mut self, store: &StoreId, is_guarded: bool) {
        self.content.is_guarded |= is_guarded;
        if self.content.store_id.as_ref() != Some(store) {
            self.content.store_id = Some(store.clone());
        }
    }

    /// Returns the revision of the last change.
    pub(super) const fn revision(&self) -> u64 {
        self.content.revision
    }

    /// Returns the state as a snapshot.
    pub(super) fn snapshot(&mut self) -> Result<Bytes, String> {
        let mut bytes = Vec::new();
        let to = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        let written = self.write(false, to, |_| Ok(()));
        written.map_err(|error: OpenError| error.to_string())?;
        Ok(bytes.into())
    }

    /// Writes the state as a snapshot, and shows each lease to `each`. Returns the size in bytes.
    fn write<E: From<OpenError>>(
        &mut self,
        is_final: bool,
        to: impl FnMut(&[u8]) -> Result<(), E>,
        mut each: impl FnMut(LeaseOf<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.tidy();
        let header = SnapshotHeader {
            store: self.content.store_id.clone().unwrap_or_default(),
            covers: self.at,
            revision: self.content.revision,
            is_final,
            is_guarded: self.content.is_guarded,
        };
        let mut writer = SnapshotWriter::begin(to, header, &self.content)?;
        self.encoded(|lease| {
            writer.lease(lease.0, lease.1)?;
            each(lease)
        })?;
        writer.finish()
    }

    /// Writes the state as a snapshot into an empty file, and shows each lease to `each`. Returns the size
    /// in bytes. Then all of it is durable.
    pub(super) fn write_file<E: From<OpenError>>(
        &mut self,
        is_final: bool,
        file: &File,
        not_written: impl Fn(io::Error) -> E,
        each: impl FnMut(LeaseOf<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let to = |part: &[u8]| {
            let mut file = file;
            let written = file.write_all(part).and_then(|()| file.sync_data());
            written.map_err(&not_written)
        };
        let bytes = self.write(is_final, to, each)?;
        file.sync_all().map_err(not_written)?;
        Ok(bytes)
    }

    /// Returns the state for a store.
    pub(super) fn loaded(&mut self) -> Result<Loaded, OpenError> {
        let mut leases = LeaseList::new();
        self.leases(|lease| leases.push_back(lease))?;
        Ok(Loaded {
            leases,
            ..self.content.clone()
        })
    }

    /// Gives all leases to `each`, in the order of their names.
    pub(super) fn leases(&mut self, mut each: impl FnMut(LoadedLease)) -> Result<(), OpenError> {
        self.tidy();
        let path = self.path.clone();
        self.encoded(|lease| {
            each(decoded(lease, &path)?);
            Ok(())
        })
    }

    /// Gives all leases to `each`, in the order of their names.
    fn encoded<E: From<OpenError>>(
        &mut self,
        mut each: impl FnMut(LeaseOf<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = &self.path;
        let mut finish = |key: &LeaseKey,
                          change: Option<&EncodedLease<'_>>,
                          before: Option<&EncodedLease<'_>>| {
            let Some(change) = change else {
                return Ok(());
            };
            let after = change.after(before).map_err(|detail| {
                OpenError::damaged(path, format!("{}: {detail}", key.as_str()))
            })?;
            each((key, &after))
        };
        let mut changed = self.leases.iter().peekable();
        if let Some(snapshot) = &mut self.snapshot {
            while let Some((key, lease)) = snapshot.next_lease()? {
                while let Some((next, change)) = changed.next_if(|(it, _)| **it < key) {
                    finish(next, change.as_ref(), None)?;
                }
                match changed.next_if(|(it, _)| **it == key) {
                    Some((_, change)) => finish(&key, change.as_ref(), Some(&lease))?,
                    // A snapshot has whole leases.
                    None => finish(&key, Some(&lease), None)?,
                }
            }
        }
        changed.try_for_each(|(key, change)| finish(key, change.as_ref(), None))
    }

    /// Forgets what is no longer needed. A deletion is needed until the snapshot was read.
    fn tidy(&mut self) {
        if self.snapshot.is_none() {
            self.leases.retain(|_, lease| lease.is_some());
        }
        self.content.tidy();
    }
}

/// A lease in encoded form, with its name.
pub(super) type LeaseOf<'a> = (&'a LeaseKey, &'a EncodedLease<'a>);

/// Decodes a lease of a snapshot. An error names this file.
pub(super) fn decoded((key, lease): LeaseOf<'_>, path: &Path) -> Result<LoadedLease, OpenError> {
    let lease = lease.decode(key);
    lease.map_err(|detail| OpenError::damaged(path, detail))
}
