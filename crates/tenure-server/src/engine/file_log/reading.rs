//! The content of a data directory: its newest snapshot, and the log behind it.

use std::path::{Path, PathBuf};

use super::folder::{Files, Folder, is_guarded};
use super::log_file::{self, End};
use crate::engine::OpenError;
use crate::engine::replica::Replica;
use crate::model::HistoryLimits;

/// What was read: everything but the leases that no entry of the log changed.
pub(in crate::engine) struct Reading {
    pub(in crate::engine) replica: Replica,
    /// The files of the log that were read, with their ends.
    pub(in crate::engine) logs: Vec<(PathBuf, End)>,
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
                [(first, _), ..] => Err(missing(&folder.snapshot(first.saturating_sub(1)))),
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
        // A snapshot covers complete files, so the next one begins behind it.
        logs.retain(|(first, _)| *first > covered);
        if logs.first().is_none_or(|(first, _)| *first != covered + 1) {
            return Err(missing(&folder.log(covered + 1)));
        }
        logs.retain(|(first, _)| *first < end);
        let mut ends: Vec<(PathBuf, End)> = Vec::new();
        for (_, path) in logs {
            let end = log_file::read(&path, &mut replica)?;
            ends.push((path, end));
        }
        if let Some((path, last)) = ends.last()
            && end == u64::MAX
            && !last.is_whole
        {
            let detail = format!(
                "it is shorter than it was, or the file after it is missing, which begins with entry {}",
                replica.at.sequence + 1
            );
            return Err(OpenError::damaged(path, detail));
        }
        Ok(Some(Self {
            replica,
            logs: ends,
        }))
    }
}

fn missing(path: &Path) -> OpenError {
    OpenError::damaged(path, "it is missing")
}
