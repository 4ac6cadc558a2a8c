//! Checks the chain of an audit log.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use super::log::{Chain, Link};

/// The beginning of each line.
const BEGIN: &[u8] = b"{\"seq\":";

/// A chain without a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of its first line.
    pub first: u64,
    /// The number of its last line.
    pub last: u64,
    /// The number of acts that were not recorded because the log could not be written, as its lines
    /// report.
    pub lost: u64,
    /// The incomplete lines. The chain continues after them, so they replace no line of the chain.
    pub cut: Vec<CutLine>,
}

/// An incomplete line: the process was killed while it wrote the line, or the disk was full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutLine {
    /// The file.
    pub path: PathBuf,
    /// The line in the file, counted from 1.
    pub line: usize,
}

/// The reason why a log is not a chain without a gap.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A file can't be read.
    #[error("can't read {path}: {reason}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// A line is not an audit line: it is other JSON, or the chain does not continue after it,
    /// because the line was edited or cut.
    #[error("{path}:{line}: this is not an audit line", path = path.display())]
    NotALine {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A line does not follow the previous line.
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
        /// The number in the line.
        seq: u64,
        /// The number in the previous line.
        before: u64,
    },
}

/// Checks files that follow one another, oldest first: each line contains the hash of the previous
/// line.
///
/// The check finds lines that were edited, lost or moved, and files that were cut in the middle. It
/// proves nothing against an attacker who can write all later lines anew: ship the lines to another
/// machine as protection against that. The very last line has no successor yet, so a change of it
/// is found only if the result is not an audit line.
///
/// # Errors
///
/// [`VerifyError`] names the first wrong line.
pub fn verify(files: &[impl AsRef<Path>]) -> Result<Option<Verified>, VerifyError> {
    let mut verifier = Verifier::default();
    for path in files.iter().map(AsRef::as_ref) {
        let unreadable = |reason| VerifyError::Unreadable {
            path: path.into(),
            reason,
        };
        let file = File::open(path).map_err(unreadable)?;
        // The check reads bytes and not text, because an edited line may not be text.
        for (index, text) in BufReader::new(file).split(b'\n').enumerate() {
            verifier.add(path, index + 1, &text.map_err(unreadable)?)?;
        }
    }
    verifier.end()
}

/// Returns whether this is the beginning of a line, or nothing. Any other line was added, and a
/// lenient program that reads the log as JSON could believe it.
fn is_cut(text: &[u8]) -> bool {
    // After a failure of power, the rest of a line may be zeros.
    let written = text.iter().rposition(|byte| *byte != 0);
    let text = &text[..written.map_or(0, |last| last + 1)];
    let begins = text.starts_with(BEGIN) || BEGIN.starts_with(text);
    begins && serde_json::from_slice::<IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

#[derive(Default)]
struct Verifier {
    chain: Option<Chain>,
    verified: Verified,
    /// The incomplete lines since the last complete line.
    cut: Vec<CutLine>,
}

impl Verifier {
    fn add(&mut self, path: &Path, line: usize, text: &[u8]) -> Result<(), VerifyError> {
        let path = path.to_owned();
        let Ok(link) = serde_json::from_slice::<Link>(text) else {
            if !is_cut(text) {
                return Err(VerifyError::NotALine { path, line });
            }
            self.cut.push(CutLine { path, line });
            return Ok(());
        };
        match &self.chain {
            // The first file may be the rest of an older log. But incomplete lines before its first
            // complete line must not hide that a line was edited.
            None if self.cut.is_empty() || Chain::default().is_before(&link) => {
                self.verified.first = link.seq;
            }
            None => self.check_cut()?,
            Some(before) if before.is_before(&link) => {}
            Some(before) => {
                self.check_cut()?;
                return Err(VerifyError::Broken {
                    path,
                    line,
                    seq: link.seq,
                    before: before.seq,
                });
            }
        }
        self.verified.cut.append(&mut self.cut);
        self.verified.lost += link.lost;
        self.chain = Some(Chain::up_to(text, &link));
        Ok(())
    }

    fn end(self) -> Result<Option<Verified>, VerifyError> {
        self.check_cut()?;
        let last = self.chain.map(|chain| chain.seq);
        Ok(last.map(|last| Verified {
            last,
            ..self.verified
        }))
    }

    /// Returns an error if there are incomplete lines after which the chain does not continue.
    fn check_cut(&self) -> Result<(), VerifyError> {
        match self.cut.first() {
            Some(CutLine { path, line }) => Err(VerifyError::NotALine {
                path: path.clone(),
                line: *line,
            }),
            None => Ok(()),
        }
    }
}
