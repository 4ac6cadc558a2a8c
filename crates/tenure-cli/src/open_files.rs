//! Room for a store's connections: each is an open file of the process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tenure_server::Limits;
use tracing::{debug, warn};

/// Lets this process open as many files as these limits may need, as far as its owner may allow
/// that. Connections above what it may open are neither served nor refused.
pub(crate) fn make_room(limits: &Limits) {
    let wanted = limits.open_files() as u64;
    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    if now < wanted
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(most), most)
    {
        debug!(%error, "the limit of open files was not raised");
    }
    if most < wanted {
        warn!(
            open_files = most,
            max_connections = limits.max_connections,
            "connections may use up the files that this process may open, after which nobody is \
             even told: raise the hard limit (ulimit -Hn) to {wanted}, or lower max_connections"
        );
    }
}
