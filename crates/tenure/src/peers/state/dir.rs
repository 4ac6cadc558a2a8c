//! The directory with a member's state, which is private and used by one process at a time.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::base::link_free_path::link_free_path;
use crate::base::member_error::StateError;

/// The time for which to retry the lock, because a predecessor that was killed may not have ended
/// yet.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// A directory that only this process uses until this value is dropped.
///
/// Another user may be able to put links in place of parts of its path, or of its files. So it is
/// opened part by part, its files are opened in it, and no link is followed.
#[derive(Debug)]
pub(super) struct StateDir {
    path: PathBuf,
    folder: File,
    /// The operating system frees the lock when the file is closed, even if the process crashes.
    _lock: File,
}

impl StateDir {
    pub(super) fn open(path: &Path) -> Result<Self, StateError> {
        let path = path.to_owned();
        let folder = link_free_path(&path).and_then(|free| Ok(private_folder(&free)?));
        let folder = folder.map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => StateError::NotADirectory(path.clone()),
            _ => StateError::Io(path.clone(), error),
        })?;
        let lock = path.join("lock");
        let file = match create(&folder, "lock") {
            Err(Errno::EEXIST) => open_in(&folder, "lock", OFlag::O_WRONLY),
            created => created,
        };
        let file = file.map_err(|error| StateError::Io(lock.clone(), explained(error)))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => {
                    return Ok(Self {
                        path,
                        folder,
                        _lock: file,
                    });
                }
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

    /// Returns the path of a file, for messages.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file for reading; `None` if there is none.
    pub(super) fn file(&self, name: &str) -> io::Result<Option<File>> {
        match open_in(&self.folder, name, OFlag::O_RDONLY) {
            Err(Errno::ENOENT) => Ok(None),
            opened => opened.map(Some).map_err(explained),
        }
    }

    /// Replaces a file atomically: after a power failure at any time, either the complete old file
    /// or the complete new file exists. After success, the new file exists.
    pub(super) fn replace(&self, name: &str, content: &[u8]) -> Result<(), StateError> {
        let new = format!("{name}.new");
        let write = || {
            let mut temporary = create(&self.folder, &new)?;
            temporary.write_all(content)?;
            // The sync comes before the rename. Otherwise the name may be on disk before the
            // content.
            temporary.sync_all()?;
            renameat(&self.folder, &*new, &self.folder, name)?;
            self.folder.sync_all()
        };
        // The remains of an attempt that failed, or of a process that ended during an attempt, were
        // never acknowledged.
        let clear = || match unlinkat(&self.folder, &*new, UnlinkatFlags::NoRemoveDir) {
            Err(error) if error != Errno::ENOENT => Err(io::Error::from(error)),
            _ => Ok(()),
        };
        clear().and_then(|()| write()).map_err(|error| {
            // The file would take space on a disk that may be full.
            let _ = clear();
            StateError::Io(self.path_of(name), error)
        })
    }
}

/// On Linux this needs no permission to read the directories of a path.
#[cfg(target_os = "linux")]
const PASS: OFlag = OFlag::O_PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlag = OFlag::O_RDONLY;

/// Opens a directory, and makes it and those above it that are missing, for their owner only.
fn private_folder(path: &Path) -> nix::Result<File> {
    let folder_flags = OFlag::O_DIRECTORY;
    let mut folder =
        nix::fcntl::open("/", PASS | folder_flags | OFlag::O_CLOEXEC, Mode::empty())?.into();
    for part in path.components() {
        let Component::Normal(name) = part else {
            continue;
        };
        folder = match open_in(&folder, name, PASS | folder_flags) {
            Err(Errno::ENOENT) => {
                match mkdirat(&folder, name, Mode::S_IRWXU) {
                    // The umask may have taken something away.
                    Ok(()) => {
                        fchmodat(&folder, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)?
                    }
                    // Another process has made it.
                    Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error),
                }
                open_in(&folder, name, PASS | folder_flags)?
            }
            opened => opened?,
        };
    }
    open_in(&folder, ".", OFlag::O_RDONLY | folder_flags)
}

/// Opens an entry of a directory that is not a link.
fn open_in<P: nix::NixPath + ?Sized>(folder: &File, name: &P, flags: OFlag) -> nix::Result<File> {
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map(File::from)
}

/// Creates a file that only its owner can read, whatever the umask is.
fn create(folder: &File, name: &str) -> nix::Result<File> {
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let file = openat(folder, name, flags, mode)?;
    fchmod(&file, mode)?;
    Ok(file.into())
}

/// Says what is wrong with a link.
fn explained(error: Errno) -> io::Error {
    match error {
        Errno::ELOOP => {
            io::Error::other("it is a link; the state directory may contain files only")
        }
        error => error.into(),
    }
}
