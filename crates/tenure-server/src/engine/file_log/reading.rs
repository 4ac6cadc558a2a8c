//! The content of a data directory: its newest snapshot, and the log behind it.

use std::path::PathBuf;

use super::folder::{Files, Folder};
use super::guarded::is_guarded;
use super::log_file::{self, End};
use crate::engine::entry::{ChangedLeases, Entry, EntryKind};
use crate::engine::snapshot::{Position, SnapshotHeader, SnapshotReader, merge};
use crate::engine::{Loaded, OpenError};
use crate::model::HistoryLimits;

/// What was read: everything but the leases that no entry of the log changed.
pub(in crate::engine) struct Reading {
    snapshot: SnapshotReader,
    /// Everything but the leases.
    pub(in crate::engine) content: Loaded<()>,
    changed: ChangedLeases,
    /// The last entry.
    pub(in crate::engine) last: Position,
    /// The files of the log that were read, with their ends.
    pub(super) logs: Vec<(PathBuf, End)>,
    /// When and where the content was moved, if it was.
    pub(in crate::engine) moved: Option<String>,
}

impl Reading {
    /// Reads the files. Returns `None` if no store was ever begun in the directory.
    ///
    /// # Errors
    ///
    /// [`OpenError::Damaged`] names the file.
    pub(in crate::engine) fn of(
        folder: &Folder,
        history: HistoryLimits,
    ) -> Result<Option<Self>, OpenError> {
        Self::before(folder, u64::MAX, history)
    }

    /// Reads the files before the one that begins with the entry `end`, which a store is writing.
    pub(super) fn before(
        folder: &Folder,
        end: u64,
        history: HistoryLimits,
    ) -> Result<Option<Self>, OpenError> {
        let Files {
            mut snapshots,
            mut logs,
        } = folder.files()?;
        let Some((covered, newest)) = snapshots.pop() else {
            return match logs.as_slice() {
                [] => Ok(None),
                // The first file of a new store exists before its snapshot.
                [(1, path)] if log_file::is_unused(path)? => Ok(None),
                [(first, _), ..] => Err(missing(folder.snapshot(first.saturating_sub(1)))),
            };
        };
        let (snapshot, mut content) = SnapshotReader::open(&newest)?;
        content.history.limit(history);
        content.is_guarded |= is_guarded(folder.path());
        let last = snapshot.header.covers;
        if last.sequence != covered {
            let detail = format!(
                "it covers the log up to entry {}, not as its name says",
                last.sequence
            );
            return Err(snapshot.damaged()(detail));
        }
        let mut reading = Self {
            snapshot,
            content,
            changed: ChangedLeases::new(),
            last,
            logs: Vec::new(),
            moved: None,
        };
        // The files before the one with the next entry are not needed any more.
        let needed = logs.iter().rposition(|(first, _)| *first <= covered + 1);
        let Some(needed) = needed else {
            return Err(missing(folder.log(covered + 1)));
        };
        logs.drain(..needed);
        logs.retain(|(first, _)| *first < end);
        reading.read_logs(logs, end == u64::MAX)?;
        reading.content.tidy();
        Ok(Some(reading))
    }

    fn read_logs(&mut self, logs: Vec<(u64, PathBuf)>, to_the_end: bool) -> Result<(), OpenError> {
        let store = self.snapshot.header.store.clone();
        let covers = self.snapshot.header.covers;
        // The first file may begin before the snapshot.
        let mut before = None;
        for (first, path) in logs {
            let damaged = |detail: String| OpenError::Damaged {
                path: path.clone(),
                detail,
            };
            let end = log_file::read(&path, &store, before, |entry, position| {
                self.add(&entry, position, covers).map_err(&damaged)
            })?;
            if before.is_none() && first == covers.sequence + 1 && end.before != covers {
                return Err(damaged("it does not follow the snapshot".into()));
            }
            before = Some(end.last);
            self.logs.push((path, end));
        }
        let Some((path, end)) = self.logs.last() else {
            return Ok(());
        };
        if to_the_end && !end.is_whole {
            return Err(OpenError::Damaged {
                path: path.clone(),
                detail: format!(
                    "it is shorter than it was, or the file after it is missing, which begins with \
                     entry {}",
                    end.last.sequence + 1
                ),
            });
        }
        // The last file may end before the snapshot, if its end is torn.
        if end.last.sequence < covers.sequence {
            return Err(OpenError::Damaged {
                path: path.clone(),
                detail: format!(
                    "it ends with entry {}, and the snapshot covers entry {}",
                    end.last.sequence, covers.sequence
                ),
            });
        }
        Ok(())
    }

    /// Adds an entry, unless the snapshot has it.
    fn add(
        &mut self,
        entry: &Entry<'_>,
        position: Position,
        covers: Position,
    ) -> Result<(), String> {
        if position.sequence <= covers.sequence {
            return match position.sequence == covers.sequence && position != covers {
                true => Err(format!(
                    "entry {} is not the one in the snapshot",
                    position.sequence
                )),
                false => Ok(()),
            };
        }
        self.content.apply(&entry.batch, &mut self.changed)?;
        self.moved =
            (entry.kind == EntryKind::Retired).then(|| entry.note.clone().unwrap_or_default());
        self.last = position;
        Ok(())
    }

    /// Returns the header of a snapshot of this content.
    pub(in crate::engine) fn header(&self, is_final: bool) -> SnapshotHeader {
        SnapshotHeader {
            store: self.snapshot.header.store.clone(),
            covers: self.last,
            is_final,
        }
    }

    /// Returns the error for a detail of the newest snapshot.
    pub(in crate::engine) fn damaged(&self) -> impl Fn(String) -> OpenError + use<> {
        self.snapshot.damaged()
    }

    /// The size of the newest snapshot in bytes.
    pub(super) const fn snapshot_bytes(&self) -> u64 {
        self.snapshot.bytes()
    }

    /// Gives all leases to `each`, in the order of their names, and returns the other content.
    pub(in crate::engine) fn leases<E: From<OpenError>>(
        mut self,
        each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Loaded<()>, E> {
        merge(&mut self.snapshot, self.changed, each)?;
        Ok(self.content)
    }
}

fn missing(path: PathBuf) -> OpenError {
    OpenError::Damaged {
        path,
        detail: "it is missing".into(),
    }
}
