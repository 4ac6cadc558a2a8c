//! New files with secrets that only their owner can read.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;

/// Writes a new file with mode 0600. An existing file is not changed, because it may be the only
/// copy of another secret.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().with_context(|| format!("can't write {}", path.display()))
}
