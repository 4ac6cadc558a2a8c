//! Backups: copies of a data directory, made also while a store uses it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode};
use tenure_core::lease::{LeaseDuration, StoredState};

use super::backup_file::BackupFile;
use super::folder::Folder;
use super::schema;
use crate::clock;
use crate::engine::{Loaded, OpenError, RecoverError, wal};

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
/// over. The file gets its name only when it is complete, has passed the same checks as at a start,
/// and is durable.
///
/// The call blocks.
///
/// # Errors
///
/// [`BackupError`].
pub fn backup(data_dir: &Path, file: &Path, existing: Existing) -> Result<Contents, BackupError> {
    let folder = folder_of_store(data_dir)?;
    // SQLite would silently drop the commits after damage in the write-ahead log. A running store
    // checked the log at its start and has been writing to it since. If no store is running, this
    // lock prevents one from starting during the check.
    if let Some(_lock) = folder.keep_out()? {
        wal::check(&folder.database())?;
    }
    let file = BackupFile::create(file, existing, Some(folder.path()))?;
    let loaded = copy(&folder, &file, false)?;
    file.publish(&loaded)
}

/// Makes the last backup of the store in `data_dir`, which must be stopped: from then on no store
/// starts from that directory. A [`restore`](fn@super::restore) of the file goes on where the store
/// ended, so the store can be moved while its leaders lead.
///
/// **Restore the file once.** Two stores that go on from it would grant the same epochs.
///
/// If the call fails after the directory was closed, repeat it. The call blocks.
///
/// # Errors
///
/// [`BackupError`].
pub fn final_backup(
    data_dir: &Path,
    file: &Path,
    existing: Existing,
) -> Result<Contents, BackupError> {
    folder_of_store(data_dir)?;
    // No store can start during the copy.
    let folder = match Folder::open(data_dir) {
        Err(OpenError::InUse { path }) => return Err(BackupError::Running { path }),
        folder => folder?,
    };
    wal::check(&folder.database())?;
    let file = BackupFile::create(file, existing, Some(folder.path()))?;
    let loaded = copy(&folder, &file, true)?;
    // The directory is closed before the file can be found. A crash in between leaves a directory
    // without a backup, of which this call makes one when it is repeated.
    let at = clock::rfc3339(clock::wall()).unwrap_or_default();
    folder.note_moved(&format!("at {at} to {}", file.name().display()))?;
    file.publish(&loaded)
}

/// Opens the data directory of a store.
fn folder_of_store(data_dir: &Path) -> Result<Folder, BackupError> {
    let folder = Folder::peek(data_dir);
    folder.check_not_restoring()?;
    if !folder.is_marked()? {
        return Err(BackupError::NoStore {
            path: data_dir.into(),
        });
    }
    Ok(folder)
}

/// Copies the database of the store to this file.
fn copy(folder: &Folder, file: &BackupFile, is_final: bool) -> Result<Loaded, BackupError> {
    // Read before the copy is made, because a running store continues to change its files.
    let began = folder.began()?;
    let database = folder.database();
    let not_read = |error| BackupError::from(schema::broken(&database, &error));
    let store = schema::connect_to_read(&database).map_err(not_read)?;
    copy_pages(&store, file.path()).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::DatabaseBusy) => {
            not_read(error)
        }
        _ => file.failed(&error),
    })?;
    let loaded = file.complete(&database, is_final)?;
    // The copy includes the changes that only the write-ahead log has.
    folder.check_revision(began, loaded.revision)?;
    Ok(loaded)
}

/// Copies all pages as of one commit.
///
/// The connection to the store's database only reads, so it never moves the write-ahead log into
/// the database. Only the store does that, because it must not miss the errors of the fsyncs.
/// During the copy the log only grows. The copy is written without an fsync, which is fastest; the
/// caller makes it durable.
fn copy_pages(store: &Connection, copy: &Path) -> rusqlite::Result<()> {
    let mut copied = Connection::open(copy)?;
    copied.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;")?;
    // All pages are copied in one step, which is one transaction. With several steps, each commit
    // of the store would restart the copy.
    match Backup::new(store, &mut copied)?.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            None,
        )),
    }
}

impl Contents {
    /// Computes the contents from the loaded leases, which take this number of bytes on disk.
    pub(in crate::engine) fn of(loaded: &Loaded, bytes: u64) -> Self {
        let mut contents = Self {
            leases: loaded.leases.len() as u64,
            held: 0,
            infinite: 0,
            revision: loaded.revision,
            last_epoch: loaded.last_epoch().map(tenure_core::Epoch::get),
            longest: Duration::ZERO,
            bytes,
        };
        for (_, stored, _) in &loaded.leases {
            let Some(grant) = &stored.grant else {
                continue;
            };
            let is_held = matches!(stored.state, StoredState::Leased | StoredState::Breaking(_));
            contents.held += u64::from(is_held);
            match grant.duration {
                LeaseDuration::Fixed(duration) => {
                    contents.longest = contents.longest.max(duration + grant.lock_delay);
                }
                LeaseDuration::Infinite => contents.infinite += u64::from(is_held),
            }
        }
        contents
    }
}
