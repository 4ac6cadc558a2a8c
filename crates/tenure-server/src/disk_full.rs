//! Errors of a full disk. A limit of the size of files (`ulimit -f`, `LimitFSIZE=`) counts like one:
//! the file can't grow, what was written before is intact, and a larger limit ends the state.

use std::io::{self, ErrorKind};

/// Returns whether an error says that there is no room for more.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded
    )
}
