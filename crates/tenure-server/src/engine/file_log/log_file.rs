//! One file of the log: its space is reserved, and its entries follow each other.
//!
//! ```text
//! header   "tenure log 1\n", and a frame with the store, a random number, the entry before the first
//!          one, and the reserved length
//! frames   each with an entry, and the random number before it
//! zeros    up to the reserved length
//! ```
//!
//! **A torn end and damage.** An entry is durable before the next one is written. So a power cut tears
//! only the last entry, which was not acknowledged, and the first frame that is not right ends the log.
//! If a right frame with a later entry is behind it, the file is damaged instead. The random number of
//! the file is in each frame and in no answer of the store, so no client can write metadata that looks
//! like a later entry. Damage of the very last entry can't be told from a power cut, unless the store
//! ended: then its last entry says that nothing is behind it.
//!
//! **The last file has its reserved length.** It is cut to its entries only when the next file is
//! durable. So a last file that is shorter was truncated, or the file after it is missing.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tenure_core::Random as _;

use super::folder::private;
use crate::disk_full::is_disk_full;
use crate::engine::entry::{
    Entry, EntryKind, Position, check_format, format_line, frame, put, put_frame, read as decode,
};
use crate::engine::replica::Replica;
use crate::engine::{AppendError, OpenError};
use crate::model::StoreId;
use crate::random::OsRandom;

/// The kind of the file, in its first line.
const KIND: &str = "log";

/// The number of bytes of the header.
pub(super) const HEADER: u64 = 128;

/// The lengths that are reserved for a file, the first one that there is room for: a disk that is
/// nearly full is used up. Tests begin many files.
const LENGTHS: &[u64] = match cfg!(test) {
    true => &[64 << 10],
    false => &[16 << 20, 4 << 20, 1 << 20, 64 << 10],
};

/// A file to which entries are appended.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    /// The number of its first entry, once it has begun.
    pub(super) first: u64,
    file: File,
    nonce: Nonce,
    /// The place of the next entry.
    pub(super) at: u64,
    length: u64,
}

/// The random number of a file.
type Nonce = [u8; 16];

/// What the header says.
#[derive(Serialize, Deserialize)]
struct Header {
    store: StoreId,
    nonce: Nonce,
    /// The entry before the first one.
    before: Position,
    /// The reserved length.
    length: u64,
}

impl LogFile {
    /// Reserves space for a file of at least this length, which has no header yet.
    ///
    /// # Errors
    ///
    /// For example there is no space left.
    pub(super) fn reserve(path: PathBuf, at_least: u64) -> io::Result<Self> {
        let file = private().truncate(true).open(&path)?;
        let usual = LENGTHS.iter().copied().filter(|length| *length >= at_least);
        let mut reserved = Err(io::ErrorKind::StorageFull.into());
        for length in usual.chain((at_least > 0).then_some(at_least)) {
            reserved = reserve(&file, length).map(|()| length);
            if !reserved.as_ref().is_err_and(is_disk_full) {
                break;
            }
        }
        let random = [OsRandom.next_u64(), OsRandom.next_u64()].map(u128::from);
        match reserved {
            Ok(length) => Ok(Self {
                path,
                first: 0,
                file,
                nonce: (random[0] << 64 | random[1]).to_le_bytes(),
                at: HEADER,
                length,
            }),
            Err(error) => {
                drop(file);
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Makes this the file of the log at `path`, whose first entry follows this one. The name is
    /// durable once its directory is synced.
    pub(super) fn begin(
        mut self,
        path: PathBuf,
        store: &StoreId,
        before: Position,
    ) -> io::Result<Self> {
        let header = Header {
            store: store.clone(),
            nonce: self.nonce,
            before,
            length: self.length,
        };
        let mut bytes = format_line(KIND);
        put_frame(&mut bytes, 0, |to| put(to, &header));
        bytes.resize(HEADER as usize, 0);
        self.file.write_all_at(&bytes, 0)?;
        self.file.sync_all()?;
        fs::rename(&self.path, &path)?;
        (self.path, self.first) = (path, before.sequence + 1);
        Ok(self)
    }

    /// Whether a frame of this length fits into the file.
    pub(super) const fn fits(&self, frame: usize) -> bool {
        self.at + frame as u64 <= self.length
    }

    /// Whether more than half of the file is used.
    pub(super) const fn is_half_full(&self) -> bool {
        self.at > self.length / 2
    }

    /// Appends a frame for the entry to `to`. Returns the checksum of the entry.
    pub(super) fn frame(&self, entry: &Entry<'_>, to: &mut Vec<u8>) -> u32 {
        to.extend_from_slice(&self.nonce);
        put_frame(to, 0, |to| entry.encode(to))
    }

    /// Writes a frame that fits, and makes it durable.
    pub(super) fn append(&mut self, frame: &[u8]) -> Result<(), AppendError> {
        let text = |error| format!("{}: {error}", self.path.display());
        self.check_owner()?;
        if let Err(error) = self.file.write_all_at(frame, self.at) {
            // The space is reserved, so only a few file systems need more for a write. What was written
            // of the frame must not stay.
            let erased = self.file.write_all_at(&vec![0; frame.len()], self.at);
            return Err(match erased.and_then(|()| self.file.sync_data()) {
                Ok(()) if is_disk_full(&error) => AppendError::DiskFull(text(error)),
                _ => AppendError::Unknown(text(error)),
            });
        }
        // After a failed sync the operating system may have dropped what it could not write, and the
        // next sync would not say so.
        let synced = self.file.sync_data();
        synced.map_err(|error| AppendError::Unknown(text(error)))?;
        self.check_owner()?;
        self.at += frame.len() as u64;
        Ok(())
    }

    /// Checks that no other store has begun to use the directory, whose lock file can be deleted by
    /// hand. Such a store cuts this file, or replaces it, before it answers. So it is noticed before the
    /// next entry is written, and an entry that it did not read is not acknowledged.
    fn check_owner(&self) -> Result<(), AppendError> {
        let detail = match length_and_names(&self.file) {
            Ok((length, names)) if length == self.length && names > 0 => return Ok(()),
            Ok(_) => {
                " was deleted or changed: another store uses the folder, or its files were removed"
                    .into()
            }
            Err(error) => format!(": {error}"),
        };
        let file = self.path.display();
        Err(AppendError::Unknown(format!("{file}{detail}")))
    }
}

/// Reserves space for the file.
fn reserve(file: &File, length: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use nix::errno::Errno;
        use nix::fcntl::{FallocateFlags, fallocate};
        let length = i64::try_from(length).map_err(io::Error::other)?;
        match fallocate(file, FallocateFlags::empty(), 0, length) {
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
            reserved => return reserved.map_err(Into::into),
        }
    }
    // The file system can't reserve space, so the file is filled.
    let zeros = vec![0; 64 << 10];
    let mut at = 0;
    while at < length {
        let part = zeros.len().min((length - at) as usize);
        file.write_all_at(&zeros[..part], at)?;
        at += part as u64;
    }
    file.sync_all()
}

/// Returns the length of a file and the number of its names.
///
/// It does not read the times of the file. Linux changes the time of a file at its next write if that
/// time was read, and then a sync takes nearly half as long again.
fn length_and_names(file: &File) -> io::Result<(u64, u64)> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        let wanted = StatxFlags::SIZE | StatxFlags::NLINK;
        // A sandbox may forbid this call.
        if let Ok(found) = statx(file, "", AtFlags::EMPTY_PATH, wanted) {
            return Ok((found.stx_size, found.stx_nlink.into()));
        }
    }
    file.metadata().map(|it| (it.len(), it.nlink()))
}

/// Makes the entries durable that were read from a file that a store did not end.
///
/// If a sync of that store failed, its last entries may be in the memory of the operating system alone,
/// and another sync would not say so. So they are written once more, before a file follows them.
pub(super) fn write_again(path: &Path, at: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut bytes = vec![0; at as usize];
    file.read_exact_at(&mut bytes, 0)?;
    file.write_all_at(&bytes, 0)?;
    file.sync_all()
}

/// Gives back the space behind the last entry of a file. The next file of the log is durable.
pub(super) fn cut(path: &Path, at: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(at)?;
    file.sync_all()
}

/// Returns whether a file of the log has no entry, not even a part of one.
pub(super) fn is_unused(path: &Path) -> Result<bool, OpenError> {
    let bytes = fs::read(path).map_err(OpenError::io(path))?;
    Ok(bytes.iter().skip(HEADER as usize).all(|byte| *byte == 0))
}

/// The end of a file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct End {
    /// The place behind the last entry.
    pub(super) at: u64,
    /// Whether the file has its reserved length.
    pub(super) is_whole: bool,
}

/// Reads a file of the log and applies its entries to the state before them.
pub(super) fn read(path: &Path, replica: &mut Replica) -> Result<End, OpenError> {
    let bytes = fs::read(path).map_err(OpenError::io(path))?;
    let damaged = |detail: String| OpenError::damaged(path, detail);
    let header = read_header(path, &bytes)?;
    if Some(&header.store) != replica.content.store_id.as_ref() {
        return Err(damaged("it belongs to another store".into()));
    }
    if header.before != replica.at {
        return Err(damaged(format!(
            "it follows entry {} of another log, or files before it are missing: they end with entry {}",
            header.before.sequence, replica.at.sequence
        )));
    }
    let mut at = HEADER as usize;
    let mut has_ended = false;
    while let Some((entry, sum, next)) = frame_at(&bytes, at, &header.nonce) {
        let entry = Entry::decode(entry)
            .map_err(|error| damaged(format!("the entry at byte {at} is not valid: {error}")))?;
        if !replica.is_next(&entry) {
            break;
        }
        replica.add(&entry, sum).map_err(damaged)?;
        has_ended = entry.kind == EntryKind::Vacant;
        at = next;
    }
    if has_ended && bytes[at..].iter().any(|byte| *byte != 0) {
        return Err(damaged(format!(
            "the store ended with the entry before byte {at}, and something is behind it"
        )));
    }
    // In a file that was not damaged, zeros follow.
    for found in memchr::memmem::find_iter(&bytes[at..], &header.nonce) {
        if frame_at(&bytes, at + found, &header.nonce).is_some() {
            return Err(damaged(format!(
                "the entry at byte {at} is not right, and a later one is at byte {}",
                at + found
            )));
        }
    }
    Ok(End {
        at: at as u64,
        is_whole: bytes.len() as u64 >= header.length,
    })
}

fn read_header(path: &Path, bytes: &[u8]) -> Result<Header, OpenError> {
    let line = bytes.iter().position(|byte| *byte == b'\n');
    let (line, rest) = bytes.split_at(line.map_or(0, |end| end + 1));
    check_format(path, line, KIND)?;
    let header = frame(rest, 0).filter(|_| bytes.len() >= HEADER as usize);
    let header = header.and_then(|(header, ..)| decode(header).ok());
    header.ok_or_else(|| OpenError::damaged(path, "its header does not match its checksum"))
}

/// Reads the frame at this place. Returns the bytes of its entry, their checksum, and the place behind
/// the frame; `None` if there is no frame that is right.
fn frame_at<'a>(bytes: &'a [u8], at: usize, nonce: &Nonce) -> Option<(&'a [u8], u32, usize)> {
    let behind = bytes.get(at..)?.strip_prefix(nonce)?;
    let (entry, sum, rest) = frame(behind, 0)?;
    Some((entry, sum, bytes.len() - rest.len()))
}
