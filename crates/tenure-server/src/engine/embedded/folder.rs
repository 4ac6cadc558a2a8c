//! The store's folder: made private, locked, and never silently begun anew.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::OpenError;

/// The format of the folder that this version writes and knows.
pub(super) const FORMAT: u32 = 1;

/// How long to try for the lock: a predecessor that was killed may not have gone yet.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// What stands in the marker before the number.
const MARK: &str = "tenure-store";

/// The first bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A folder that this process alone uses, until this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The operating system frees the lock when the file is closed, however the process ends.
    _lock: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let path = path.to_owned();
        match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_dir() => return Err(OpenError::NotAFolder { path }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // What is in it lets anyone who reads it take over leases.
                let mut builder = DirBuilder::new();
                builder.recursive(true).mode(0o700);
                builder.create(&path).map_err(OpenError::io(&path))?;
            }
            Err(error) => return Err(OpenError::Io { path, error }),
        }
        let lock = path.join("lock");
        let file = private(OpenOptions::new().write(true).create(true).truncate(false))
            .open(&lock)
            .map_err(OpenError::io(&lock))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { path, _lock: file }),
                Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_PATIENCE => {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path }),
                Err(TryLockError::Error(error)) => {
                    return Err(OpenError::Io { path: lock, error });
                }
            }
        }
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join("leases.db")
    }

    fn marker(&self) -> PathBuf {
        self.path.join("FORMAT")
    }

    /// Whether no store was ever completely made here.
    pub(super) fn is_new(&self) -> Result<bool, OpenError> {
        let marker = self.marker();
        let mut text = String::new();
        match File::open(&marker) {
            Ok(file) => file
                .take(1024)
                .read_to_string(&mut text)
                .map_err(OpenError::io(&marker))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => {
                return Err(OpenError::Io {
                    path: marker,
                    error,
                });
            }
        };
        let format = text.trim_end().strip_prefix(MARK);
        match format.and_then(|number| number.trim().parse().ok()) {
            Some(FORMAT) => Ok(false),
            Some(found) if found > FORMAT => Err(OpenError::Newer {
                path: marker,
                found,
                known: FORMAT,
            }),
            _ => Err(OpenError::Damaged {
                path: marker,
                detail: format!("it should say {MARK:?} and a number"),
            }),
        }
    }

    /// Says that there is a complete database here now. From now on a missing one is damage.
    pub(super) fn mark(&self) -> Result<(), OpenError> {
        let marker = self.marker();
        let write = || {
            let mut file = private(OpenOptions::new().write(true).create(true).truncate(true))
                .open(&marker)?;
            writeln!(file, "{MARK} {FORMAT}")?;
            file.sync_all()?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(OpenError::io(&marker))
    }

    /// There was a database here: a missing, empty or foreign file must not pass for a new one, or
    /// every lease would be free at once.
    pub(super) fn check_database(&self) -> Result<(), OpenError> {
        let path = self.database();
        let mut start = [0; MAGIC.len()];
        let detail = match File::open(&path).and_then(|mut file| file.read_exact(&mut start)) {
            Ok(()) if &start == MAGIC => return Ok(()),
            Ok(()) => "it is no SQLite database",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "it is missing",
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => "it is empty or cut off",
            Err(error) => return Err(OpenError::Io { path, error }),
        };
        Err(OpenError::Damaged {
            path,
            detail: detail.into(),
        })
    }
}

/// Readable by its owner only.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}
