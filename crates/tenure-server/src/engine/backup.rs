//! Backups of data directories, made also while a store uses them, and the files of backups.
//!
//! A backup is one snapshot. It is made of the newest snapshot and of the log, as the store itself makes
//! the next snapshot, so a running store is not disturbed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;
use tenure_core::Epoch;
use tenure_core::lease::{LeaseDuration, Stored, StoredState};

use super::entry::EntryKind;
use super::file_log::{FileLog, Folder, Reading};
use super::replica::{Replica, decoded};
use super::{AppendError, Loaded, OpenError, RecoverError};
use crate::clock;
use crate::model::HistoryLimits;

/// How often a backup of a running store is begun anew, if the store deletes files that it reads.
const ATTEMPTS: usize = 5;

/// The contents of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// The number of leases.
    pub leases: u64,
    /// The number of leases that were held, as of their last change.
    pub held: u64,
    /// The number of held leases without an expiry.
    pub infinite: u64,
    /// The revision of the last change.
    pub revision: u64,
    /// The greatest epoch, if any was granted.
    pub last_epoch: Option<u64>,
    /// The longest lease duration in it, together with the lock delay of that lease.
    pub longest: Duration,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// The behaviour if the file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave it unchanged and return [`BackupError::Exists`].
    Keep,
    /// Replace it when the backup is complete.
    Replace,
}

/// The reason why no backup was made. An existing file is unchanged. So is the store, except that a
/// final backup may have closed it: the backup can be repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The data directory can't be read, or its content is damaged.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The directory has never had a store.
    #[error("there is no store in {}", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// A store uses the directory, and a final backup needs one that is stopped.
    #[error(
        "a store uses the folder {}: stop it, and then make the final backup",
        path.display()
    )]
    Running {
        /// The directory.
        path: PathBuf,
    },
    /// The log of a cluster can't be read, or can't be closed.
    #[error("no backup of {log}: {error}")]
    Log {
        /// The service, and the place of the log in it.
        log: String,
        /// The reason.
        error: RecoverError,
    },
    /// The file exists.
    #[error("{} exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is in the data directory, and would be lost with it.
    #[error("{} lies in the store's folder and would be lost with it", path.display())]
    InsideStore {
        /// The file.
        path: PathBuf,
    },
    /// The file can't be written.
    #[error("can't write {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// Copies the leases in `data_dir` to `file`. The copy has every change that was acknowledged
/// before this call. A store may use the data directory meanwhile, and is not disturbed.
///
/// Only its owner can read the file: **it contains lease ids**, with which leases can be taken
/// over. The file gets its name only when it is complete and durable, and everything in it has passed
/// the same checks as at a start.
///
/// The call blocks.
///
/// # Errors
///
/// [`BackupError`].
pub fn backup(data_dir: &Path, file: &Path, existing: Existing) -> Result<Contents, BackupError> {
    let folder = Folder::peek(data_dir);
    check_store(&folder)?;
    let file = BackupFile::create(file, existing, Some(folder.path()))?;
    let mut attempt = 1;
    loop {
        // If no store is running, this lock prevents one from starting meanwhile.
        let lock = folder.keep_out()?;
        let copied = read(&folder).and_then(|mut it| file.write(&mut it.replica, false));
        match copied {
            // A running store deletes files that its next snapshot has, and its last entry may be
            // there in part.
            Err(BackupError::Store(_)) if lock.is_none() && attempt < ATTEMPTS => attempt += 1,
            copied => return file.publish(copied?),
        }
    }
}

/// Makes the last backup of the store in `data_dir`, which must be stopped: from then on no store
/// starts from that directory. A [`restore`](fn@super::restore) of the file goes on where the store
/// ended, so the store can be moved while its leaders lead.
///
/// **Restore the file once.** Two stores that go on from it would grant the same epochs.
///
/// If the call fails, the store of the directory may be started again, unless an earlier call has
/// succeeded. The call blocks.
///
/// # Errors
///
/// [`BackupError`].
pub fn final_backup(
    data_dir: &Path,
    file: &Path,
    existing: Existing,
) -> Result<Contents, BackupError> {
    check_store(&Folder::peek(data_dir))?;
    // No store can start during the copy.
    let folder = match Folder::open(data_dir) {
        Err(OpenError::InUse { path }) => return Err(BackupError::Running { path }),
        folder => folder?,
    };
    // A final backup of a copy would lack what the store has granted since.
    folder.check_place()?;
    let file = BackupFile::create(file, existing, Some(folder.path()))?;
    let Reading { mut replica, logs } = read(&folder)?;
    let was_moved = replica.moved.is_some();
    let contents = file.write(&mut replica, true)?;
    // The directory is closed before the file can be found. A crash in between leaves a closed
    // directory, of which this call makes a backup when it is repeated.
    let path = folder.path().to_owned();
    let mut log = FileLog::begin(folder, &replica, &logs, HistoryLimits::NONE)?;
    let not_closed = |error: AppendError| OpenError::not_written(&path, &error);
    let at = clock::rfc3339(clock::wall()).unwrap_or_default();
    let note = format!("at {at} to {}", file.name.display());
    let closed = log.write_empty(EntryKind::Retired, Some(note));
    closed.map_err(not_closed)?;
    let named = file.give_name();
    if named.is_err() && !was_moved {
        // Nobody can have found a final backup, so the store may go on here. If the file has its name,
        // and only its folder can't be synced, it may have been found.
        log.write_empty(EntryKind::Vacant, None)
            .map_err(not_closed)?;
    }
    named?()?;
    Ok(contents)
}

/// Checks that a store was begun in the directory.
fn check_store(folder: &Folder) -> Result<(), BackupError> {
    match folder.has_store()? {
        true => Ok(()),
        false => Err(no_store(folder)),
    }
}

fn read(folder: &Folder) -> Result<Reading, BackupError> {
    let reading = Reading::of(folder, HistoryLimits::NONE)?;
    reading.ok_or_else(|| no_store(folder))
}

fn no_store(folder: &Folder) -> BackupError {
    BackupError::NoStore {
        path: folder.path().to_owned(),
    }
}

/// A backup that does not have its name yet. Only the owner can read it. It is removed when this is
/// dropped.
#[derive(Debug)]
pub(super) struct BackupFile {
    /// The name that the backup gets.
    name: PathBuf,
    /// The directory of that name.
    folder: PathBuf,
    existing: Existing,
    copy: NamedTempFile,
}

impl BackupFile {
    /// Creates the file beside its later name, outside of the data directory `store`.
    pub(super) fn create(
        name: &Path,
        existing: Existing,
        store: Option<&Path>,
    ) -> Result<Self, BackupError> {
        let folder = target_folder(name, store)?;
        match fs::symlink_metadata(name) {
            Ok(_) if existing == Existing::Keep => {
                return Err(BackupError::Exists { path: name.into() });
            }
            // A device must not become a file.
            Ok(found) if !found.is_file() => {
                return Err(not_written(name, io::Error::other("it is not a file")));
            }
            _ => {}
        }
        // The file has mode 0600.
        let copy = tempfile::Builder::new()
            .prefix(".tenure-backup-")
            .tempfile_in(&folder);
        Ok(Self {
            copy: copy.map_err(|error| not_written(name, error))?,
            name: name.into(),
            folder,
            existing,
        })
    }

    /// Writes this state. Then it is durable.
    pub(super) fn write(
        &self,
        replica: &mut Replica,
        is_final: bool,
    ) -> Result<Contents, BackupError> {
        let not_written = |error| not_written(&self.name, error);
        // An earlier attempt may have left something.
        let emptied = File::options()
            .write(true)
            .truncate(true)
            .open(self.copy.path());
        let file = emptied.map_err(not_written)?;
        let mut contents = Contents::of(&replica.content);
        let path = replica.path.clone();
        contents.bytes = replica.write_file(is_final, &file, not_written, |lease| {
            contents.add(&decoded(lease, &path)?.1);
            Ok(())
        })?;
        Ok(contents)
    }

    /// Gives the file its name, and makes the name durable.
    pub(super) fn publish(self, contents: Contents) -> Result<Contents, BackupError> {
        let sync = self.give_name()?;
        sync()?;
        Ok(contents)
    }

    /// Gives the file its name. If this fails, the file has no name. Returns what makes the name durable.
    fn give_name(self) -> Result<impl FnOnce() -> Result<(), BackupError>, BackupError> {
        let Self {
            name,
            folder,
            existing,
            copy,
        } = self;
        let named = match existing {
            Existing::Keep => copy.persist_noclobber(&name),
            Existing::Replace => copy.persist(&name),
        };
        match named {
            Ok(_) => Ok(move || {
                let synced = File::open(folder).and_then(|folder| folder.sync_all());
                synced.map_err(|error| not_written(&name, error))
            }),
            Err(failure) if failure.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(BackupError::Exists { path: name })
            }
            Err(failure) => Err(not_written(&name, failure.error)),
        }
    }
}

fn not_written(file: &Path, error: io::Error) -> BackupError {
    BackupError::Io {
        path: file.into(),
        error,
    }
}

/// Returns the directory that contains `file`. It must not be the data directory.
fn target_folder(file: &Path, store: Option<&Path>) -> Result<PathBuf, BackupError> {
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let target = parent.canonicalize();
    let target = target.map_err(|error| not_written(file, error))?;
    if store.is_some_and(|store| store.canonicalize().is_ok_and(|store| store == target)) {
        return Err(BackupError::InsideStore { path: file.into() });
    }
    Ok(target)
}

impl Contents {
    /// Returns the contents of this, which has no size.
    pub(super) fn of(loaded: &Loaded) -> Self {
        let mut contents = Self {
            leases: 0,
            held: 0,
            infinite: 0,
            revision: loaded.revision,
            last_epoch: loaded.floors.greatest().map(Epoch::get),
            longest: Duration::ZERO,
            bytes: 0,
        };
        for (_, stored, _) in &loaded.leases {
            contents.add(stored);
        }
        contents
    }

    /// Adds a lease.
    pub(super) fn add(&mut self, stored: &Stored) {
        self.leases += 1;
        let Some(grant) = &stored.grant else {
            return;
        };
        self.last_epoch = self.last_epoch.max(Some(grant.epoch.get()));
        let is_held = matches!(stored.state, StoredState::Leased | StoredState::Breaking(_));
        self.held += u64::from(is_held);
        match grant.duration {
            LeaseDuration::Fixed(duration) => {
                self.longest = self.longest.max(duration + grant.lock_delay);
            }
            LeaseDuration::Infinite => self.infinite += u64::from(is_held),
        }
    }
}
