//! The data directory: private, locked, and never silently created again.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::OpenError;
use crate::engine::replica::{LeaseOf, Replica};

/// The time for which a start tries to take the lock: the process of a killed store may not have
/// ended yet.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// A data directory. Either this process alone uses it until this value is dropped, or this process
/// only reads it.
#[derive(Debug)]
pub(in crate::engine) struct Folder {
    path: PathBuf,
    /// The lock file. The operating system releases the lock when the process ends, for any reason.
    _lock: Option<File>,
}

/// The files of a log and its snapshots, each kind in order.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The snapshots, by the number of the last entry that they cover.
    pub(super) snapshots: Vec<(u64, PathBuf)>,
    /// The files of the log, by the number of their first entry.
    pub(super) logs: Vec<(u64, PathBuf)>,
}

impl Folder {
    pub(in crate::engine) fn open(path: &Path) -> Result<Self, OpenError> {
        let path = path.to_owned();
        if path.exists() && !path.is_dir() {
            return Err(OpenError::NotAFolder { path });
        }
        // Only the owner may read the directory: the lease ids in it allow others to take over
        // leases.
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&path);
        made.map_err(OpenError::io(&path))?;
        let lock = lock_of(&path);
        for name in OWN_NAMES {
            check_is_file(&path.join(name))?;
        }
        let file = private().open(&lock).map_err(OpenError::io(&lock))?;
        let started = Instant::now();
        while !try_lock(&file, &lock)? {
            if started.elapsed() >= LOCK_PATIENCE {
                return Err(OpenError::InUse { path });
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self {
            path,
            _lock: Some(file),
        })
    }

    /// Returns a data directory that is only read: it is not created, locked or changed.
    pub(in crate::engine) fn peek(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            _lock: None,
        }
    }

    /// Locks a directory that is only read, so that no store starts on it. Returns `None` if a
    /// store uses it now.
    pub(in crate::engine) fn keep_out(&self) -> Result<Option<File>, OpenError> {
        let lock = self.lock();
        check_is_file(&lock)?;
        let file = File::open(&lock).map_err(OpenError::io(&lock))?;
        Ok(try_lock(&file, &lock)?.then_some(file))
    }

    pub(in crate::engine) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the lock file, which is never replaced.
    pub(super) fn lock(&self) -> PathBuf {
        lock_of(&self.path)
    }

    /// Returns the path of the snapshot that covers the entries up to this one.
    pub(super) fn snapshot(&self, covers: u64) -> PathBuf {
        self.path.join(format!("snapshot-{covers:020}"))
    }

    /// Returns the path of the file of the log that begins with this entry.
    pub(super) fn log(&self, first: u64) -> PathBuf {
        self.path.join(format!("log-{first:020}"))
    }

    /// Returns the path of a snapshot that is being written.
    pub(super) fn unfinished_snapshot(&self) -> PathBuf {
        self.path.join("snapshot.new")
    }

    /// Returns the path of a file of the log that has no entry yet.
    pub(super) fn unused_log(&self) -> PathBuf {
        self.path.join("log.new")
    }

    /// Returns the path of a snapshot that is being restored. While this file exists, no store starts.
    pub(in crate::engine) fn restoring(&self) -> PathBuf {
        self.path.join("snapshot.restoring")
    }

    /// Makes the mark of a restore that is not complete.
    pub(in crate::engine) fn begin_restore(&self) -> Result<(), OpenError> {
        let path = self.restoring();
        let begun = overwrite(&path, &[]).and_then(|()| self.sync());
        begun.map_err(OpenError::io(path))
    }

    /// Checks that no unfinished restore left its files here: they must not pass for a new store.
    pub(super) fn check_not_restoring(&self) -> Result<(), OpenError> {
        let path = self.restoring();
        match fs::exists(&path).map_err(OpenError::io(&path))? {
            true => Err(OpenError::RestoreCutShort { path }),
            false => Ok(()),
        }
    }

    /// Returns whether the directory has a store.
    pub(in crate::engine) fn has_store(&self) -> Result<bool, OpenError> {
        self.check_not_restoring()?;
        match self.path.exists() {
            true => Ok(!self.files()?.snapshots.is_empty()),
            false => Ok(false),
        }
    }

    /// Returns a file that shows that the directory has, or had, a store: nothing may be restored
    /// over it. A log beside a snapshot that is being restored may come from an unfinished restore.
    pub(in crate::engine) fn trace_of_a_store(&self) -> Result<Option<PathBuf>, OpenError> {
        let files = self.files()?;
        let is_restoring = self.check_not_restoring().is_err();
        let logs = files.logs.into_iter().filter(|_| !is_restoring);
        let mut files = files.snapshots.into_iter().chain(logs);
        Ok(files.next().map(|(_, path)| path))
    }

    /// Returns the files of the store.
    pub(super) fn files(&self) -> Result<Files, OpenError> {
        let mut files = Files::default();
        for entry in fs::read_dir(&self.path).map_err(OpenError::io(&self.path))? {
            let entry = entry.map_err(OpenError::io(&self.path))?;
            let name = entry.file_name();
            let Some((kind, number)) = name.to_str().and_then(|name| name.split_once('-')) else {
                continue;
            };
            let is_number = number.len() == 20 && number.bytes().all(|it| it.is_ascii_digit());
            let Some(number) = number.parse().ok().filter(|_| is_number) else {
                continue;
            };
            let of_kind = match kind {
                "snapshot" => &mut files.snapshots,
                "log" => &mut files.logs,
                _ => continue,
            };
            check_is_file(&entry.path())?;
            of_kind.push((number, entry.path()));
        }
        files.snapshots.sort_unstable();
        files.logs.sort_unstable();
        Ok(files)
    }

    /// Returns the marks that are there.
    pub(super) fn marks(&self) -> impl Iterator<Item = PathBuf> {
        let marks = [self.path.join(MARK), restore_note(&self.path)];
        marks
            .into_iter()
            .filter(|it| fs::symlink_metadata(it).is_ok())
    }

    /// Deletes the snapshots before the one that covers the entry `covers`, and the files of the log
    /// before the one that begins with the entry `first`. Files that stay are deleted next time.
    pub(in crate::engine) fn delete_before(&self, covers: u64, first: u64) {
        let files = self.files().unwrap_or_default();
        let snapshots = files.snapshots.into_iter().filter(|(it, _)| *it < covers);
        let logs = files.logs.into_iter().filter(|(it, _)| *it < first);
        for (_, path) in snapshots.chain(logs) {
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(%error, file = %path.display(), "can't delete a file that is not needed any more");
            }
        }
    }

    /// Writes a snapshot, whose name at first is `path`, and shows each lease to `each`. Returns its size
    /// in bytes.
    pub(super) fn write_snapshot(
        &self,
        path: &Path,
        replica: &mut Replica,
        each: impl FnMut(LeaseOf<'_>) -> Result<(), OpenError>,
    ) -> Result<u64, OpenError> {
        let not_written = |error| OpenError::io(path)(error);
        let file = private().truncate(true).open(path).map_err(not_written)?;
        // While a restore is interrupted, its file is there, and no store starts.
        self.sync().map_err(not_written)?;
        replica.write_file(false, &file, not_written, each)
    }

    /// Gives the snapshot at `path` its name, with which it counts.
    pub(super) fn name_snapshot(&self, path: &Path, covers: u64) -> io::Result<()> {
        fs::rename(path, self.snapshot(covers))?;
        self.sync()
    }

    /// Makes the names in the directory durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Notes that the store of this directory was restored from a backup, for the audit log of its
    /// next start.
    pub(in crate::engine) fn note_restore(&self, text: &str) -> Result<(), OpenError> {
        let note = restore_note(&self.path);
        overwrite(&note, text.as_bytes()).map_err(OpenError::io(&note))
    }
}

/// Replaces the content of a file that only its owner can read, and makes it durable.
pub(super) fn overwrite(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = private().truncate(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// The names of files that are opened.
const OWN_NAMES: [&str; 6] = [
    "lock",
    "snapshot.new",
    "log.new",
    "snapshot.restoring",
    "RESTORED",
    MARK,
];

/// Checks that this is a file, if it exists: to open a pipe may take for ever.
fn check_is_file(path: &Path) -> Result<(), OpenError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(OpenError::io(path)(io::Error::other("it is not a file")))
        }
        _ => Ok(()),
    }
}

fn lock_of(folder: &Path) -> PathBuf {
    folder.join("lock")
}

/// Returns the size of these files in bytes.
pub(super) fn size(files: &[(u64, PathBuf)]) -> u64 {
    let sizes = files.iter().filter_map(|(_, path)| fs::metadata(path).ok());
    sizes.map(|metadata| metadata.len()).sum()
}

/// Tries to lock the file. Returns whether it succeeded.
fn try_lock(file: &File, path: &Path) -> Result<bool, OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(OpenError::io(path)(error)),
    }
}

/// Returns the path of the file that marks a store as restored from a backup, until the audit log
/// contains the restore.
pub(in crate::engine) fn restore_note(data_dir: &Path) -> PathBuf {
    data_dir.join("RESTORED")
}

/// The name of the mark of a data directory whose store had access control.
const MARK: &str = "GUARDED";

const MARK_TEXT: &str = "The store of this directory has access control. \
    It is not served without an access file unless the flag --allow-anonymous is given.\n";

/// Marks a data directory, so that its store is not served without access control by mistake. Its
/// backups have the mark, too.
///
/// # Errors
///
/// The mark could not be made durable.
pub fn mark_guarded(data_dir: &Path) -> io::Result<()> {
    let path = data_dir.join(MARK);
    if path.exists() {
        return Ok(());
    }
    // A link is not followed.
    let mut file = private().create_new(true).open(path)?;
    file.write_all(MARK_TEXT.as_bytes())?;
    file.sync_all()?;
    File::open(data_dir)?.sync_all()
}

/// Returns whether a store with access control was served from this data directory, or from the one
/// whose backup was restored there.
#[must_use]
pub fn is_guarded(data_dir: &Path) -> bool {
    // If the directory can't be read, opening the store reports the reason.
    fs::symlink_metadata(data_dir.join(MARK)).is_ok()
}

/// Returns the options for a file that is created if it is missing, and that only its owner can
/// read.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options
}
