//! Files and directories that commands make, also in the directory of a person while root runs the
//! command.
//!
//! A process of that person can put a link in place of any entry of its directory, at any time. So
//! root does not use its rights there: it acts as that person, and a link gives the person nothing.
//! Owners change through open files, never by path.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, User, getegid, getgroups, setegid, seteuid, setgroups};

/// A user with the group of new files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    uid: Uid,
    gid: Gid,
}

impl From<&User> for Owner {
    fn from(user: &User) -> Self {
        Self {
            uid: user.uid,
            gid: user.gid,
        }
    }
}

/// Writes a new file with exactly this mode. An existing file is not changed, because it may be the
/// only copy of a secret.
pub(crate) fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<File> {
    as_owner(path, || {
        // `create_new` follows no link.
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        // The umask may have taken something away.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(file)
    })
    .with_context(|| format!("can't write {}", path.display()))
}

/// Replaces a file, or makes it, with exactly this mode. The owner and the group of an existing file
/// stay. At any moment, also after a crash, the file has either the old or the new content.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> anyhow::Result<File> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = folder_of(path);
    let write = || {
        let mut new = tempfile::Builder::new()
            .prefix(&format!(".{name}"))
            .tempfile_in(folder)?;
        new.as_file()
            .set_permissions(Permissions::from_mode(mode))?;
        new.write_all(text.as_bytes())?;
        Ok((new, fs::symlink_metadata(path).ok()))
    };
    let replace = || -> io::Result<File> {
        let (new, before) = as_owner(path, write)?;
        if let Some(before) = before.filter(fs::Metadata::is_file) {
            let owner = Owner {
                uid: Uid::from_raw(before.uid()),
                gid: Gid::from_raw(before.gid()),
            };
            give(new.as_file(), owner)?;
        }
        as_owner(path, || {
            new.as_file().sync_all()?;
            let file = new.persist(path).map_err(|error| error.error)?;
            File::open(folder)?.sync_all()?;
            Ok(file)
        })
    };
    replace().with_context(|| format!("can't write {}", path.display()))
}

/// Writes a file that contains no secret, in place of what it contains. Root follows only links of
/// root, such as `/dev/stdout`.
pub(crate) fn overwrite(path: &Path, content: &[u8]) -> io::Result<()> {
    let open = |flags: OFlag| {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        options.custom_flags(flags.bits()).open(path)
    };
    as_owner(path, || {
        let mut file = match open(OFlag::O_NOFOLLOW) {
            Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
                let owner = fs::symlink_metadata(path)?.uid();
                match Uid::effective().is_root() && owner != 0 {
                    true => return Err(error),
                    false => open(OFlag::empty())?,
                }
            }
            opened => opened?,
        };
        file.write_all(content)
    })
}

/// Makes a directory and those above it that are missing, with exactly this mode. Those that root
/// makes with its own rights belong to `owner`, if it is given.
pub(crate) fn make_folder(path: &Path, mode: u32, owner: Option<Owner>) -> anyhow::Result<()> {
    let parts = path.ancestors().filter(|part| !part.as_os_str().is_empty());
    let missing: Vec<&Path> = parts.take_while(|part| !part.exists()).collect();
    let make = |path: &Path| {
        let before = umask(Mode::empty());
        let made = DirBuilder::new().mode(mode).create(path);
        umask(before);
        made?;
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        File::options()
            .read(true)
            .custom_flags(flags.bits())
            .open(path)
    };
    for part in missing.into_iter().rev() {
        let made = match as_owner(part, || make(part)) {
            // Another process has made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && part.is_dir() => continue,
            made => made.and_then(|folder| owner.map_or(Ok(()), |owner| give(&folder, owner))),
        };
        made.with_context(|| format!("can't make {}", part.display()))?;
    }
    Ok(())
}

/// Makes this user the owner of an open file.
pub(crate) fn give(file: &File, owner: Owner) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) == (owner.uid.as_raw(), owner.gid.as_raw()) {
        return Ok(());
    }
    fchown(file, Some(owner.uid.as_raw()), Some(owner.gid.as_raw()))
}

/// Returns the directory of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

/// Does this with the rights of the user who can replace a part of the path, if root runs the command.
pub(crate) fn as_owner<T>(path: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(owner) = owner_of(path)? else {
        return work();
    };
    let _acting = Acting::start(owner)?;
    work()
}

/// Returns the owner of the first part of a path that does not belong to root, if root runs the
/// command. Only that user can put links behind it. The last part counts if it is a link: in a
/// directory of root in which others may write, it may be theirs.
fn owner_of(path: &Path) -> io::Result<Option<Owner>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let path = std::path::absolute(path)?;
    let folder = path.parent().unwrap_or(&path);
    // A link of root may lead into the directory of a person.
    let existing = folder.ancestors().find(|part| part.exists());
    let real = existing.map_or_else(|| Ok(PathBuf::new()), fs::canonicalize)?;
    let is_link = fs::symlink_metadata(&path).is_ok_and(|last| last.is_symlink());
    for path in [if is_link { &path } else { folder }, &real] {
        let parts: Vec<&Path> = path.ancestors().collect();
        for part in parts.into_iter().rev() {
            let Ok(metadata) = fs::symlink_metadata(part) else {
                // The rest is missing.
                break;
            };
            if metadata.uid() != 0 {
                let uid = Uid::from_raw(metadata.uid());
                let user = User::from_uid(uid).ok().flatten();
                let gid = user.map_or_else(|| Gid::from_raw(metadata.gid()), |user| user.gid);
                return Ok(Some(Owner { uid, gid }));
            }
        }
    }
    Ok(None)
}

/// A time in which this process acts as another user. The end restores the rights; if that fails, the
/// process has fewer rights than before.
struct Acting {
    gid: Gid,
    groups: Vec<Gid>,
}

impl Acting {
    fn start(Owner { uid, gid }: Owner) -> io::Result<Self> {
        let acting = Self {
            gid: getegid(),
            groups: getgroups()?,
        };
        setgroups(&[gid])?;
        setegid(gid)?;
        seteuid(uid)?;
        Ok(acting)
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let _ = seteuid(Uid::from_raw(0));
        let _ = setegid(self.gid);
        let _ = setgroups(&self.groups);
    }
}
