//! A store's folder made from a backup.
//!
//! The backup lacks what the store granted after it was taken, and no other candidate may be granted that
//! again: epochs and revisions go on from far above.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tenure_core::{Epoch, UnixMillis};

use super::backup::Contents;
use super::check::Checked;
use super::folder::{self, Folder, check_file, private};
use super::schema::{self, Meta};
use super::{backup, check};
use crate::clock;
use crate::engine::{OpenError, wal};

/// How far above the clock, and above all that is in the backup, epochs go on: a day in
/// milliseconds, which is what an epoch counts. The store that was lost may have had a clock that was
/// ahead of this one's, and a day is more than a wrong time zone makes.
const EPOCHS_AHEAD: u64 = 24 * 60 * 60 * 1000;

/// How many numbers a restored store must have left, if it is to be worth anything: more than it grants
/// in years, and a day for each of a thousand further restores.
pub(super) const EPOCHS_LEFT: u64 = 1000 * EPOCHS_AHEAD;

/// How far above the backup's revisions go on: more changes than a store makes in years.
const REVISIONS_AHEAD: u64 = 1 << 40;

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The contents of the backup.
    pub contents: Contents,
    /// All grants from now on have a greater epoch than this.
    pub epochs_above: u64,
    /// All changes from now on have a greater revision than this.
    pub revisions_above: u64,
}

/// Why nothing was restored. The backup is as it was. In the folder there is no store, or the one
/// that was there before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backup can't be read, or was written by a newer version.
    #[error(transparent)]
    Backup(OpenError),
    /// The file is not a backup, or is not as it was written. Use another one.
    #[error("{} is damaged or no backup ({detail}); nothing was restored", path.display())]
    Damaged {
        /// The backup.
        path: PathBuf,
        /// The inconsistency.
        detail: String,
    },
    /// The folder can't be used: see [`OpenError`].
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// A store made of it could grant hardly anything: epochs must go on above the backup's greatest one,
    /// and that is close to [`Epoch::MAX`].
    #[error(
        "{}: its greatest epoch is {last} of {}, which leaves too few above it; nothing was restored. Start a new \
         store on an empty folder: its epochs are greater than those that came from a right clock",
        path.display(),
        Epoch::MAX
    )]
    EpochsUsedUp {
        /// The backup.
        path: PathBuf,
        /// Its greatest epoch.
        last: u64,
    },
    /// There is a store in the folder, or a part of one. It is never overwritten: name another folder,
    /// or move the old one away.
    #[error("{} is there: nothing is restored over a store, use another folder", path.display())]
    StoreThere {
        /// The file that belongs to it.
        path: PathBuf,
    },
}

/// Makes a store in `data_dir` from the backup `file`.
///
/// Its leases are as they were when the backup was taken; those that were held count as renewed when
/// the store is started, as always. Every later grant of any lease has an epoch above all that the
/// lost store can have granted, as long as its wall clock was not more than a day ahead of this
/// machine's, and revisions go on from far above.
///
/// **Terms that began after the backup are unknown to it.** See to it that the old store is stopped,
/// and start the restored one when the longest lease duration in use has passed since: by then all
/// leaders of that time have stopped. [`Contents::longest`] is the longest of the backup.
///
/// A restore that was cut short leaves a folder in which no store starts, and may be done again.
///
/// It blocks.
///
/// # Errors
///
/// [`RestoreError`].
pub fn restore(file: &Path, data_dir: &Path) -> Result<Restored, RestoreError> {
    let unreadable = |error| {
        let path = file.to_owned();
        RestoreError::Backup(OpenError::Io { path, error })
    };
    let backup = File::open(file).map_err(unreadable)?;
    if !backup.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is no file")));
    }
    let folder = Folder::open(data_dir)?;
    if let Some(path) = folder.trace_of_a_store() {
        return Err(RestoreError::StoreThere { path });
    }
    check_file(file, true).map_err(refused)?;
    let restoring = folder.restoring();
    let restored = copy(backup, &folder).and_then(|()| raise(&restoring, file));
    if restored.is_err() {
        // There is nothing that could pass for a store. If it stays, no store starts.
        let _ = fs::remove_file(&restoring);
        let _ = folder.sync();
        return restored;
    }
    // From here on a missing database is damage; and while it has this name, no store starts.
    folder.mark()?;
    let at = clock::rfc3339(clock::wall()).unwrap_or_default();
    folder.note_restore(&format!("restored at {at} from {}", file.display()))?;
    let database = folder.database();
    let name = || {
        fs::rename(&restoring, &database)?;
        folder.sync()
    };
    name().map_err(OpenError::io(&database))?;
    restored
}

/// The time and the backup of the restore that made the store in `data_dir`, until
/// [`forget_restore`]; `None` if no backup was restored there. A folder that was copied without
/// [`restore`] does not know it.
#[must_use]
pub fn restore_note(data_dir: &Path) -> Option<String> {
    fs::read_to_string(folder::restore_note(data_dir)).ok()
}

/// Removes the note of a restore. Call this when the audit log has it.
///
/// # Errors
///
/// The file can't be removed.
pub fn forget_restore(data_dir: &Path) -> io::Result<()> {
    fs::remove_file(folder::restore_note(data_dir))
}

/// Copies the backup to where it is restored.
fn copy(mut backup: File, folder: &Folder) -> Result<(), RestoreError> {
    let path = folder.restoring();
    let mut write = || {
        let mut copy = private().truncate(true).open(&path)?;
        // The directory entry is durable before any content.
        folder.sync()?;
        // Journals that an interrupted restore left behind do not belong to this copy.
        for left in [wal::with_suffix(&path, "-journal"), wal::log_of(&path)] {
            match fs::remove_file(left) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        io::copy(&mut backup, &mut copy)?;
        copy.sync_all()
    };
    Ok(write().map_err(OpenError::io(&path))?)
}

/// Why this is no backup to restore from.
fn refused(error: OpenError) -> RestoreError {
    match error {
        OpenError::Damaged { path, detail } => RestoreError::Damaged { path, detail },
        error => RestoreError::Backup(error),
    }
}

/// Checks the copy whole, and lets epochs and revisions go on from far above.
fn raise(copy: &Path, backup: &Path) -> Result<Restored, RestoreError> {
    let broken = |error: rusqlite::Error| refused(schema::broken(backup, &error));
    let connection = schema::connect_to_copy(copy).map_err(broken)?;
    let mut checked = check::load(&connection, backup).map_err(refused)?;
    backup::apply_batches(&connection, &mut checked).map_err(broken)?;
    let Checked { loaded, meta, .. } = checked;
    let contents = Contents::of(&loaded, copy).map_err(OpenError::io(copy))?;
    let last = loaded.last_epoch();
    let floor = far_above(last, clock::wall()).ok_or_else(|| RestoreError::EpochsUsedUp {
        path: backup.to_owned(),
        last: last.map_or(0, Epoch::get),
    })?;
    let raised = Meta {
        revision: meta.revision.saturating_add(REVISIONS_AHEAD),
        floor: Some(floor),
        ..meta
    };
    raised.write(&connection).map_err(broken)?;
    Ok(Restored {
        contents,
        epochs_above: floor.get(),
        revisions_above: raised.revision,
    })
}

/// Above what a store can have granted until now, whose last epoch was once `last`; `None` if too few
/// are left above that.
fn far_above(last: Option<Epoch>, wall: UnixMillis) -> Option<Epoch> {
    let last = last.map_or(0, Epoch::get);
    let floor = last.max(wall.get()).saturating_add(EPOCHS_AHEAD);
    Epoch::new(floor).filter(|floor| floor.get() <= Epoch::MAX.get() - EPOCHS_LEFT)
}
