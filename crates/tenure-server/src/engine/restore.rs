//! Restores: data directories that are created from a backup.
//!
//! The backup lacks the grants that the store made after the backup. No other candidate may be
//! granted their epochs again, so epochs and revisions continue far above those of the backup.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tenure_core::Epoch;

use super::backup::Contents;
use super::entry::Position;
use super::file_log::{Folder, mark_guarded, open_in, place, restore_note as note_of};
use super::replica::Replica;
use super::{Batch, LeaseList, Loaded, OpenError, RecoverError};
use crate::clock;
use crate::model::HistoryLimits;

/// The distance by which revisions continue above those of a backup: more changes than a store makes in
/// years.
pub(super) const REVISIONS_AHEAD: u64 = 1 << 40;

/// The greatest length of the note of a restore, in bytes.
const MOST_OF_A_NOTE: u64 = 16 << 10;

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The contents of the backup.
    pub contents: Contents,
    /// The backup is a final one: the store was stopped for good before, so the restored one may
    /// start at once.
    pub is_final: bool,
    /// All grants from now on have a greater epoch than this one.
    pub epochs_above: u64,
    /// All changes from now on have a greater revision than this one.
    pub revisions_above: u64,
}

impl Restored {
    /// Raises the floors and the revision of this content, for a store that may lack later changes of
    /// it: see [`Floors::restored`](crate::model::Floors::restored). The error is an epoch that is too
    /// great.
    pub(super) fn above(loaded: &mut Loaded) -> Result<Self, Epoch> {
        let contents = Contents::of(loaded);
        let leases = loaded.leases.iter();
        let last = leases
            .filter_map(|(key, stored, _)| Some((key.namespace(), stored.grant.as_ref()?.epoch)));
        loaded.floors = loaded.floors.restored(last, clock::wall())?;
        loaded.revision = loaded.revision.saturating_add(REVISIONS_AHEAD);
        Ok(Self {
            contents,
            is_final: false,
            epochs_above: loaded.floors.of_all().map_or(0, Epoch::get),
            revisions_above: loaded.revision,
        })
    }
}

/// The reason why nothing was restored. The backup is unchanged. The data directory has no store,
/// or the store that it had before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backup can't be read, or was written by a newer version.
    #[error(transparent)]
    Backup(OpenError),
    /// The file is not a backup, or it was changed since it was written. Use another one.
    #[error("{} is damaged or is not a backup ({detail}); nothing was restored", path.display())]
    Damaged {
        /// The backup.
        path: PathBuf,
        /// The inconsistency.
        detail: String,
    },
    /// The data directory can't be used: see [`OpenError`].
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// A store restored from this backup could grant hardly any lease: its epochs must be greater
    /// than those of the backup, whose greatest one is close to [`Epoch::MAX`].
    #[error(
        "{}: its greatest epoch is {last} of {}, which leaves too few epochs for grants; nothing was \
         restored. Start a new store on an empty folder: its epochs are greater than all epochs \
         from a correct clock",
        path.display(),
        Epoch::MAX
    )]
    EpochsUsedUp {
        /// The backup.
        path: PathBuf,
        /// The backup's greatest epoch.
        last: u64,
    },
    /// The log of a cluster can't be written.
    #[error("nothing was restored into {log}: {error}")]
    Log {
        /// The service, and the place of the log in it.
        log: String,
        /// The reason.
        error: RecoverError,
    },
    /// The directory has a store, or a part of one. It is never overwritten: name another
    /// directory, or move the old one away.
    #[error("{} exists: a restore never overwrites a store, use another folder", path.display())]
    StoreThere {
        /// The file that belongs to it.
        path: PathBuf,
    },
}

/// Creates a store in `data_dir` from the backup `file`.
///
/// Leases are restored as they were when the backup was taken. As at every start, held leases count
/// as renewed when the store starts. Every later grant of any lease has an epoch above all epochs
/// that the lost store can have granted for it, provided that its wall clock was at most a day ahead
/// of this machine's, and that since the backup no request has raised an epoch of that lease by more
/// than 30 days. Revisions continue far above those of the backup.
///
/// **The backup does not know terms that began after it was taken.** Make sure that the old store
/// is stopped. Start the restored one only after the longest lease duration in use has passed since
/// the old store stopped: by then all leaders of that time have stopped. [`Contents::longest`] is
/// the longest duration in the backup.
///
/// A [final](super::final_backup) backup lacks nothing, so a restore of it goes on at its next epoch
/// and revision, and may start at once.
///
/// An interrupted restore leaves a directory in which no store starts. The restore may be repeated.
///
/// The call blocks.
///
/// # Errors
///
/// [`RestoreError`].
pub fn restore(file: &Path, data_dir: &Path) -> Result<Restored, RestoreError> {
    let (mut replica, restored) = open_backup(file)?;
    let folder = Folder::open(data_dir)?;
    if let Some(path) = folder.trace_of_a_store()? {
        return Err(RestoreError::StoreThere { path });
    }
    // It comes first: whatever else an interrupted restore leaves must not pass for a store.
    folder.begin_restore()?;
    folder.delete_before(0, u64::MAX);
    let at = clock::rfc3339(clock::wall()).unwrap_or_default();
    if replica.content.is_guarded {
        mark_guarded(data_dir).map_err(OpenError::io(data_dir))?;
    }
    folder.note_restore(&format!("restored at {at} from {}", file.display()))?;
    // An entry of the old log never continues this one.
    replica.at = Position {
        sequence: replica.at.sequence + 1,
        checksum: 0,
    };
    let placed = place(&folder, &folder.restoring(), &mut replica);
    if placed.is_err() {
        let _ = forget_restore(data_dir);
    }
    placed?;
    folder.note_place()?;
    Ok(restored)
}

/// Accepts a data directory that was copied, and that no store starts from: see [`OpenError::Copied`].
/// Epochs and revisions continue far above those of the copy, as after a [`restore`] of a backup that
/// was made when the directory was copied. The same conditions hold.
///
/// The call blocks.
///
/// # Errors
///
/// [`RestoreError`]; [`RestoreError::StoreThere`] if the directory is no copy, as far as that is known.
pub fn accept_copy(data_dir: &Path) -> Result<Restored, RestoreError> {
    let folder = Folder::open(data_dir)?;
    let Err(OpenError::Copied { path, written }) = folder.check_place() else {
        let path = data_dir.to_owned();
        return Err(RestoreError::StoreThere { path });
    };
    let at = clock::rfc3339(clock::wall()).unwrap_or_default();
    folder.note_restore(&format!("accepted at {at} as a copy of {written}"))?;
    let accept = || {
        let mut leases = LeaseList::new();
        let (mut loaded, log) = open_in(folder, HistoryLimits::NONE, 0, &mut leases)?;
        loaded.leases = leases;
        let previous = loaded.revision;
        let restored = Restored::above(&mut loaded).map_err(used_up(&path))?;
        log.accept(&Batch::of_floors(previous, loaded.revision, &loaded.floors))?;
        Ok(restored)
    };
    let accepted = accept();
    if accepted.is_err() {
        let _ = forget_restore(data_dir);
    }
    accepted
}

/// Returns the time and the backup of the restore that created the store in `data_dir`, until
/// [`forget_restore`]; `None` if no backup was restored there. A directory that was copied without
/// [`restore`] has no such note.
#[must_use]
pub fn restore_note(data_dir: &Path) -> Option<String> {
    let mut note = Vec::new();
    let file = File::open(note_of(data_dir)).ok()?;
    file.take(MOST_OF_A_NOTE).read_to_end(&mut note).ok()?;
    Some(String::from_utf8_lossy(&note).into_owned())
}

/// Removes the note of a restore. Call this when the audit log contains the restore.
///
/// # Errors
///
/// The file can't be removed.
pub fn forget_restore(data_dir: &Path) -> io::Result<()> {
    fs::remove_file(note_of(data_dir))
}

/// Reads and checks a backup. Returns the state with which a store that is restored from it goes on: all
/// changes have a greater revision, and no epoch up to a floor is granted.
pub(super) fn open_backup(file: &Path) -> Result<(Replica, Restored), RestoreError> {
    let read = || {
        let metadata = fs::metadata(file).map_err(OpenError::io(file))?;
        if !metadata.is_file() {
            return Err(OpenError::io(file)(io::Error::other("it is not a file")));
        }
        let mut replica = Replica::open(file, HistoryLimits::NONE)?.load()?;
        let loaded = replica.loaded()?;
        Ok((replica, loaded, metadata.len()))
    };
    let (mut replica, mut loaded, bytes) = read().map_err(refused)?;
    let mut restored = match replica.is_final {
        true => {
            let contents = Contents::of(&loaded);
            Restored {
                is_final: true,
                epochs_above: contents.last_epoch.unwrap_or(0),
                revisions_above: loaded.revision,
                contents,
            }
        }
        false => Restored::above(&mut loaded).map_err(used_up(file))?,
    };
    restored.contents.bytes = bytes;
    replica.content.revision = loaded.revision;
    replica.content.floors = loaded.floors;
    Ok((replica, restored))
}

fn used_up(path: &Path) -> impl FnOnce(Epoch) -> RestoreError {
    let path = path.to_owned();
    |last| RestoreError::EpochsUsedUp {
        path,
        last: last.get(),
    }
}

/// Converts an error of the check into the reason why the file is refused as a backup.
fn refused(error: OpenError) -> RestoreError {
    match error {
        OpenError::Damaged { path, detail } => RestoreError::Damaged { path, detail },
        error => RestoreError::Backup(error),
    }
}
