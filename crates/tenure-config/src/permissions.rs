//! Files and directories that other users can read or change.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tracing::warn;

/// Warns if users other than the owner and the group can read or change a file with a secret. The
/// group is not checked, because some systems share keys with a group.
pub fn warn_of_secret(path: &Path) {
    warn_of(
        path,
        0o006,
        "every user of this machine can read or change this secret",
        "o-rw",
    );
}

/// Warns if users other than the owner can replace files in a directory.
pub fn warn_of_folder(path: &Path) {
    warn_of(
        path,
        0o022,
        "other users can replace files in this directory",
        "go-w",
    );
}

fn warn_of(path: &Path, wrong: u32, problem: &str, fix: &str) {
    let Some(mode) = fs::metadata(path).ok().as_ref().map(mode) else {
        // If the metadata can't be read, opening the file reports why.
        return;
    };
    if mode & wrong != 0 {
        let path = path.display();
        warn!("{path} has mode {mode:04o}: {problem}; run: chmod {fix} {path}");
    }
}

/// Refuses a configuration with a token that other users can read. The group may read a file of
/// root: so a secret of Kubernetes is mounted into a pod with another user.
///
/// # Errors
///
/// The mode of the file, and how to change it.
pub fn check_configuration(path: &Path) -> Result<(), String> {
    // A text that was not read from a file has no mode.
    let Ok(metadata) = fs::metadata(path) else {
        return Ok(());
    };
    check(mode(&metadata), metadata.uid())
        .map_err(|problem| format!("{problem} {}", path.display()))
}

fn check(mode: u32, owner: u32) -> Result<(), String> {
    let allowed = if owner == 0 { 0o040 } else { 0 };
    match mode & 0o077 & !allowed {
        0 => Ok(()),
        _ => Err(format!(
            "other users can read the token (mode {mode:04o}); run: chmod go-rwx"
        )),
    }
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o7777
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_with_a_token_is_for_its_owner_and_a_group_that_root_has_chosen() {
        for (mode, owner, is_right) in [
            (0o600, 1000, true),
            (0o400, 1000, true),
            (0o640, 1000, false),
            (0o604, 1000, false),
            (0o600, 0, true),
            (0o640, 0, true),
            (0o440, 0, true),
            (0o660, 0, false),
            (0o650, 0, false),
            (0o644, 0, false),
            (0o641, 0, false),
        ] {
            assert_eq!(check(mode, owner).is_ok(), is_right, "{mode:o} of {owner}");
        }
    }
}
