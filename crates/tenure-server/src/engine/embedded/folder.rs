//! The data directory: private, locked, and never silently created again.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{PAGE, running};
use crate::engine::{OpenError, wal};

/// The format of the data directory that this version reads and writes.
pub(super) const FORMAT: u32 = 1;

/// The time for which a start tries to take the lock: the process of a killed store may not have
/// ended yet.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The text in the marker before the format number.
const MARK: &str = "tenure-store";

/// The first bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A data directory. Either this process alone uses it until this value is dropped, or this process
/// only reads it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The lock file. The operating system releases the lock when the process ends, for any reason.
    _lock: Option<File>,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let path = path.to_owned();
        if path.exists() && !path.is_dir() {
            return Err(OpenError::NotAFolder { path });
        }
        // Only the owner may read the directory: the lease ids in it allow others to take over
        // leases.
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&path);
        made.map_err(OpenError::io(&path))?;
        let lock = path.join("lock");
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
    pub(super) fn peek(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            _lock: None,
        }
    }

    /// Locks a directory that is only read, so that no store starts on it. Returns `None` if a
    /// store uses it now.
    pub(super) fn keep_out(&self) -> Result<Option<File>, OpenError> {
        let lock = self.path.join("lock");
        let file = File::open(&lock).map_err(OpenError::io(&lock))?;
        Ok(try_lock(&file, &lock)?.then_some(file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join("leases.db")
    }

    /// Returns the path of a database that is being restored. While this file exists, no store
    /// starts.
    pub(super) fn restoring(&self) -> PathBuf {
        self.path.join("leases.db.restoring")
    }

    /// Checks that no unfinished restore left its files here: they must not pass for a new store.
    pub(super) fn check_not_restoring(&self) -> Result<(), OpenError> {
        let path = self.restoring();
        match fs::exists(&path).map_err(OpenError::io(&path))? {
            true => Err(OpenError::RestoreCutShort { path }),
            false => Ok(()),
        }
    }

    /// Checks that the store of the directory was not moved away by a final backup.
    pub(super) fn check_not_moved(&self) -> Result<(), OpenError> {
        let path = self.moved();
        match read_if_exists(&path)? {
            Some(note) => Err(OpenError::Moved { path, note }),
            None => Ok(()),
        }
    }

    /// Closes the directory: from now on no store starts from it.
    pub(super) fn note_moved(&self, note: &str) -> Result<(), OpenError> {
        let moved = self.moved();
        let write = || {
            let mut file = private().truncate(true).open(&moved)?;
            file.write_all(note.as_bytes())?;
            file.sync_all()?;
            self.sync()
        };
        write().map_err(OpenError::io(&moved))
    }

    fn moved(&self) -> PathBuf {
        self.path.join("MOVED")
    }

    /// Returns a file that shows that the directory has, or had, a store: nothing may be restored
    /// over it. A marker next to a database that is being restored may come from an unfinished
    /// restore, so it does not count.
    pub(super) fn trace_of_a_store(&self) -> Option<PathBuf> {
        let database = self.database();
        let running = running::path_in(&self.path);
        let mut traces = vec![wal::log_of(&database), running];
        if !self.restoring().exists() {
            traces.push(self.marker());
        }
        let mut traces = traces.into_iter().chain([database]);
        traces.find(|path| fs::symlink_metadata(path).is_ok())
    }

    /// Makes the directory entries durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn marker(&self) -> PathBuf {
        self.path.join("FORMAT")
    }

    /// Returns whether the directory has a marker of this format; `false` if no store was ever
    /// completely created here.
    pub(super) fn is_marked(&self) -> Result<bool, OpenError> {
        let marker = self.marker();
        let Some(text) = read_if_exists(&marker)? else {
            return Ok(false);
        };
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

    /// Writes the marker: the directory has a complete database of this format. From now on a
    /// missing database is damage.
    pub(super) fn mark(&self) -> Result<(), OpenError> {
        let marker = self.marker();
        let new = self.path.join("FORMAT.new");
        let write = || {
            let mut file = private().truncate(true).open(&new)?;
            writeln!(file, "{MARK} {FORMAT}")?;
            file.sync_all()?;
            // After a power cut the directory has either the old marker or the new one.
            fs::rename(&new, &marker)?;
            self.sync()
        };
        write().map_err(OpenError::io(&marker))
    }

    /// Notes that the store of this directory was restored from a backup, for the audit log of its
    /// next start.
    pub(super) fn note_restore(&self, text: &str) -> Result<(), OpenError> {
        let note = restore_note(&self.path);
        let write = || {
            let mut file = private().truncate(true).open(&note)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(OpenError::io(&note))
    }

    /// Returns the revision that a database that was not closed has at least; `None` if it was
    /// closed.
    pub(super) fn began(&self) -> Result<Option<u64>, OpenError> {
        let path = running::path_in(&self.path);
        let Some(text) = read_if_exists(&path)? else {
            return Ok(None);
        };
        let revision = match text.trim_end().split_once(' ') {
            Some((revision, sum)) if sum == checksum(revision) => revision,
            _ => "",
        };
        match revision.parse() {
            Ok(revision) => Ok(Some(revision)),
            Err(_) => Err(OpenError::Damaged {
                path,
                detail: "it should say a revision and its checksum; if the log leases.db-wal is \
                         certainly complete, this file may be deleted"
                    .into(),
            }),
        }
    }

    /// Returns the error for a directory that has leases and no marker.
    pub(super) fn marker_is_missing(&self) -> OpenError {
        OpenError::Damaged {
            path: self.marker(),
            detail: format!(
                "it is missing, and there is a store here; it should say {MARK:?} and a number"
            ),
        }
    }

    /// Checks that the database has reached the revision `began`. A database that was not closed
    /// needs its write-ahead log, which has the last commits: without it the database would lack
    /// acknowledged changes. `began` was read before the database was, because a running store
    /// continues to append.
    pub(super) fn check_revision(
        &self,
        began: Option<u64>,
        revision: u64,
    ) -> Result<(), OpenError> {
        match began {
            Some(began) if revision < began => Err(OpenError::Damaged {
                path: self.path.join("leases.db-wal"),
                detail: format!(
                    "it is missing or truncated: the database ends at revision {revision}, but had \
                     reached at least {began}"
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Checks the file of a database that must exist. A missing, empty or foreign file must not
    /// pass for a new database, or every lease would be free at once.
    pub(super) fn check_database(&self) -> Result<(), OpenError> {
        let log = fs::metadata(self.path.join("leases.db-wal"));
        check_file(&self.database(), log.map_or(true, |log| log.len() == 0))
    }
}

/// Tries to lock the file. Returns whether it succeeded.
fn try_lock(file: &File, path: &Path) -> Result<bool, OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(OpenError::io(path)(error)),
    }
}

/// Checks that the file is a complete database. If there is a write-ahead log, the last page may be
/// cut off: an unfinished move of the log into the database causes that, and is repeated.
pub(super) fn check_file(path: &Path, log_is_empty: bool) -> Result<(), OpenError> {
    let path = path.to_owned();
    let read = || -> io::Result<_> {
        let mut file = File::open(&path)?;
        let mut start = [0; MAGIC.len() + 4];
        file.read_exact(&mut start)?;
        Ok((start, file.metadata()?.len()))
    };
    let detail = match read() {
        Ok((start, _)) if !start.starts_with(MAGIC) => "it is not an SQLite database",
        // SQLite opens a file of an unknown version read-only instead of refusing it.
        Ok(([.., write, read], _)) if !(1..=2).contains(&write) || !(1..=2).contains(&read) => {
            "its header has an unknown version"
        }
        // SQLite reads a page whose end is missing as if it ended with zeros.
        Ok((_, len)) if len % PAGE as u64 != 0 && log_is_empty => "its last page is cut off",
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

/// Reads the text of a file; `None` if the file does not exist.
fn read_if_exists(path: &Path) -> Result<Option<String>, OpenError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8(bytes).unwrap_or_default())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::io(path)(error)),
    }
}

/// Computes the checksum of a number as text.
pub(super) fn checksum(number: &str) -> String {
    format!("{:08x}", crc32fast::hash(number.as_bytes()))
}

/// Returns the path of the file that marks a store as restored from a backup, until the audit log
/// contains the restore.
pub(super) fn restore_note(data_dir: &Path) -> PathBuf {
    data_dir.join("RESTORED")
}

/// Returns the options for a file that is created if it is missing, and that only its owner can
/// read.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options
}
