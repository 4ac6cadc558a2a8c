//! The directory with a member's state, which is private and used by one process at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::state_file::StateError;

/// The time for which to retry the lock, because a predecessor that was killed may not have ended
/// yet.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// A directory that only this process uses until this value is dropped.
#[derive(Debug)]
pub(super) struct StateDir {
    path: PathBuf,
    /// The operating system frees the lock when the file is closed, even if the process crashes.
    _lock: File,
}

impl StateDir {
    pub(super) fn open(path: &Path) -> Result<Self, StateError> {
        let path = path.to_owned();
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        if let Err(error) = created {
            return Err(if path.exists() {
                StateError::NotADirectory(path)
            } else {
                StateError::Io(path, error)
            });
        }
        let lock = path.join("lock");
        let file = private(OpenOptions::new().write(true).create(true).truncate(false))
            .open(&lock)
            .map_err(StateError::io(&lock))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { path, _lock: file }),
                Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_PATIENCE => {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => return Err(StateError::InUse(path)),
                Err(TryLockError::Error(error)) => {
                    return Err(StateError::Io(lock, error));
                }
            }
        }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Replaces a file atomically: after a power failure at any time, either the complete old file
    /// or the complete new file exists. After success, the new file exists.
    pub(super) fn replace(&self, name: &str, content: &[u8]) -> Result<(), StateError> {
        let file = self.file(name);
        let new = self.file(&format!("{name}.new"));
        let write = || {
            let mut temporary =
                private(OpenOptions::new().write(true).create_new(true)).open(&new)?;
            temporary.write_all(content)?;
            // The sync comes before the rename. Otherwise the name may be on disk before the
            // content.
            temporary.sync_all()?;
            fs::rename(&new, &file)?;
            File::open(&self.path)?.sync_all()
        };
        // The remains of an attempt that failed, or of a process that ended during an attempt, were
        // never acknowledged.
        let clear = || match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        clear().and_then(|()| write()).map_err(|error| {
            // The file would take space on a disk that may be full.
            let _ = clear();
            StateError::Io(file.clone(), error)
        })
    }
}

/// Makes the file readable by its owner only.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}
