//! A log in the files of a data directory, written by one thread.
//!
//! ```text
//! data_dir/                          0700
//!   lock                             locked while a store uses the directory; where that is
//!   snapshot-00000000000000000000    all leases as of an entry of the log: its name has the number
//!   log-00000000000000000001         the entries after it; its name has the number of the first one
//!   snapshot.new, log.new            the next snapshot and the next file, before they have a name
//!   snapshot.restoring               during a restore
//!   GUARDED                          if the store had access control
//!   RESTORED                         after a restore: its time and its backup, until the audit log
//!                                    has them
//! ```
//!
//! An append is one write and one sync. The space of a file of the log is reserved before it is used,
//! so a full disk shows as a failed reservation, and no entry is written in half. When the log has
//! grown enough, a thread makes a new snapshot of the old one and of the files that are complete, and
//! deletes them.
//!
//! The next start detects files and entries that were lost or changed: each entry and each file names
//! what it follows. Nothing is ever repaired silently.

mod folder;
mod log_file;
mod place;
mod reading;
mod snapshots;

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracing::{error, warn};

use super::entry::{Entry, EntryKind, Position};
use super::replica::Replica;
use super::{AppendError, Batch, Loaded, LoadedLease, Log, OpenError};
use crate::disk_full::is_disk_full;
use crate::model::{ChangeSet, HistoryLimits, StoreId};
use crate::random::OsRandom;

use self::folder::size;
use self::log_file::{End, LogFile};
use self::snapshots::Snapshots;

pub(super) use folder::{Folder, restore_note};
pub use folder::{is_guarded, mark_guarded};
pub(super) use reading::Reading;

/// A log, open for appends.
#[derive(Debug)]
pub(super) struct FileLog {
    /// Dropped before the directory is unlocked, so that its thread has ended by then.
    snapshots: Snapshots,
    store: StoreId,
    file: LogFile,
    /// The file before, if its unused space was not given back yet.
    complete: Option<LogFile>,
    /// Space for the next file.
    next: Option<LogFile>,
    /// Whether there was no space for the next file, which is logged once.
    lacks_space: bool,
    last: Position,
    /// The revision of the last change.
    revision: u64,
    /// The bytes of the next entry, kept to reuse the memory.
    frame: Vec<u8>,
    /// The data directory, locked while the log is open.
    folder: Folder,
}

/// Opens or creates the log in `data_dir`, and adds its leases to `leases`. The next revisions are
/// greater than `least`. Nothing is written to an existing directory before all of it was read.
pub(super) fn open(
    data_dir: &Path,
    history: HistoryLimits,
    least: u64,
    leases: &mut impl Extend<LoadedLease>,
) -> Result<(Loaded, FileLog), OpenError> {
    let folder = Folder::open(data_dir)?;
    folder.check_place()?;
    let (loaded, log) = open_in(folder, history, least, leases)?;
    log.folder.note_place()?;
    Ok((loaded, log))
}

/// The same in a directory that may be a copy.
pub(in crate::engine) fn open_in(
    folder: Folder,
    history: HistoryLimits,
    least: u64,
    leases: &mut impl Extend<LoadedLease>,
) -> Result<(Loaded, FileLog), OpenError> {
    folder.check_not_restoring()?;
    for path in [folder.unfinished_snapshot(), folder.unused_log()] {
        // It is truncated before its next use, so it only takes space.
        let _ = fs::remove_file(path);
    }
    let reading = match Reading::of(&folder, history)? {
        Some(reading) => reading,
        None => {
            folder.check_is_new()?;
            create(&folder, history)?
        }
    };
    if let Some(note) = reading.replica.moved {
        let path = folder.path().to_owned();
        return Err(OpenError::Moved { path, note });
    }
    let Reading { mut replica, logs } = reading;
    replica.leases(|lease| leases.extend([lease]))?;
    let mut log = FileLog::begin(folder, &replica, &logs, history)?;
    let batch = Batch::empty(log.revision, least.max(log.revision + 1));
    let begun = log.write(EntryKind::Begun, None, &batch);
    begun.map_err(|error| OpenError::not_written(&log.file.path, &error))?;
    replica.content.revision = batch.revision;
    Ok((replica.content, log))
}

/// Creates the files of a new store.
fn create(folder: &Folder, history: HistoryLimits) -> Result<Reading, OpenError> {
    let mut replica = Replica::default();
    replica.note(&StoreId::random(&mut OsRandom), false);
    place(folder, &folder.unfinished_snapshot(), &mut replica)?;
    match Reading::of(folder, history)? {
        Some(reading) => Ok(reading),
        None => Err(OpenError::not_written(
            folder.path(),
            "another program deletes the files of the store",
        )),
    }
}

/// Writes the first snapshot of a directory, and an empty file of the log behind it. The snapshot has the
/// name `path` until it gets its own, which is the last step: a directory with a snapshot is complete.
pub(in crate::engine) fn place(
    folder: &Folder,
    path: &Path,
    replica: &mut Replica,
) -> Result<(), OpenError> {
    let covers = replica.at.sequence;
    let written = folder.write_snapshot(path, replica, |_| Ok(()));
    let written = written.and_then(|_| {
        let name = || {
            file_after(replica, folder)?;
            folder.name_snapshot(path, covers)
        };
        name().map_err(OpenError::io(folder.path()))
    });
    if written.is_err() {
        // Nothing here could pass for a store, also if only the last sync failed.
        for file in [&folder.snapshot(covers), &folder.log(covers + 1), path] {
            let _ = fs::remove_file(file);
        }
        let _ = folder.sync();
    }
    written
}

/// Begins a file of the log behind this state. Its name is durable once the directory is synced.
fn file_after(replica: &Replica, folder: &Folder) -> io::Result<LogFile> {
    let store = replica.content.store_id.clone().unwrap_or_default();
    let path = folder.log(replica.at.sequence + 1);
    LogFile::reserve(folder.unused_log(), 0)?.begin(path, &store, replica.at)
}

impl FileLog {
    /// Begins to append after the last entry of this state, in a new file. These are the files before it,
    /// with their ends.
    pub(super) fn begin(
        folder: Folder,
        replica: &Replica,
        before: &[(PathBuf, End)],
        history: HistoryLimits,
    ) -> Result<Self, OpenError> {
        if let Some((path, end)) = before.last() {
            log_file::write_again(path, end.at).map_err(OpenError::io(path))?;
        }
        let file = file_after(replica, &folder).and_then(|file| {
            folder.sync()?;
            Ok(file)
        });
        let file = file.map_err(OpenError::io(folder.path()))?;
        for (path, end) in before {
            // A file with the same name had no entry, and was replaced. If the new file were lost, a file
            // before it that has its whole length would pass for the last one.
            if *path != file.path && end.is_whole {
                log_file::cut(path, end.at).map_err(OpenError::io(path))?;
            }
        }
        Ok(Self {
            snapshots: Snapshots::new(folder.path(), history),
            store: replica.content.store_id.clone().unwrap_or_default(),
            file,
            complete: None,
            next: None,
            lacks_space: false,
            last: replica.at,
            revision: replica.revision(),
            frame: Vec::new(),
            folder,
        })
    }

    /// Appends an entry.
    pub(super) fn write(
        &mut self,
        kind: EntryKind,
        note: Option<String>,
        batch: &Batch,
    ) -> Result<(), AppendError> {
        let entry = Entry {
            sequence: self.last.sequence + 1,
            follows: self.last.checksum,
            kind,
            note,
            batch: Cow::Borrowed(batch),
        };
        self.frame.clear();
        let mut checksum = self.file.frame(&entry, &mut self.frame);
        if !self.file.fits(self.frame.len()) {
            self.begin_next()?;
            self.frame.clear();
            checksum = self.file.frame(&entry, &mut self.frame);
        }
        self.file.append(&self.frame)?;
        self.last = Position {
            sequence: entry.sequence,
            checksum,
        };
        self.revision = batch.revision;
        Ok(())
    }

    /// Appends an entry without changes.
    pub(super) fn write_empty(
        &mut self,
        kind: EntryKind,
        note: Option<String>,
    ) -> Result<(), AppendError> {
        let batch = Batch::empty(self.revision, self.revision);
        self.write(kind, note, &batch)
    }

    /// Ends the log of a copy: from now on its files belong where they are. These floors come before.
    pub(in crate::engine) fn accept(mut self, floors: &Batch) -> Result<(), OpenError> {
        let written = self.append(floors, &[]).and_then(|()| self.close());
        written.map_err(|error| OpenError::not_written(&self.file.path, &error))?;
        self.folder.note_place()
    }

    /// Begins the next file of the log, into which the frame fits.
    fn begin_next(&mut self) -> Result<(), AppendError> {
        let frame = self.frame.len();
        let next = match self.next.take().filter(|next| next.fits(frame)) {
            Some(next) => Ok(next),
            None => LogFile::reserve(self.folder.unused_log(), log_file::HEADER + frame as u64),
        };
        let path = self.folder.log(self.last.sequence + 1);
        let begun = next.and_then(|next| next.begin(path, &self.store, self.last));
        // Nothing was appended, so a later attempt may succeed.
        let file = begun.map_err(|error| {
            let text = format!("{}: {error}", self.folder.unused_log().display());
            match is_disk_full(&error) {
                true => AppendError::DiskFull(text),
                false => AppendError::Busy(text),
            }
        })?;
        let named = self.folder.sync();
        named.map_err(|error| AppendError::Unknown(format!("{}: {error}", file.path.display())))?;
        self.complete = Some(std::mem::replace(&mut self.file, file));
        self.snapshots.look();
        self.lacks_space = false;
        Ok(())
    }

    /// Gives back the unused space of the file before.
    fn cut(&mut self) {
        if let Some(file) = self.complete.take()
            && let Err(error) = log_file::cut(&file.path, file.at)
        {
            warn!(%error, file = %file.path.display(), "the unused end of a file stays");
        }
    }

    /// Reserves space for the next file in time.
    fn reserve(&mut self) {
        if self.next.is_some() || !self.file.is_half_full() {
            return;
        }
        match LogFile::reserve(self.folder.unused_log(), 0) {
            Ok(next) => self.next = Some(next),
            Err(error) if !self.lacks_space => {
                self.lacks_space = true;
                self.snapshots.look();
                warn!(%error, "no space for the next file of the log; changes go on while the current file has room");
            }
            Err(_) => {}
        }
    }
}

impl Log for FileLog {
    fn append(&mut self, batch: &Batch, _: &[ChangeSet]) -> Result<(), AppendError> {
        self.write(EntryKind::Changes, None, batch)
    }

    fn confirm(&mut self) -> Result<(), AppendError> {
        // No other process can have opened the data directory.
        Ok(())
    }

    fn upkeep(&mut self) -> Result<(), AppendError> {
        self.cut();
        self.reserve();
        self.snapshots.go_on(self.file.first, self.lacks_space);
        Ok(())
    }

    fn close(&mut self) -> Result<(), AppendError> {
        self.snapshots.stop();
        self.cut();
        let _ = fs::remove_file(self.folder.unused_log());
        match self.write_empty(EntryKind::Vacant, None) {
            Err(error) if error.is_transient() => {
                error!(%error, "the log has no mark of this end; nothing is lost");
                Ok(())
            }
            written => written,
        }
    }
}

/// Returns the sizes of the snapshots and of the log in bytes.
pub(crate) fn sizes(data_dir: &Path) -> [(&'static str, u64); 2] {
    let files = Folder::peek(data_dir).files().unwrap_or_default();
    [
        ("snapshot", size(&files.snapshots)),
        ("log", size(&files.logs)),
    ]
}

#[cfg(test)]
mod tests;
