//! Restores: data directories that are created from a backup.
//!
//! The backup lacks the grants that the store made after the backup. No other candidate may be
//! granted their epochs again, so epochs and revisions continue far above those of the backup.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::NamedTempFile;
use tenure_core::Epoch;

use super::backup::Contents;
use super::backup_file::apply_batches;
use super::check::Checked;
use super::folder::{self, Folder, check_file, private};
use super::schema::{self, Meta};
use super::{check, final_mark, term_rows};
use crate::clock;
use crate::engine::{LeaseList, Loaded, OpenError, RecoverError, wal};
use crate::model::{Floors, LeaseKey, TermRecord};

/// The distance by which revisions continue above those of the backup: more changes than a store
/// makes in years.
pub(in crate::engine) const REVISIONS_AHEAD: u64 = 1 << 40;

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
    /// The backup has documents of other protocols, which the log of a cluster has no place for.
    /// Restore it into a data directory.
    #[error(
        "{} has {count} blobs of the Azure Blob lease protocol, which {log} can't keep; nothing was \
         restored. Restore it into a folder",
        path.display()
    )]
    Documents {
        /// The backup.
        path: PathBuf,
        /// The number of documents.
        count: usize,
        /// The service, and the place of the log in it.
        log: String,
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
    let backup = open(file)?;
    let folder = Folder::open(data_dir)?;
    if let Some(path) = folder.trace_of_a_store() {
        return Err(RestoreError::StoreThere { path });
    }
    check_file(file, true).map_err(refused)?;
    let restoring = folder.restoring();
    let restored = copy(backup, &folder).and_then(|()| raise(&restoring, file));
    if restored.is_err() {
        // No file here could pass for a store. If this file stays, no store starts.
        let _ = fs::remove_file(&restoring);
        let _ = folder.sync();
        return restored;
    }
    // From here on a missing database is damage. While the database still has its temporary name,
    // no store starts.
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

/// Opens a backup.
fn open(file: &Path) -> Result<File, RestoreError> {
    let unreadable = |error| {
        let path = file.to_owned();
        RestoreError::Backup(OpenError::Io { path, error })
    };
    let backup = File::open(file).map_err(unreadable)?;
    match backup.metadata().map_err(unreadable)?.is_file() {
        true => Ok(backup),
        false => Err(unreadable(io::Error::other("it is not a file"))),
    }
}

/// Returns the time and the backup of the restore that created the store in `data_dir`, until
/// [`forget_restore`]; `None` if no backup was restored there. A directory that was copied without
/// [`restore`] has no such note.
#[must_use]
pub fn restore_note(data_dir: &Path) -> Option<String> {
    fs::read_to_string(folder::restore_note(data_dir)).ok()
}

/// Removes the note of a restore. Call this when the audit log contains the restore.
///
/// # Errors
///
/// The file can't be removed.
pub fn forget_restore(data_dir: &Path) -> io::Result<()> {
    fs::remove_file(folder::restore_note(data_dir))
}

/// Copies the backup to the path of a database that is being restored.
fn copy(mut backup: File, folder: &Folder) -> Result<(), RestoreError> {
    let path = folder.restoring();
    let mut write = || {
        let mut copy = private().truncate(true).open(&path)?;
        // The directory entry is durable before any content.
        folder.sync()?;
        // Journals that an interrupted restore left do not belong to this copy.
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

/// Converts an error of the check into the reason why the file is refused as a backup.
fn refused(error: OpenError) -> RestoreError {
    match error {
        OpenError::Damaged { path, detail } => RestoreError::Damaged { path, detail },
        error => RestoreError::Backup(error),
    }
}

/// Checks the whole copy, and raises its epochs and revisions far above those of the backup, unless
/// that is a final one.
fn raise(copy: &Path, backup: &Path) -> Result<Restored, RestoreError> {
    let broken = |error: rusqlite::Error| refused(schema::broken(backup, &error));
    let examined = Examined::of(copy, backup, None)?;
    let next = examined.next(backup)?;
    let raised = Meta {
        revision: next.revision,
        floors: next.floors,
        ..examined.meta
    };
    raised.write(&examined.connection).map_err(broken)?;
    final_mark::remove(&examined.connection).map_err(broken)?;
    Ok(next.restored)
}

/// A copy of a backup that passed all checks.
#[derive(Debug)]
pub(in crate::engine) struct Examined {
    connection: Connection,
    meta: Meta,
    pub(in crate::engine) loaded: Loaded,
    contents: Contents,
    is_final: bool,
    /// The copy, if it goes away with this.
    _copy: Option<NamedTempFile>,
}

/// The position at which a restored store goes on.
#[derive(Debug)]
pub(in crate::engine) struct Next {
    /// All changes have a greater revision.
    pub(in crate::engine) revision: u64,
    /// No epoch up to its floor is granted.
    pub(in crate::engine) floors: Floors,
    /// The same for people.
    pub(in crate::engine) restored: Restored,
}

impl Examined {
    /// Checks a backup, which stays as it is.
    pub(in crate::engine) fn open(file: &Path) -> Result<Self, RestoreError> {
        let mut backup = open(file)?;
        check_file(file, true).map_err(refused)?;
        // The file has mode 0600.
        let copied = NamedTempFile::new().and_then(|mut copy| {
            io::copy(&mut backup, &mut copy)?;
            Ok(copy)
        });
        let copy = copied.map_err(OpenError::io(std::env::temp_dir()))?;
        let path = copy.path().to_owned();
        Self::of(&path, file, Some(copy))
    }

    /// Checks this copy of a backup, and brings its tables up to date.
    fn of(
        copy: &Path,
        backup: &Path,
        temporary: Option<NamedTempFile>,
    ) -> Result<Self, RestoreError> {
        let broken = |error: rusqlite::Error| refused(schema::broken(backup, &error));
        let connection = schema::connect_to_copy(copy).map_err(broken)?;
        let mut checked = check::load(&connection, backup, LeaseList::new()).map_err(refused)?;
        apply_batches(&connection, &mut checked).map_err(broken)?;
        let Checked { loaded, meta, .. } = checked;
        let is_final = final_mark::is_there(&connection, loaded.revision).map_err(broken)?;
        let bytes = fs::metadata(copy).map_err(OpenError::io(copy))?.len();
        let contents = Contents::of(&loaded, bytes);
        Ok(Self {
            connection,
            meta,
            loaded,
            contents,
            is_final,
            _copy: temporary,
        })
    }

    /// Returns the position at which a store that is restored from this backup goes on.
    pub(in crate::engine) fn next(&self, backup: &Path) -> Result<Next, RestoreError> {
        let loaded = &self.loaded;
        let (revision, floors, above) = match self.is_final {
            true => (loaded.revision, loaded.floors.clone(), loaded.last_epoch()),
            false => {
                let floors = loaded.restored_floors();
                let floors = floors.map_err(|last| RestoreError::EpochsUsedUp {
                    path: backup.to_owned(),
                    last: last.get(),
                })?;
                let revision = loaded.revision.saturating_add(REVISIONS_AHEAD);
                let above = floors.of_all();
                (revision, floors, above)
            }
        };
        let restored = Restored {
            contents: self.contents.clone(),
            is_final: self.is_final,
            epochs_above: above.map_or(0, Epoch::get),
            revisions_above: revision,
        };
        Ok(Next {
            revision,
            floors,
            restored,
        })
    }

    /// Gives all segments of terms to `each`, with the first epoch of each.
    ///
    /// # Errors
    ///
    /// The first error of `each`, or a message about a segment that is not valid.
    pub(in crate::engine) fn for_terms<E: From<OpenError>>(
        &self,
        backup: &Path,
        mut each: impl FnMut(LeaseKey, Vec<TermRecord>) -> Result<(), E>,
    ) -> Result<(), E> {
        let broken = |error: rusqlite::Error| E::from(schema::broken(backup, &error));
        let select = self.connection.prepare(term_rows::SELECT_ALL);
        let mut select = select.map_err(broken)?;
        let mut rows = select.query([]).map_err(broken)?;
        while let Some(row) = rows.next().map_err(broken)? {
            let (key, terms) = term_rows::read_all(row).map_err(broken)?;
            each(key, terms)?;
        }
        Ok(())
    }
}
