//! A copy of a store's folder, also while a store uses it.

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
    /// How many leases it has.
    pub leases: u64,
    /// How many of these are held, as of their last change.
    pub held: u64,
    /// How many of these are held by infinite leases.
    pub infinite: u64,
    /// The revision of the last change in it.
    pub revision: u64,
    /// The greatest epoch that it knows of, if any.
    pub last_epoch: Option<u64>,
    /// The longest that a lease in it lasts without a renewal, together with its lock delay.
    pub longest: Duration,
    /// The size of the file.
    pub bytes: u64,
}

/// The behaviour if the file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave it as it is: [`BackupError::Exists`].
    Keep,
    /// Replace it when the backup is complete.
    Replace,
}

/// Why no backup was made. The store and an existing file are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The folder can't be read, or its content is damaged.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// No store was ever made in the folder.
    #[error("there is no store in {}", path.display())]
    NoStore {
        /// The folder.
        path: PathBuf,
    },
    /// The file exists.
    #[error("{} exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is in the store's folder, and would be lost with it.
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

/// Copies the leases in `data_dir` to `file`, as of now: every change that was acknowledged before
/// this call is in it. A store may use the folder meanwhile, and is not disturbed.
///
/// The file is for its owner only: **it has lease ids**, with which leases can be taken over. It gets
/// its name when it is whole, was checked as at a start, and is on disk.
///
/// It blocks.
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
    // Before the copy is made: a store that runs goes on.
    let began = folder.began()?;
    // Its mode is 0600, and it is gone again if this fails.
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
        // For people who read the copy.
        apply_batches(&connection, &mut checked).map_err(not_written)?;
        checked
    };
    // The copy includes changes that only the log has.
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

/// The folder of a store whose log may be believed.
fn folder_of_store(data_dir: &Path) -> Result<Folder, BackupError> {
    let folder = Folder::peek(data_dir);
    folder.check_not_restoring()?;
    if !folder.is_marked()? {
        return Err(BackupError::NoStore {
            path: data_dir.into(),
        });
    }
    // SQLite would silently drop the commits after damage in the write-ahead log. A store that runs has
    // checked it at its start, and writes to it all the time; if none runs, none can start during the check.
    if let Some(_lock) = folder.keep_out()? {
        wal::check(&folder.database())?;
    }
    Ok(folder)
}

/// The folder that `file` is in, if it is another one than the store's.
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
/// The connection to the store's database only reads, so it never moves the log: checkpoints are the
/// store's own, which must not miss the errors of their fsyncs. While it reads, the log only grows.
/// So this writes without an fsync, which takes the least time; the caller makes it durable.
fn copy_pages(store: &Connection, copy: &Path) -> rusqlite::Result<()> {
    let mut copied = Connection::open(copy)?;
    copied.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;")?;
    // All pages in one step, which is one transaction: in several, each commit of the store would
    // begin the copy anew.
    match Backup::new(store, &mut copied)?.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            None,
        )),
    }
}

/// Brings the tables of the copy up to its batches. No term is forgotten here.
pub(super) fn apply_batches(copy: &Connection, checked: &mut Checked) -> rusqlite::Result<()> {
    let transaction = copy.unchecked_transaction()?;
    let Checked { meta, backlog, .. } = checked;
    backlog.write_slice(&transaction, meta, u32::MAX as usize, usize::MAX)?;
    transaction.commit()
}

impl Contents {
    /// The contents of the database `path`, from which these were loaded.
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
