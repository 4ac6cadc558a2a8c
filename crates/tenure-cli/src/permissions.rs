//! Warnings about files that other users can read or change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tracing::warn;

/// Warns if users other than the owner and the group can read or change a file with a secret. The
/// group is not checked, because some systems share keys with a group.
pub(crate) fn check_key(path: &Path) {
    check(
        path,
        0o004,
        "every user of this machine can read this key",
        "o-rw",
    );
    check(
        path,
        0o002,
        "every user of this machine can change this key",
        "o-rw",
    );
}

/// Warns if users other than the owner can replace files in a directory.
pub(crate) fn check_folder(path: &Path) {
    check(
        path,
        0o022,
        "other users can replace files in this directory",
        "go-w",
    );
}

fn check(path: &Path, wrong: u32, problem: &str, fix: &str) {
    // If the metadata can't be read, opening the file reports why.
    let Ok(metadata) = fs::metadata(path) else {
        return;
    };
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & wrong != 0 {
        let path = path.display();
        warn!("{path} has mode {mode:04o}: {problem}; run: chmod {fix} {path}");
    }
}
