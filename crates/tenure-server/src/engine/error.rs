//! What can go wrong with an engine.

use std::io;
use std::path::PathBuf;

use crate::clock::WrongClock;
use crate::config::LimitError;

/// Why a store could not be opened. Nothing on disk was changed, but that the folder may have been
/// made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder or a file in it can't be made, read or written. Check the path and its
    /// permissions.
    #[error("can't use {}: {error}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// The path is there and is no folder.
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
    /// A newer tenure wrote the folder. Use that one.
    #[error("{} has format {found} and this version knows up to {known}, use a newer one", path.display())]
    Newer {
        /// The file that says so.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that this version knows.
        known: u32,
    },
    /// The file is not what was written there. Restore a backup, or move the folder away to start
    /// with nothing.
    #[error("{} is damaged ({detail}); it was left as it is: restore the folder from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        detail: String,
    },
    /// A restore into the folder was cut short. Do it again, or delete the file to give it up.
    #[error("{} is there: a restore was cut short, do it again, or delete the file", path.display())]
    RestoreCutShort {
        /// The file that it left.
        path: PathBuf,
    },
    /// The wall clock is before 1970 or after 9999. Set it.
    #[error(transparent)]
    Clock(#[from] WrongClock),
    /// A limit makes no sense.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The database can't be used, for another reason than damage.
    #[error("can't open {}: {detail}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What the database said.
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

/// Why a batch was not made durable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    /// The disk is full. The batch is undone; later ones may work.
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// Another program has the database locked. The batch is undone; later ones may work.
    #[error("another program has the database locked: {0}")]
    Busy(String),
    /// Whether the batch is durable is not known, and nothing later may be written: after a failed
    /// fsync the operating system may have dropped what it could not write, and say nothing of it
    /// the next time.
    #[error("{0}")]
    Fatal(String),
}
