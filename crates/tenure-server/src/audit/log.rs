//! The file of an audit log: a chain of lines, each with the hash of the previous line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenure_core::text;
use tracing::error;

use super::AuditTarget;
use super::entry::AuditEntry;
use crate::disk_full::is_disk_full;

/// The maximum number of bytes at the end of a file that are searched for the last line.
const TAIL: u64 = 1024 * 1024;

/// The mode of a new log.
#[cfg(unix)]
const MODE: u32 = 0o640;

/// A log that is open for writing.
#[derive(Debug)]
pub(super) struct Log {
    target: AuditTarget,
    /// The open file. `None` for stderr, and if the file could not be opened.
    file: Option<LogFile>,
    chain: Chain,
}

#[derive(Debug)]
struct LogFile {
    file: File,
    /// `true` if the file ends within a line: the process was killed while it wrote the line, or
    /// the disk was full. The next record then begins with a line feed, so that it is a separate
    /// line.
    ends_within_line: bool,
}

/// The end of a chain of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// The number of the last line.
    pub(super) seq: u64,
    /// The hash of the last line; empty before the first line.
    pub(super) hash: String,
}

/// A line in its written form, with the fields in this order.
#[derive(Serialize)]
struct Written<'a> {
    seq: u64,
    #[serde(flatten)]
    entry: &'a AuditEntry,
    #[serde(skip_serializing_if = "is_zero")]
    lost: u64,
    prev: &'a str,
}

/// The fields of a line that form the chain.
#[derive(Deserialize)]
pub(super) struct Link {
    pub(super) seq: u64,
    #[serde(default)]
    pub(super) lost: u64,
    pub(super) prev: String,
}

impl Chain {
    /// Returns whether a line with this link is the next line of the chain.
    pub(super) fn is_before(&self, link: &Link) -> bool {
        link.seq == self.seq + 1 && link.prev == self.hash
    }

    /// Returns the end of the chain after this line.
    pub(super) fn up_to(line: &[u8], link: &Link) -> Self {
        Self {
            seq: link.seq,
            hash: hash_of(line),
        }
    }
}

/// Checks that a log can be opened at this path.
pub(super) fn check(path: &Path) -> io::Result<()> {
    match LogFile::open(path, false) {
        Ok(mut file) => file.chain().map(drop),
        // The file is created at the start, in a directory that exists.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            folder.map_or(Ok(()), |folder| folder.read_dir().map(drop))
        }
        Err(error) => Err(error),
    }
}

impl Log {
    pub(super) fn open(target: AuditTarget) -> io::Result<Self> {
        let (file, chain) = match &target {
            AuditTarget::Stderr => (None, Chain::default()),
            AuditTarget::File(path) => match LogFile::open(path, true) {
                Ok(mut file) => {
                    let chain = file.chain()?;
                    (Some(file), chain)
                }
                // A store must also start on a full disk.
                Err(error) if is_disk_full(&error) => {
                    error!(%error, path = %path.display(), "can't make the audit log");
                    (None, Chain::default())
                }
                Err(error) => return Err(error),
            },
        };
        Ok(Self {
            target,
            file,
            chain,
        })
    }

    /// Appends a line. `lost` is the number of lines that were lost since the previous line.
    pub(super) fn append(&mut self, entry: &AuditEntry, lost: u64) -> io::Result<()> {
        let seq = self.chain.seq + 1;
        let written = Written {
            seq,
            entry,
            lost,
            prev: &self.chain.hash,
        };
        // JSON escapes line feeds, so a reason can't forge a line. The others of these characters
        // could hide a part of the line from its reader.
        let line = serde_json::to_string(&written)?;
        let line = text::escape_document(&line);
        let line = line.as_bytes();
        match &self.target {
            AuditTarget::Stderr => io::stderr().write_all(&[line, b"\n"].concat())?,
            AuditTarget::File(_) => self.current()?.append(line)?,
        }
        self.chain = Chain {
            seq,
            hash: hash_of(line),
        };
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match &self.file {
            Some(file) => file.file.sync_data(),
            None => Ok(()),
        }
    }

    /// Returns the file at the path. If the file was renamed or deleted, as log rotation does, the
    /// function creates a new file, in which the chain continues.
    fn current(&mut self) -> io::Result<&mut LogFile> {
        let AuditTarget::File(path) = &self.target else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let same = self.file.take().filter(|file| is_at(&file.file, path));
        let file = match same {
            Some(file) => file,
            None => LogFile::open(path, true)?,
        };
        Ok(self.file.insert(file))
    }
}

impl LogFile {
    fn open(path: &Path, creates: bool) -> io::Result<Self> {
        let mut file = open_file(path, creates)?;
        let mut last = [b'\n'];
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(Self {
            file,
            ends_within_line: last != *b"\n",
        })
    }

    /// Appends a line completely or not at all.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let start: &[u8] = if self.ends_within_line { b"\n" } else { b"" };
        let length = self.file.metadata()?.len();
        let written = self.file.write_all(&[start, line, b"\n"].concat());
        if written.is_ok() {
            self.ends_within_line = false;
        } else if self.file.metadata().is_ok_and(|now| now.len() > length) {
            // The beginning of the line was written before the disk was full.
            self.ends_within_line |= self.file.set_len(length).is_err();
        }
        written
    }

    /// Returns the end of the chain after the last line.
    fn chain(&mut self) -> io::Result<Chain> {
        let wrong = |reason| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        let metadata = self.file.metadata()?;
        if !metadata.is_file() {
            return wrong("it must be a regular file, or \"stderr\"");
        }
        let start = metadata.len().saturating_sub(TAIL);
        self.file.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        (&self.file).take(TAIL).read_to_end(&mut tail)?;
        let mut lines = tail.rsplit(|byte| *byte == b'\n');
        let last = lines.find_map(|line| Some((line, serde_json::from_slice::<Link>(line).ok()?)));
        match last {
            Some((line, link)) => Ok(Chain::up_to(line, &link)),
            None if tail.trim_ascii().is_empty() => Ok(Chain::default()),
            None => wrong("its end has no audit line; name another file"),
        }
    }
}

/// Opens a log for appending. Another user who owns a directory of the path can put a link there at
/// any time, so root follows no link, except one of root at the end of the path.
#[cfg(target_os = "linux")]
fn open_file(path: &Path, creates: bool) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt;

    use nix::errno::Errno;
    use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
    use nix::sys::stat::Mode;
    use nix::unistd::Uid;

    let mut flags = OFlag::O_RDWR | OFlag::O_APPEND | OFlag::O_CLOEXEC;
    let mut how = OpenHow::new().resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    if creates {
        flags |= OFlag::O_CREAT;
        how = how.mode(Mode::from_bits_truncate(MODE));
    }
    let is_roots = |link: std::fs::Metadata| link.is_symlink() && link.uid() == 0;
    match openat2(AT_FDCWD, path, how.flags(flags)) {
        Err(Errno::ELOOP)
            if Uid::effective().is_root() && !path.symlink_metadata().is_ok_and(is_roots) =>
        {
            let reason = "a part of the path is a link of another user, which root does not follow";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
        }
        // Also on an old kernel, and in a container that permits only system calls that it knows.
        Err(Errno::ELOOP | Errno::ENOSYS | Errno::EPERM) => open_following(path, creates),
        opened => Ok(opened?.into()),
    }
}

#[cfg(not(target_os = "linux"))]
use open_following as open_file;

fn open_following(path: &Path, creates: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(creates);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, MODE);
    options.open(path)
}

/// Returns the SHA-256 of a line without its line feed.
fn hash_of(line: &[u8]) -> String {
    use aws_lc_rs::digest::{SHA256, digest};

    let digest = digest(&SHA256, line);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[allow(clippy::trivially_copy_pass_by_ref)] // Serde passes a reference.
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(own), Ok(there)) => id(own) == id(there),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
