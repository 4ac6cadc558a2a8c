//! The store's folder: private, locked, and never silently made again.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::running;
use crate::engine::{OpenError, wal};

/// The format of the folder that this version writes and knows.
pub(super) const FORMAT: u32 = 1;

/// How long to try for the lock: a store that was killed may not have ended yet.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The text in the marker before the number.
const MARK: &str = "tenure-store";

/// The first bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A folder that this process alone uses until this is dropped; or one that it only reads.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The operating system frees the lock when the file is closed, however the process ends.
    _lock: Option<File>,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let path = path.to_owned();
        match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_dir() => return Err(OpenError::NotAFolder { path }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A reader of the lease ids in it could take over leases.
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
                Ok(()) => {
                    return Ok(Self {
                        path,
                        _lock: Some(file),
                    });
                }
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

    /// The folder of a store. It is not made, locked or changed.
    pub(super) fn peek(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            _lock: None,
        }
    }

    /// Locks a folder that is only read, so that no store starts on it; `None` if a store uses it now.
    pub(super) fn keep_out(&self) -> Result<Option<File>, OpenError> {
        let lock = self.path.join("lock");
        let file = File::open(&lock).map_err(OpenError::io(&lock))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(OpenError::Io { path: lock, error }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join("leases.db")
    }

    /// A database that is being restored. While it is there, no store starts.
    pub(super) fn restoring(&self) -> PathBuf {
        self.path.join("leases.db.restoring")
    }

    /// No restore has ended halfway here: its files must not pass for a new store.
    pub(super) fn check_not_restoring(&self) -> Result<(), OpenError> {
        let path = self.restoring();
        match fs::symlink_metadata(&path) {
            Ok(_) => Err(OpenError::RestoreCutShort { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(OpenError::Io { path, error }),
        }
    }

    /// A file that says that the folder has, or had, a store: nothing may be restored over it. A marker alone
    /// may be of a restore that ended halfway.
    pub(super) fn trace_of_a_store(&self) -> Option<PathBuf> {
        let database = self.database();
        let is_restoring = self.restoring().exists();
        let marker = (!is_restoring).then(|| self.marker());
        [
            Some(wal::log_of(&database)),
            Some(running::path_in(&self.path)),
            marker,
            Some(database),
        ]
        .into_iter()
        .flatten()
        .find(|path| fs::symlink_metadata(path).is_ok())
    }

    /// Makes the names in the folder durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn marker(&self) -> PathBuf {
        self.path.join("FORMAT")
    }

    /// Whether the folder has a marker of this format; `false` if no store was ever completely made here.
    pub(super) fn is_marked(&self) -> Result<bool, OpenError> {
        let marker = self.marker();
        let mut text = Vec::new();
        match File::open(&marker) {
            Ok(file) => file
                .take(1024)
                .read_to_end(&mut text)
                .map_err(OpenError::io(&marker))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => {
                return Err(OpenError::Io {
                    path: marker,
                    error,
                });
            }
        };
        let text = String::from_utf8_lossy(&text);
        let format = text.trim_end().strip_prefix(MARK);
        match format.and_then(|number| number.trim().parse().ok()) {
            Some(FORMAT) => Ok(true),
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

    /// Marks the folder: it has a complete database of this format, and from now on a missing one is damage.
    pub(super) fn mark(&self) -> Result<(), OpenError> {
        let marker = self.marker();
        let new = self.path.join("FORMAT.new");
        let write = || {
            let mut file =
                private(OpenOptions::new().write(true).create(true).truncate(true)).open(&new)?;
            writeln!(file, "{MARK} {FORMAT}")?;
            file.sync_all()?;
            // At a power cut the folder has the old marker or the new one.
            fs::rename(&new, &marker)?;
            self.sync()
        };
        write().map_err(OpenError::io(&marker))
    }

    /// The least revision of a database that was not closed; `None` if it was closed.
    pub(super) fn began(&self) -> Result<Option<u64>, OpenError> {
        let path = running::path_in(&self.path);
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8(bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::Io { path, error }),
        };
        let revision = match text.trim_end().split_once(' ') {
            Some((revision, sum)) if sum == checksum(revision) => revision,
            _ => "",
        };
        match revision.parse() {
            Ok(revision) => Ok(Some(revision)),
            Err(_) => Err(OpenError::Damaged {
                path,
                detail:
                    "it should say a revision and its checksum; where the log leases.db-wal is \
                         certainly complete, this file may be deleted"
                        .into(),
            }),
        }
    }

    /// The folder has leases and no marker.
    pub(super) fn marker_is_missing(&self) -> OpenError {
        OpenError::Damaged {
            path: self.marker(),
            detail: format!(
                "it is missing, and there is a store here; it should say {MARK:?} and a number"
            ),
        }
    }

    /// A database that was not closed needs its write-ahead log, which has the last commits. Without it the
    /// database would lack acknowledged changes. `began` was read before the database was: a running store
    /// goes on.
    pub(super) fn check_revision(
        &self,
        began: Option<u64>,
        revision: u64,
    ) -> Result<(), OpenError> {
        match began {
            Some(began) if revision < began => Err(OpenError::Damaged {
                path: self.path.join("leases.db-wal"),
                detail: format!(
                    "it is missing or cut off: the database ends at revision {revision} and had \
                     come to {began} at least"
                ),
            }),
            _ => Ok(()),
        }
    }

    fn log_is_empty(&self) -> bool {
        let log = self.path.join("leases.db-wal");
        fs::metadata(log).map_or(true, |log| log.len() == 0)
    }

    /// The folder had a database: a missing, empty or foreign file must not pass for a new one, or every lease
    /// would be free at once.
    pub(super) fn check_database(&self) -> Result<(), OpenError> {
        check_file(&self.database(), self.log_is_empty())
    }
}

/// The file is a complete database. If there is a write-ahead log, a last page that is cut off is of a move
/// into the database that did not finish, and is done again.
pub(super) fn check_file(path: &Path, log_is_empty: bool) -> Result<(), OpenError> {
    let path = path.to_owned();
    let read = || -> io::Result<_> {
        let mut file = File::open(&path)?;
        let mut start = [0; MAGIC.len() + 2];
        file.read_exact(&mut start)?;
        Ok((start, file.metadata()?.len()))
    };
    let detail = match read() {
        Ok((start, _)) if !start.starts_with(MAGIC) => "it is not an SQLite database",
        // SQLite takes a page of which the end is missing for one that ends with zeros.
        Ok((start, len)) if len % page_size(start) != 0 && log_is_empty => {
            "its last page is cut off"
        }
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "it is missing",
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => "it is empty or cut off",
        Err(error) => return Err(OpenError::Io { path, error }),
    };
    Err(OpenError::Damaged {
        path,
        detail: detail.into(),
    })
}

/// The size of a page, from bytes 16 and 17 of the database; 1 stands for 64 KiB.
fn page_size(start: [u8; MAGIC.len() + 2]) -> u64 {
    match u16::from_be_bytes([start[MAGIC.len()], start[MAGIC.len() + 1]]) {
        // SQLite says what is wrong with it.
        0 => 1,
        1 => 65_536,
        size => size.into(),
    }
}

/// Of a number as text.
pub(super) fn checksum(number: &str) -> String {
    format!("{:08x}", crc32fast::hash(number.as_bytes()))
}

/// Readable by its owner only.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}
