//! The state of all leases as of an entry of the log.

use std::io::Cursor;
use std::path::Path;

use axum::body::Bytes;

use crate::engine::entry::{ChangedLease, ChangedLeases, Entry, columns, put};
use crate::engine::snapshot::{Position, SnapshotHeader, SnapshotReader, SnapshotWriter, decoded};
use crate::engine::{LeaseList, Loaded, OpenError};
use crate::model::{Floors, HistoryLimits, StoreId};

/// The number of entries after which the names of deleted leases are forgotten.
const TIDY_EVERY: u64 = 4_096;

/// The state of all leases as of an entry of the log.
#[derive(Debug, Default)]
pub(in crate::engine) struct Replica {
    /// Everything but the leases.
    content: Loaded<()>,
    leases: ChangedLeases,
    /// The last entry that was applied.
    pub(in crate::engine) at: Position,
}

impl Replica {
    /// Creates the replica of an empty log.
    pub(in crate::engine) fn empty(history: HistoryLimits) -> Self {
        let mut replica = Self::default();
        replica.content.history.limit(history);
        replica
    }

    /// Reads a snapshot. The name is for errors.
    pub(in crate::engine) fn read(
        name: &str,
        snapshot: Vec<u8>,
        history: HistoryLimits,
    ) -> Result<Self, String> {
        let bytes = snapshot.len() as u64;
        let read = || {
            let from = Cursor::new(snapshot);
            let (mut reader, mut content) = SnapshotReader::over(Path::new(name), from, bytes)?;
            content.history.limit(history);
            let mut leases = ChangedLeases::new();
            let damaged = reader.damaged();
            while let Some((key, bytes)) = reader.next_lease()? {
                let lease = ChangedLease::whole(bytes).map_err(&damaged)?;
                leases.insert(key, lease);
            }
            Ok(Self {
                content,
                leases,
                at: reader.header.covers,
            })
        };
        read().map_err(|error: OpenError| match error {
            OpenError::Damaged { detail, .. } => format!("{name}: {detail}"),
            other => other.to_string(),
        })
    }

    /// The state of a backup, as of this entry.
    pub(in crate::engine) fn of(
        loaded: Loaded,
        revision: u64,
        floors: Floors,
        at: Position,
    ) -> Result<Self, String> {
        let mut leases = ChangedLeases::new();
        for (key, stored, revision) in &loaded.leases {
            let mut bytes = Vec::new();
            put(
                &mut bytes,
                &columns(key, stored, &stored.retired, *revision),
            );
            leases.insert(key.clone(), ChangedLease::whole(&bytes)?);
        }
        let mut content = loaded.map(drop);
        (content.revision, content.floors) = (revision, floors);
        Ok(Self {
            content,
            leases,
            at,
        })
    }

    /// Applies the next entry. An entry that was applied already changes nothing.
    pub(in crate::engine) fn apply(&mut self, bytes: &[u8]) -> Result<(), String> {
        let entry = Entry::decode(bytes).map_err(|it| format!("an entry has no {}", it.0))?;
        let sequence = entry.sequence;
        if sequence <= self.at.sequence {
            return Ok(());
        }
        if sequence != self.at.sequence + 1 || entry.follows != self.at.checksum {
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
        self.at = Position {
            sequence,
            checksum: crc32fast::hash(bytes),
        };
        if sequence.is_multiple_of(TIDY_EVERY) {
            self.tidy();
        }
        Ok(())
    }

    fn tidy(&mut self) {
        self.leases.retain(|_, lease| !lease.is_deleted());
        self.content.tidy();
    }

    /// Notes what each entry says about the store.
    pub(in crate::engine) fn note(&mut self, store: &StoreId, is_guarded: bool) {
        self.content.is_guarded |= is_guarded;
        if self.content.store_id.as_ref() != Some(store) {
            self.content.store_id = Some(store.clone());
        }
    }

    /// Returns the revision of the last change.
    pub(in crate::engine) const fn revision(&self) -> u64 {
        self.content.revision
    }

    /// Returns the state as a snapshot.
    pub(in crate::engine) fn snapshot(&mut self) -> Result<Bytes, String> {
        self.tidy();
        let header = SnapshotHeader {
            store: self.content.store_id.clone().unwrap_or_default(),
            covers: self.at,
            is_final: false,
        };
        let mut bytes = Vec::new();
        let writer = SnapshotWriter::begin(&mut bytes, &header, &self.content);
        let mut writer = writer.map_err(|error| error.to_string())?;
        for lease in self.encoded() {
            let written = writer.encoded_lease(lease?);
            written.map_err(|error| error.to_string())?;
        }
        writer.finish().map_err(|error| error.to_string())?;
        Ok(bytes.into())
    }

    /// Returns the state for a store.
    pub(in crate::engine) fn loaded(&mut self) -> Result<Loaded, String> {
        self.tidy();
        let damaged = |detail| OpenError::Damaged {
            path: "the log".into(),
            detail,
        };
        let decode = |lease: Result<&[u8], String>| {
            decoded(lease?, &damaged).map_err(|error: OpenError| error.to_string())
        };
        let leases: LeaseList = self.encoded().map(decode).collect::<Result<_, _>>()?;
        Ok(self.content.clone().map(|()| leases))
    }

    /// Returns the encoded leases, in the order of their names.
    fn encoded(&self) -> impl Iterator<Item = Result<&[u8], String>> {
        self.leases.iter().filter_map(|(key, lease)| {
            let encoded = lease.encoded().transpose()?;
            Some(encoded.map_err(|detail| format!("lease {}: {detail}", key.as_str())))
        })
    }
}
