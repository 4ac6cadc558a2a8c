//! The mark of a data directory whose store had access control.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use super::folder::private;

/// The name of the file.
const MARK: &str = "GUARDED";

const MARK_TEXT: &str = "The store of this directory has access control. \
    It is not served without an access file unless the flag --allow-anonymous is given.\n";

/// Marks a data directory, so that its store is not served without access control by mistake. Its
/// backups have the mark, too.
///
/// # Errors
///
/// The mark could not be made durable.
pub fn mark_guarded(data_dir: &Path) -> io::Result<()> {
    let path = data_dir.join(MARK);
    if path.exists() {
        return Ok(());
    }
    // A link is not followed.
    let mut file = private().create_new(true).open(path)?;
    file.write_all(MARK_TEXT.as_bytes())?;
    file.sync_all()?;
    File::open(data_dir)?.sync_all()
}

/// Returns whether a store with access control was served from this data directory, or from the one
/// whose backup was restored there.
#[must_use]
pub fn is_guarded(data_dir: &Path) -> bool {
    // If the directory can't be read, opening the store reports the reason.
    data_dir.join(MARK).exists()
}
