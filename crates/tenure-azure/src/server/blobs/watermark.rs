//! How far the blobs of a folder had come at least, so that a lost database, or a lost log of it, is
//! noticed.
//!
//! A change is in the log at first, which is moved into the database now and then. Without the log
//! acknowledged changes would be undone, and without both there would be no blobs. So after each move the
//! first change that is in the log alone is named in a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tenure_server::OpenError;
use tenure_server::companion::log_of;

/// What stands in the file before the number of the change.
const MARK: &str = "tenure-blobs";

/// The file.
#[derive(Debug)]
pub(in crate::server) struct Watermark(PathBuf);

impl Watermark {
    pub(in crate::server) fn of(folder: &Path) -> Self {
        Self(folder.join("BLOBS"))
    }

    /// The file, if it is there: then there are blobs, or were.
    pub(in crate::server) fn trace(&self) -> Option<&Path> {
        fs::symlink_metadata(&self.0).is_ok().then_some(&self.0)
    }

    /// The change that is in `database` or its log at least; `None` where nothing was ever changed.
    pub(in crate::server) fn read(&self, database: &Path) -> Result<Option<u64>, OpenError> {
        let text = match fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::io(&self.0)(error)),
        };
        let text = String::from_utf8_lossy(&text);
        let number = text.trim_end().strip_prefix(MARK);
        let Some(number) = number.and_then(|number| number.trim().parse().ok()) else {
            let detail = format!("it should say {MARK:?} and a number");
            return Err(damaged(&self.0, detail));
        };
        match fs::metadata(database) {
            Ok(file) if file.len() > 0 => Ok(Some(number)),
            _ => Err(damaged(database, "it is missing or empty".into())),
        }
    }

    /// Names the change: it is durable.
    pub(super) fn write(&self, number: u64) -> io::Result<()> {
        let new = self.0.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        writeln!(file, "{MARK} {number}")?;
        file.sync_all()?;
        // Whenever the power goes there is the old one or the new one, whole.
        fs::rename(&new, &self.0)?;
        match self.0.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// The blobs have come as far as they had, by what was read of their mark before.
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
