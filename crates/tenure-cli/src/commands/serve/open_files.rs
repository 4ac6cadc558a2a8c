//! The limit of open files: each connection of the store is an open file of the process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tenure_server::Limits;
use tracing::{debug, warn};

/// Raises the limit of open files to the number that these limits need, as far as the system allows
/// it. If that is not enough, `max_connections` is lowered: a store without a file for another
/// connection could neither refuse the connection nor accept a renewal over it.
pub(super) fn raise_limit(limits: Limits) -> Limits {
    let needed = limits.open_files() as u64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return limits;
    };
    let mut files = soft;
    if soft < needed {
        let raised = needed.min(hard);
        match setrlimit(Resource::RLIMIT_NOFILE, raised, hard) {
            Ok(()) => files = raised,
            Err(error) => debug!(%error, "can't raise the limit of open files"),
        }
    }
    if files >= needed {
        return limits;
    }
    let configured = limits.max_connections;
    let limits = limits.within_open_files(usize::try_from(files).unwrap_or(usize::MAX));
    let lowered = limits.max_connections;
    warn!(
        open_files = files,
        max_connections = lowered,
        "max_connections is lowered from {configured} to {lowered}: this process can open {files} files, and \
         {configured} connections need {needed}; raise the hard limit (ulimit -Hn, or LimitNOFILE= of \
         systemd) to {needed}, or set max_connections to {lowered} or less",
    );
    limits
}
