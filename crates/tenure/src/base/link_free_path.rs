//! The paths of files that a process of root writes, although other users can replace parts of them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::Uid;

/// The maximum number of links in a path, as in Linux.
const MAX_LINKS: usize = 40;

/// Returns an absolute path without links, whose last parts need not exist. To open it, follow no
/// link: another process may put one in place of any part.
///
/// # Errors
///
/// This process runs as root, and a part is a link of another user: it would use the rights of root
/// at a place that the other user chooses.
pub fn link_free_path(path: &Path) -> io::Result<PathBuf> {
    let mut rest = std::path::absolute(path)?;
    let mut free = PathBuf::new();
    let mut links = 0;
    loop {
        let mut parts = rest.components();
        match parts.next() {
            None => return Ok(free),
            Some(Component::ParentDir) => {
                free.pop();
            }
            Some(Component::CurDir) => {}
            Some(part) => {
                let next = free.join(part);
                let link = fs::symlink_metadata(&next).ok();
                if let Some(link) = link.filter(fs::Metadata::is_symlink) {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::ELOOP.into());
                    }
                    refuse(&next, link.uid())?;
                    // An absolute target replaces the path.
                    rest = fs::read_link(&next)?.join(parts.as_path());
                    if rest.is_absolute() {
                        free.clear();
                    }
                    continue;
                }
                free = next;
            }
        }
        rest = parts.as_path().to_owned();
    }
}

/// Refuses a link of this user, if this process runs as root.
fn refuse(link: &Path, owner: u32) -> io::Result<()> {
    if owner == 0 || !Uid::effective().is_root() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{} is a link of the user {owner}, and root does not follow it; name its target",
            link.display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn links_are_replaced_by_their_targets_and_the_end_of_a_path_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("relative")).unwrap();
        symlink(root.join("relative"), root.join("absolute")).unwrap();
        for (path, expected) in [
            ("real/new", "real/new"),
            ("relative/new/file", "real/new/file"),
            ("absolute/../absolute/./new", "real/new"),
            ("new/file", "new/file"),
        ] {
            let found = link_free_path(&root.join(path)).unwrap();
            assert_eq!(found, root.join(expected), "{path}");
        }
        symlink("loop", root.join("loop")).unwrap();
        assert!(link_free_path(&root.join("loop/file")).is_err());
    }

    #[test]
    fn root_does_not_follow_a_link_of_another_user() {
        if !Uid::effective().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/tmp", &link).unwrap();
        lchown(&link, Some(1000), Some(1000)).unwrap();
        for path in [link.clone(), link.join("file")] {
            let error = link_free_path(&path).unwrap_err().to_string();
            assert!(error.contains("is a link of the user 1000"), "{error}");
        }
    }
}
