//! Why a store is not opened.

use std::io;
use std::path::PathBuf;

use crate::clock::WrongClock;
use crate::config::LimitError;

/// Why a store was not opened. Nothing on disk was changed, except that the folder may have been made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder or a file in it can't be made, read or written. Check the path and its
    /// permissions.
    #[error("can't use {}: {error}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The path is not a folder.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Another process uses the folder. Stop it, or use another folder.
    #[error("another store uses the folder {}", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Another version of tenure wrote the folder. Use that one.
    #[error("{} has format {found} and this version knows format {known}, use the version that wrote it", path.display())]
    Newer {
        /// The file that has the format.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format that this version knows.
        known: u32,
    },
    /// The file is not as a store wrote it. Restore a backup, or move the folder away to start with
    /// nothing.
    #[error("{} is damaged ({detail}); it was left as it is: restore the folder from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error.
        detail: String,
    },
    /// A restore into the folder did not finish. Do it again, or delete the file to give it up.
    #[error("{} is there: a restore was cut short, do it again, or delete the file", path.display())]
    RestoreCutShort {
        /// The file that it left.
        path: PathBuf,
    },
    /// The wall clock is before 1970 or after 9999. Set it.
    #[error(transparent)]
    Clock(#[from] WrongClock),
    /// A limit is out of its range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The database can't be used, and is not damaged.
    #[error("can't open {}: {detail}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The error of the database.
        detail: String,
    },
}

impl OpenError {
    /// [`OpenError::Io`] for every step that fails on `path`.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |error| Self::Io { path, error }
    }
}
