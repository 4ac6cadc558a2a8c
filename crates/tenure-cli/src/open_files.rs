//! Room for a store's connections: each is an open file of the process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tenure_server::Limits;
use tracing::{debug, warn};

/// Lets this process open as many files as these limits need, as far as the system allows it. Where
/// it does not, fewer connections are taken: a store that has no file for another connection could
/// neither refuse one nor take a renewal over it.
pub(crate) fn make_room(limits: Limits) -> Limits {
    let wanted = limits.open_files() as u64;
    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return limits;
    };
    let mut files = now;
    if now < wanted {
        let raised = wanted.min(most);
        match setrlimit(Resource::RLIMIT_NOFILE, raised, most) {
            Ok(()) => files = raised,
            Err(error) => debug!(%error, "the limit of open files was not raised"),
        }
    }
    if files >= wanted {
        return limits;
    }
    let configured = limits.max_connections;
    let limits = limits.within_open_files(usize::try_from(files).unwrap_or(usize::MAX));
    warn!(
        open_files = files,
        max_connections = limits.max_connections,
        "max_connections is lowered from {configured} to {}: this process may open {files} files, and \
         {configured} connections need {wanted}; raise the hard limit (ulimit -Hn, or LimitNOFILE= of \
         systemd) to {wanted}, or set max_connections to {} or less",
        limits.max_connections,
        limits.max_connections,
    );
    limits
}
