//! The file of an audit log: a chain of lines, each with the hash of the line before.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use chrono::{SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use super::AuditTarget;
use super::entry::AuditEntry;

/// Most bytes at the end of a file that are searched for the last line.
const TAIL: u64 = 1024 * 1024;

/// A log that is open for writing.
#[derive(Debug)]
pub(super) struct Log {
    target: AuditTarget,
    /// `None` for stderr, and after a failure.
    file: Option<File>,
    chain: Chain,
}

/// The end of a chain of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// The number of the last line.
    pub(super) seq: u64,
    /// Its hash; empty before the first line.
    pub(super) hash: String,
}

/// A line as it is written: the fields in this order.
#[derive(Serialize)]
struct Written<'a> {
    seq: u64,
    at: String,
    #[serde(flatten)]
    entry: &'a AuditEntry,
    prev: &'a str,
}

/// The part of a line that makes the chain.
#[derive(Deserialize)]
pub(super) struct Link {
    pub(super) seq: u64,
    pub(super) prev: String,
}

impl Chain {
    /// The chain after this line, if the line follows it.
    pub(super) fn after(line: &str, link: &Link) -> Self {
        Self {
            seq: link.seq,
            hash: hash_of(line),
        }
    }
}

impl Log {
    pub(super) fn open(target: AuditTarget) -> io::Result<Self> {
        let (file, chain) = match &target {
            AuditTarget::Stderr => (None, Chain::default()),
            AuditTarget::File(path) => {
                let mut file = open(path)?;
                let chain = end_of(&mut file)?;
                (Some(file), chain)
            }
        };
        Ok(Self {
            target,
            file,
            chain,
        })
    }

    /// Appends a line.
    pub(super) fn append(&mut self, entry: &AuditEntry) -> io::Result<()> {
        let seq = self.chain.seq + 1;
        let written = Written {
            seq,
            at: Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
            entry,
            prev: &self.chain.hash,
        };
        // JSON escapes line feeds, so a reason can't forge a line.
        let line = serde_json::to_string(&written)?;
        let bytes = format!("{line}\n");
        match &self.target {
            AuditTarget::Stderr => io::stderr().write_all(bytes.as_bytes())?,
            AuditTarget::File(_) => self.current()?.write_all(bytes.as_bytes())?,
        }
        self.chain = Chain {
            seq,
            hash: hash_of(&line),
        };
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        match &self.file {
            Some(file) => file.sync_data(),
            None => Ok(()),
        }
    }

    /// The file at the path. If it was renamed or deleted, which is how logs are rotated, a new one
    /// is made; the chain goes on there.
    fn current(&mut self) -> io::Result<&mut File> {
        let AuditTarget::File(path) = &self.target else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let is_same = self.file.as_ref().is_some_and(|file| is_at(file, path));
        if !is_same {
            self.file = None;
            self.file = Some(open(path)?);
        }
        self.file
            .as_mut()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The SHA-256 of a line without its line feed.
pub(super) fn hash_of(line: &str) -> String {
    use aws_lc_rs::digest::{SHA256, digest};

    let digest = digest(&SHA256, line.as_bytes());
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path)
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

/// The chain up to the last line of the file. A line that a crash cut short is ended, so that
/// `verify` finds it and the next line stands by itself.
fn end_of(file: &mut File) -> io::Result<Chain> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let text = String::from_utf8_lossy(&tail);
    if !text.is_empty() && !text.ends_with('\n') {
        file.write_all(b"\n")?;
    }
    let mut lines = text.lines().rev();
    let last = lines.find_map(|line| Some((line, serde_json::from_str::<Link>(line).ok()?)));
    match last {
        Some((line, link)) => Ok(Chain::after(line, &link)),
        None if text.trim().is_empty() => Ok(Chain::default()),
        None => {
            let reason = "its end has no audit line; name another file";
            Err(io::Error::new(io::ErrorKind::InvalidData, reason))
        }
    }
}
