//! A change that the database must have at least, so that a start detects a lost database or a lost
//! log.
//!
//! A change is in the log first, which is moved into the database from time to time. Without the
//! log, acknowledged changes would be undone; without both, there would be no blobs. So after each
//! move a file gets the number of the first change that is only in the log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tenure_server::OpenError;
use tenure_server::companion::log_of;

/// The word before the number of the change.
const WORD: &str = "tenure-blobs";

/// The file.
#[derive(Debug)]
pub(in crate::server) struct Watermark(PathBuf);

impl Watermark {
    pub(in crate::server) fn of(folder: &Path) -> Self {
        Self(folder.join("BLOBS"))
    }

    /// The file, if it exists: then there are blobs, or were.
    pub(in crate::server) fn trace(&self) -> Option<&Path> {
        fs::symlink_metadata(&self.0).is_ok().then_some(&self.0)
    }

    /// The change that `database` or its log must have; `None` if there was no change yet.
    pub(in crate::server) fn read(&self, database: &Path) -> Result<Option<u64>, OpenError> {
        let text = match fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::io(&self.0)(error)),
        };
        let text = String::from_utf8_lossy(&text);
        let number = text.trim_end().strip_prefix(WORD);
        let Some(number) = number.and_then(|number| number.trim().parse().ok()) else {
            let detail = format!("it should say {WORD:?} and a number");
            return Err(damaged(&self.0, detail));
        };
        match fs::metadata(database) {
            Ok(file) if file.len() > 0 => Ok(Some(number)),
            _ => Err(damaged(database, "it is missing or empty".into())),
        }
    }

    /// Records a change that is durable.
    pub(super) fn write(&self, number: u64) -> io::Result<()> {
        let new = self.0.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        writeln!(file, "{WORD} {number}")?;
        file.sync_all()?;
        // After a power failure there is the old file or the new one, complete.
        fs::rename(&new, &self.0)?;
        match self.0.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Checks that the database has the change that was read before.
pub(in crate::server) fn check(
    database: &Path,
    marked: Option<u64>,
    number: u64,
) -> Result<(), OpenError> {
    match marked {
        Some(marked) if number < marked => Err(damaged(
            &log_of(database),
            format!(
                "it is missing or cut off: the database ends at change {number} and had come to \
                 {marked} at least"
            ),
        )),
        _ => Ok(()),
    }
}

fn damaged(path: &Path, detail: String) -> OpenError {
    let path = path.to_owned();
    OpenError::Damaged { path, detail }
}
