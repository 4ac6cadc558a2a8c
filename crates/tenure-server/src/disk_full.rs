//! Errors of a full disk. A limit of the size of files (`ulimit -f`, `LimitFSIZE=`) counts like one:
//! the file can't grow, what was written before is intact, and a larger limit ends the state.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Returns whether an error says that there is no room for more.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded
    )
}

/// Returns whether a file has the greatest size that this process may give it. SQLite does not tell
/// the reason of a failed write, and a write up to the limit succeeds in part.
#[cfg(unix)]
pub(crate) fn is_at_limit(file: &Path) -> bool {
    use nix::sys::resource::{Resource, getrlimit};
    let limit = getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft);
    fs::metadata(file).is_ok_and(|file| file.len() >= limit)
}

#[cfg(not(unix))]
pub(crate) fn is_at_limit(_: &Path) -> bool {
    false
}
