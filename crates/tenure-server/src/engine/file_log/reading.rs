//! The content of a data directory: its newest snapshot, and the log behind it.

use std::fs;
use std::path::PathBuf;

use super::folder::{Files, Folder, is_guarded};
use super::log_file::{self, End};
use crate::engine::OpenError;
use crate::engine::replica::Replica;
use crate::model::HistoryLimits;

/// What was read: everything but the leases that no entry of the log changed.
pub(in crate::engine) struct Reading {
    pub(in crate::engine) replica: Replica,
    /// The files of the log that were read, with their ends.
    pub(super) logs: Vec<(PathBuf, End)>,
    /// The size of the snapshot in bytes.
    pub(super) snapshot_bytes: u64,
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
        let mut replica = Replica::open(&newest, history)?;
        replica.content.is_guarded |= is_guarded(folder.path());
        if replica.at.sequence != covered {
            let detail = format!(
                "it covers the log up to entry {}, not as its name says",
                replica.at.sequence
            );
            return Err(OpenError::damaged(&newest, detail));
        }
        // The files before the one with the next entry are not needed any more.
        let needed = logs.iter().rposition(|(first, _)| *first <= covered + 1);
        let Some(needed) = needed else {
            return Err(missing(folder.log(covered + 1)));
        };
        logs.drain(..needed);
        logs.retain(|(first, _)| *first < end);
        let metadata = fs::metadata(&newest).map_err(OpenError::io(&newest))?;
        let mut reading = Self {
            replica,
            logs: Vec::new(),
            snapshot_bytes: metadata.len(),
        };
        reading.read_logs(logs, end == u64::MAX)?;
        Ok(Some(reading))
    }

    fn read_logs(&mut self, logs: Vec<(u64, PathBuf)>, to_the_end: bool) -> Result<(), OpenError> {
        let store = self.replica.content.store_id.clone().unwrap_or_default();
        // The first file may begin before the snapshot.
        let mut before = None;
        for (_, path) in logs {
            let end = log_file::read(&path, &store, before, |entry, checksum| {
                let added = self.replica.add(&entry, checksum);
                added.map_err(|detail| OpenError::damaged(&path, detail))
            })?;
            before = Some(end.last);
            self.logs.push((path, end));
        }
        let Some((path, end)) = self.logs.last() else {
            return Ok(());
        };
        let last = end.last.sequence;
        if to_the_end && !end.is_whole {
            let detail = format!(
                "it is shorter than it was, or the file after it is missing, which begins with entry {}",
                last + 1
            );
            return Err(OpenError::damaged(path, detail));
        }
        // It may end before the snapshot, if its end is torn, or with another entry.
        let covered = self.replica.at;
        if end.last != covered {
            let covered = covered.sequence;
            let detail = format!(
                "it ends with entry {last}, and the snapshot covers another entry {covered}"
            );
            return Err(OpenError::damaged(path, detail));
        }
        Ok(())
    }
}

fn missing(path: PathBuf) -> OpenError {
    OpenError::damaged(&path, "it is missing")
}
