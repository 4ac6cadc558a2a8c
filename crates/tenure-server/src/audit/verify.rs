//! Checks the chain of an audit log.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::log::{Chain, Link};

/// A chain without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The number of its first line.
    pub first: u64,
    /// The number of its last line.
    pub last: u64,
}

/// Why a log is not a chain without a gap.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A file can't be read.
    #[error("can't read {path}: {reason}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// A line is no audit line: it was edited, or a crash cut it short.
    #[error("{path}:{line}: this is not an audit line", path = path.display())]
    NotALine {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A line does not follow the one before.
    #[error(
        "{path}:{line}: line {seq} does not follow line {before}: one of both was changed, or lines \
         between them are missing",
        path = path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line in the file, counted from 1.
        line: usize,
        /// The number that the line has.
        seq: u64,
        /// The number of the line before.
        before: u64,
    },
}

/// Checks files that follow one another, oldest first: each line has the hash of the line before.
///
/// It finds lines that were edited, lost or moved, and files that were cut in the middle. It proves
/// nothing against somebody who can write all of the rest anew: ship lines elsewhere for that.
///
/// # Errors
///
/// [`VerifyError`] names the first line that is wrong.
pub fn verify(files: &[impl AsRef<Path>]) -> Result<Option<Verified>, VerifyError> {
    let mut chain: Option<Chain> = None;
    let mut first = 0;
    for path in files.iter().map(AsRef::as_ref) {
        let unreadable = |reason| VerifyError::Unreadable {
            path: path.into(),
            reason,
        };
        let file = File::open(path).map_err(unreadable)?;
        for (index, line) in BufReader::new(file).lines().enumerate() {
            let text = line.map_err(unreadable)?;
            let line = index + 1;
            let link: Link = serde_json::from_str(&text).map_err(|_| VerifyError::NotALine {
                path: path.into(),
                line,
            })?;
            match &chain {
                // The first file may be the rest of an older log.
                None => first = link.seq,
                Some(before) if link.seq == before.seq + 1 && link.prev == before.hash => {}
                Some(before) => {
                    return Err(VerifyError::Broken {
                        path: path.into(),
                        line,
                        seq: link.seq,
                        before: before.seq,
                    });
                }
            }
            chain = Some(Chain::after(&text, &link));
        }
    }
    let last = chain.map(|chain| chain.seq);
    Ok(last.map(|last| Verified { first, last }))
}
