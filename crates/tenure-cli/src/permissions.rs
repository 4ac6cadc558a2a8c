//! Warnings about files that other users may read or change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tracing::warn;

/// Warns if users other than the owner and the group may read or change a file with a secret. Groups
/// are left out: some systems keep keys for one.
pub(crate) fn check_key(path: &Path) {
    check(
        path,
        0o006,
        "every user of this machine may read or change this key",
        "o-rw",
    );
}

/// Warns if users other than the owner may change what is in a folder.
pub(crate) fn check_folder(path: &Path) {
    check(
        path,
        0o022,
        "other users may replace what is in this folder",
        "go-w",
    );
}

fn check(path: &Path, wrong: u32, what: &str, mend: &str) {
    // If it can't be looked at, opening it tells why.
    let Ok(metadata) = fs::metadata(path) else {
        return;
    };
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & wrong != 0 {
        let path = path.display();
        warn!("{path} has mode {mode:04o}: {what}; run: chmod {mend} {path}");
    }
}
