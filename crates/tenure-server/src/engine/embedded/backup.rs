//! Backups: copies of a data directory, made also while a store uses it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode};
use tenure_core::lease::{LeaseDuration, StoredState};

use super::check::Checked;
use super::folder::Folder;
use super::{check, schema};
use crate::engine::{Loaded, OpenError, wal};

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

/// The reason why no backup was made. The store and an existing file are unchanged.
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
    let target = target_folder(file, &folder)?;
    if existing == Existing::Keep && fs::symlink_metadata(file).is_ok() {
        return Err(BackupError::Exists { path: file.into() });
    }
    let failed = |error| BackupError::Io {
        path: file.into(),
        error,
    };
    // Read before the copy is made, because a running store continues to change its files.
    let began = folder.began()?;
    // The file has mode 0600, and is removed if the backup fails.
    let copy = tempfile::Builder::new()
        .prefix(".tenure-backup-")
        .tempfile_in(&target)
        .map_err(failed)?;
    let not_written = |error: rusqlite::Error| failed(io::Error::other(error));
    let database = folder.database();
    let not_read = |error| BackupError::from(schema::broken(&database, &error));
    let store = schema::connect_to_read(&database).map_err(not_read)?;
    copy_pages(&store, copy.path()).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::DatabaseBusy) => {
            not_read(error)
        }
        _ => not_written(error),
    })?;
    let checked = {
        let connection = schema::connect_to_copy(copy.path()).map_err(not_written)?;
        let mut checked = check::load(&connection, &database)?;
        // The tables of the copy are brought up to date, for people who read it.
        apply_batches(&connection, &mut checked).map_err(not_written)?;
        checked
    };
    // The copy includes the changes that only the write-ahead log has.
    folder.check_revision(began, checked.loaded.revision)?;
    copy.as_file().sync_all().map_err(failed)?;
    let contents = Contents::of(&checked.loaded, copy.path()).map_err(failed)?;
    let named = match existing {
        Existing::Keep => copy.persist_noclobber(file),
        Existing::Replace => copy.persist(file),
    };
    named.map_err(|failure| match failure.error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists { path: file.into() },
        _ => failed(failure.error),
    })?;
    let sync = || File::open(&target)?.sync_all();
    sync().map_err(failed)?;
    Ok(contents)
}

/// Opens the data directory of a store and checks its write-ahead log.
fn folder_of_store(data_dir: &Path) -> Result<Folder, BackupError> {
    let folder = Folder::peek(data_dir);
    folder.check_not_restoring()?;
    if !folder.is_marked()? {
        return Err(BackupError::NoStore {
            path: data_dir.into(),
        });
    }
    // SQLite would silently drop the commits after damage in the write-ahead log. A running store
    // checked the log at its start and has been writing to it since. If no store is running, this
    // lock prevents one from starting during the check.
    if let Some(_lock) = folder.keep_out()? {
        wal::check(&folder.database())?;
    }
    Ok(folder)
}

/// Returns the directory that contains `file`. It must not be the data directory.
fn target_folder(file: &Path, store: &Folder) -> Result<PathBuf, BackupError> {
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let real = |path: &Path| path.canonicalize();
    let target = real(parent).map_err(|error| BackupError::Io {
        path: file.into(),
        error,
    })?;
    if real(store.path()).is_ok_and(|store| store == target) {
        return Err(BackupError::InsideStore { path: file.into() });
    }
    Ok(target)
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

/// Applies the batches of the copy to its tables. No term is forgotten here.
pub(super) fn apply_batches(copy: &Connection, checked: &mut Checked) -> rusqlite::Result<()> {
    let transaction = copy.unchecked_transaction()?;
    let Checked { meta, backlog, .. } = checked;
    backlog.write_slice(&transaction, meta, u32::MAX as usize, usize::MAX)?;
    transaction.commit()
}

impl Contents {
    /// Computes the contents of the database `path` from its loaded leases.
    pub(super) fn of(loaded: &Loaded, path: &Path) -> io::Result<Self> {
        let mut contents = Self {
            leases: loaded.leases.len() as u64,
            held: 0,
            infinite: 0,
            revision: loaded.revision,
            last_epoch: loaded.last_epoch().map(tenure_core::Epoch::get),
            longest: Duration::ZERO,
            bytes: fs::metadata(path)?.len(),
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
        Ok(contents)
    }
}
