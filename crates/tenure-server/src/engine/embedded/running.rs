//! The file `RUNNING`, which contains a revision that an open database has reached.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tracing::{info, warn};

use super::folder::{checksum, private};

/// The writer of the file `RUNNING`.
///
/// It opens its files ahead of time, so that it can write them even while the process can open no
/// further files.
#[derive(Debug)]
pub(super) struct Running {
    path: PathBuf,
    new: PathBuf,
    folder: File,
    /// The temporary file, which is renamed to `RUNNING` when it is complete.
    next: Option<File>,
    is_failing: bool,
}

impl Running {
    /// Opens the files in the data directory. Nothing is written yet.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path_in(folder),
            new: folder.join("RUNNING.new"),
            folder: File::open(folder)?,
            next: None,
            is_failing: false,
        })
    }

    /// Records that the database is open and has this revision, which only its write-ahead log
    /// contains.
    pub(super) fn write(&mut self, revision: u64) -> io::Result<()> {
        let next = match self.next.take() {
            Some(next) => next,
            None => self.create()?,
        };
        let text = format!("{revision} {}\n", checksum(&revision.to_string()));
        let write = || {
            next.set_len(0)?;
            next.write_all_at(text.as_bytes(), 0)?;
            next.sync_all()?;
            // After a power cut the directory has either the old file or the new one.
            fs::rename(&self.new, &self.path)
        };
        if let Err(error) = write() {
            self.next = Some(next);
            return Err(error);
        }
        // The old file is closed first: the process may be able to open only one more file.
        drop(next);
        self.next = self.create().ok();
        // This also makes the directory entry of the write-ahead log durable.
        self.folder.sync_all()
    }

    /// Writes the file like [`Running::write`], but logs a failure; of consecutive failures it logs
    /// only the first. Returns whether the file was written.
    pub(super) fn try_write(&mut self, revision: u64) -> bool {
        let written = self.write(revision);
        match &written {
            Ok(()) if self.is_failing => {
                info!(
                    "RUNNING is up to date again: a start detects the loss of the write-ahead log"
                )
            }
            Err(error) if !self.is_failing => {
                warn!(%error, "RUNNING can't be written: a start would not detect the loss of the write-ahead log");
            }
            _ => {}
        }
        self.is_failing = written.is_err();
        written.is_ok()
    }

    /// Removes the file: everything is in the database, which no longer needs its write-ahead log.
    pub(super) fn remove(&self) {
        // If the removal fails, the next start finds that the database has reached the revision in
        // the file.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.new);
    }

    fn create(&self) -> io::Result<File> {
        private().truncate(true).open(&self.new)
    }
}

/// Returns the path of the file.
pub(super) fn path_in(folder: &Path) -> PathBuf {
    folder.join("RUNNING")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_written_repeatedly_and_removed_completely() {
        let folder = tempfile::tempdir().unwrap();
        let mut running = Running::open(folder.path()).unwrap();
        let text = || fs::read_to_string(path_in(folder.path())).unwrap();
        for revision in [1_000_000, 7] {
            assert!(running.try_write(revision));
            let expected = format!("{revision} {}\n", checksum(&revision.to_string()));
            assert_eq!(text(), expected);
        }
        // The writer uses only these two names, so it fails while they are directories.
        fs::remove_file(path_in(folder.path())).unwrap();
        fs::create_dir(path_in(folder.path())).unwrap();
        assert!(!running.try_write(8) && !running.try_write(9));
        fs::remove_dir(path_in(folder.path())).unwrap();
        assert!(running.try_write(10));
        assert!(text().starts_with("10 "));
        running.remove();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
