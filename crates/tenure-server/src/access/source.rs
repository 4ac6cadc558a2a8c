//! The access file on disk: the check of its permissions and of its version.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tracing::warn;

use super::file::AccessError;

/// The maximum size of an access file in bytes: some hundred thousand tokens.
const MAX_BYTES: u64 = 64 << 20;

/// A file that decides about rights: the access file, or a file that it names.
#[derive(Debug)]
pub(super) struct AccessSource {
    path: PathBuf,
    is_public: bool,
}

/// The version of a file's content, determined without reading the file. A replaced file has
/// another inode, and a written file has another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(Option<[u64; 6]>);

impl Version {
    /// Returns the present version of the file.
    pub(super) fn of(path: &Path) -> Self {
        Self(std::fs::metadata(path).ok().as_ref().map(stamp))
    }
}

impl AccessSource {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            is_public: false,
        }
    }

    /// Creates the source of a file that every user may read.
    pub(super) const fn public(path: PathBuf) -> Self {
        Self {
            path,
            is_public: true,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the present version of the file.
    pub(super) fn version(&self) -> Version {
        Version::of(&self.path)
    }

    /// Returns the content of the file and its version, if no other user can change the file.
    pub(super) fn read(&self) -> Result<(String, Version), AccessError> {
        let unreadable = |reason| AccessError::Unreadable {
            path: self.path.clone(),
            reason,
        };
        let file = self.open().map_err(unreadable)?;
        // The metadata are those of the open file, and therefore of the file that is read.
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            let reason = format!("it must be a file of at most {MAX_BYTES} bytes");
            return Err(unreadable(io::Error::new(
                io::ErrorKind::InvalidInput,
                reason,
            )));
        }
        self.check_permissions(&metadata)?;
        let mut text = String::new();
        file.take(MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        Ok((text, Version(Some(stamp(&metadata)))))
    }

    /// Opens the file. A named pipe is not waited for: then no later change would be read.
    fn open(&self) -> io::Result<File> {
        let mut options = File::options();
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;

            options.custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits());
        }
        options.read(true).open(&self.path)
    }

    #[cfg(unix)]
    fn check_permissions(&self, metadata: &Metadata) -> Result<(), AccessError> {
        use std::os::unix::fs::MetadataExt;

        let refuse = |problem: String, fix: String| AccessError::Permissions {
            path: self.path.clone(),
            problem,
            fix,
        };
        let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
        let user = nix::unistd::geteuid().as_raw();
        if owner != 0 && owner != user {
            let problem = format!("belongs to user {owner}, which could change all rights");
            return Err(refuse(problem, format!("chown {user}")));
        }
        if mode & 0o022 != 0 {
            let problem = format!("has mode {mode:04o}: other users could change all rights");
            return Err(refuse(problem, "chmod go-w".into()));
        }
        if mode & 0o004 != 0 && !self.is_public {
            let path = self.path.display();
            warn!(
                "{path} has mode {mode:04o}: every user can read the names and rights; run: chmod o-r {path}"
            );
        }
        Ok(())
    }

    #[cfg(not(unix))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)]
    fn check_permissions(&self, _: &Metadata) -> Result<(), AccessError> {
        Ok(())
    }
}

#[cfg(unix)]
fn stamp(metadata: &Metadata) -> [u64; 6] {
    use std::os::unix::fs::MetadataExt;

    [
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
        // The mode and the owner change this time, too.
        metadata.ctime_nsec().cast_unsigned(),
    ]
}

#[cfg(not(unix))]
fn stamp(metadata: &Metadata) -> [u64; 6] {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let since = since.unwrap_or_default();
    let nanos = u64::from(since.subsec_nanos());
    [metadata.len(), since.as_secs(), nanos, 0, 0, 0]
}
