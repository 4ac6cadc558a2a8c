//! The place of a data directory. A copy of it elsewhere is another store, which would grant the same
//! epochs.
//!
//! The lock file is never replaced, so its inode and the time of its creation are those of the directory.
//! They stay the same over a restart, a remount and a move within the file system, and a copy gets others.
//! The file contains them as they were when a store started last.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::folder::{Folder, overwrite};
use crate::engine::OpenError;

/// File systems whose files keep their inodes: ext2 to ext4, XFS, Btrfs, ZFS, F2FS, bcachefs, tmpfs and
/// NFS. Others make up numbers at each mount, for example FUSE and the layers of a container.
#[cfg(target_os = "linux")]
const WITH_INODES: [i64; 8] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0x2FC1_2FC1,
    0xF2F5_2010,
    0xCA45_1A4E,
    0x0102_1994,
    0x6969,
];

/// Where the files of a store were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    inode: u64,
    /// The second in which the file was created, since 1970, if the file system knows it. Two new file
    /// systems use the same inodes.
    created: Option<u64>,
    /// The id of the machine, if it has one. A container may have another one after each start.
    machine: Option<String>,
    /// The path of the directory, for people.
    path: PathBuf,
}

impl Place {
    /// Returns the place of this lock file; `None` if its file system makes inodes up.
    fn of(lock: &Path) -> io::Result<Option<Self>> {
        if !has_inodes(lock)? {
            return Ok(None);
        }
        let metadata = fs::metadata(lock)?;
        let created = metadata.created().ok();
        let created = created.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let path = fs::canonicalize(lock)?;
        Ok(Some(Self {
            inode: metadata.ino(),
            created: created.map(|at| at.as_secs()),
            machine: Some(machine.trim().to_owned()).filter(|id| id.len() == 32),
            path: path.parent().unwrap_or(&path).to_owned(),
        }))
    }

    /// Returns whether the file of this place is not the one of that place.
    fn is_copy_of(&self, other: &Self) -> bool {
        let times = self.created.zip(other.created);
        self.inode != other.inode || times.is_some_and(|(one, two)| one != two)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = self.machine.as_deref().unwrap_or("without an id");
        write!(f, "{} on machine {machine}", self.path.display())
    }
}

#[cfg(target_os = "linux")]
fn has_inodes(path: &Path) -> io::Result<bool> {
    let kind = nix::sys::statfs::statfs(path)?.filesystem_type();
    #[allow(clippy::unnecessary_cast)] // The type differs between machines.
    Ok(WITH_INODES.contains(&(kind.0 as i64)))
}

#[cfg(not(target_os = "linux"))]
fn has_inodes(_: &Path) -> io::Result<bool> {
    Ok(false)
}

impl Folder {
    /// Checks that the files of the store, if there is one, were written here and not copied. Warns if
    /// another machine wrote them.
    pub(in crate::engine) fn check_place(&self) -> Result<(), OpenError> {
        if self.files()?.snapshots.is_empty() {
            return Ok(());
        }
        let (Some(written), Some(here)) = (self.noted_place(), self.place()?) else {
            return Ok(());
        };
        if here.is_copy_of(&written) {
            return Err(OpenError::Copied {
                path: self.path().to_owned(),
                written: written.to_string(),
            });
        }
        if let (Some(before), Some(now)) = (&written.machine, &here.machine)
            && before != now
        {
            warn!(
                "the files of {} were written on machine {before}, and this is machine {now}: if that machine \
                 runs a store on a clone of this disk, both grant the same epochs",
                self.path().display()
            );
        }
        Ok(())
    }

    /// Checks that a directory without a store never had one.
    pub(super) fn check_is_new(&self) -> Result<(), OpenError> {
        let had_place = self.noted_place().map(|_| self.lock());
        let left = had_place.into_iter().chain(self.marks());
        let left: Vec<_> = left.map(|path| path.display().to_string()).collect();
        if left.is_empty() {
            return Ok(());
        }
        let detail = format!(
            "its store is missing, of which these files are left: {left}; to begin a new store here, delete them",
            left = left.join(", ")
        );
        Err(OpenError::damaged(self.path(), detail))
    }

    /// Notes that the files of the store belong here.
    pub(in crate::engine) fn note_place(&self) -> Result<(), OpenError> {
        let Some(here) = self
            .place()?
            .filter(|it| self.noted_place().as_ref() != Some(it))
        else {
            return Ok(());
        };
        let lock = self.lock();
        let write = || overwrite(&lock, &serde_json::to_vec(&here)?);
        write().map_err(OpenError::io(&lock))
    }

    fn place(&self) -> Result<Option<Place>, OpenError> {
        Place::of(&self.lock()).map_err(OpenError::io(self.lock()))
    }

    /// Returns the place in the lock file. A new directory has none, and a crash may have cut it off.
    fn noted_place(&self) -> Option<Place> {
        serde_json::from_slice(&fs::read(self.lock()).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            inode: 13,
            created: Some(1_795_000_000),
            machine: Some("a".repeat(32)),
            path: "/data".into(),
        }
    }

    #[test]
    fn a_copy_has_another_inode_or_was_created_at_another_time() {
        let here = place();
        assert!(!here.is_copy_of(&here));
        // A move, and a disk at another machine.
        let moved = Place {
            machine: None,
            path: "/moved".into(),
            ..place()
        };
        assert!(!moved.is_copy_of(&here));
        let other = Place {
            inode: 14,
            ..place()
        };
        assert!(other.is_copy_of(&here));
        let later = Place {
            created: Some(1_795_000_001),
            ..place()
        };
        assert!(later.is_copy_of(&here));
        let unknown = Place {
            created: None,
            ..place()
        };
        assert!(!unknown.is_copy_of(&here) && !here.is_copy_of(&unknown));
    }
}
