//! The reasons why a store was not opened.

use std::io;
use std::path::{Path, PathBuf};

use crate::clock::WrongClock;
use crate::config::LimitError;

/// The reason why a store was not opened. Nothing on disk was changed, except that the data
/// directory may have been created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The data directory or a file in it can't be created, read or written. Check the path and its
    /// permissions.
    #[error("can't use {}: {error}", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The path is not a directory.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Another process uses the data directory. Stop it, or use another directory.
    #[error("another store uses the folder {}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Another version of tenure wrote the data directory. Use that version.
    #[error("{} has format {found} and this version knows format {known}, use the version that wrote it", path.display())]
    Newer {
        /// The file that has the format.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format that this version knows.
        known: u32,
    },
    /// The file has content that a store never writes. Restore a backup, or move the directory away
    /// to start with an empty store.
    #[error("{} is damaged ({detail}); it was left as it is: restore the folder from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error.
        detail: String,
    },
    /// A restore into the data directory did not finish. Repeat it, or delete the file to abandon
    /// the restore.
    #[error("{} exists: a restore was interrupted, repeat it or delete the file", path.display())]
    RestoreCutShort {
        /// The file that it left.
        path: PathBuf,
    },
    /// A final backup moved the store of this directory to a file. Restore that file, and use the
    /// store there.
    #[error(
        "a final backup has moved the store of {} away {note}: it goes on where that file is restored \
         (tenure restore). If there is no such file, make it again: tenure backup --final",
        path.display()
    )]
    Moved {
        /// The directory.
        path: PathBuf,
        /// The time and the file of the backup.
        note: String,
    },
    /// The files of this directory were copied here. The store that they are of may have gone on, and a
    /// store on the copy would grant the same epochs.
    #[error(
        "{path} is a copy of {written}, and a store that starts from it would grant the same epochs again: \
         restore a backup into another folder (tenure restore FILE --data-dir DIR), or, once no store runs \
         there any more, raise the epochs of this copy: tenure restore {path}",
        path = path.display()
    )]
    Copied {
        /// The directory.
        path: PathBuf,
        /// The directory and the machine in which the files were written.
        written: String,
    },
    /// The wall clock is before 1970 or after 9999. Set it.
    #[error(transparent)]
    Clock(#[from] WrongClock),
    /// A limit is outside its range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The service with the log of a cluster can't be used as it is configured. The detail says what
    /// to change.
    #[error("can't use {engine}: {detail}")]
    Cluster {
        /// The name of the engine, as in the settings.
        engine: &'static str,
        /// The reason.
        detail: String,
    },
    /// The log of a cluster can't be used: a newer version or another program wrote it, it was
    /// written in another service, or its store was moved away. The detail says what to do.
    #[error("can't use the log in {log}: {detail}")]
    Log {
        /// The place of the log.
        log: String,
        /// The reason.
        detail: String,
    },
    /// The log can't be written, but it is not damaged.
    #[error("can't write {}: {detail}", path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// The reason.
        detail: String,
    },
}

impl OpenError {
    pub(super) fn damaged(path: &Path, detail: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }

    pub(super) fn not_written(path: &Path, detail: &(impl ToString + ?Sized)) -> Self {
        Self::NotWritten {
            path: path.to_owned(),
            detail: detail.to_string(),
        }
    }

    /// Returns a function that wraps an error of the operating system on `path` as
    /// [`OpenError::Io`].
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |error| Self::Io { path, error }
    }
}
