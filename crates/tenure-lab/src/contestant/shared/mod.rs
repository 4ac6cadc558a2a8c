//! A store of several servers over a log that they share.

mod log;
mod server;

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::Stored;
use tenure_core::lease::candidate::Timings;
use tenure_core::ownership::{Found, Head, Outcome, OwnershipTimings, Sighting};

pub(super) use log::Log;
pub(super) use server::Server;

/// The hosts of the servers. The host of the log is that of the store.
pub(crate) const SERVERS: [NodeId; 3] = [NodeId(101), NodeId(102), NodeId(103)];

/// The shortest ownership duration.
const SHORTEST: Duration = Duration::from_secs(1);

/// Returns the timings of the servers. Their ownership lasts for a fifth of a lease, as by default,
/// so that leaders keep their terms while another server takes over.
pub(super) fn ownership_timings(term: &Timings) -> OwnershipTimings {
    let ownership = (term.lease_duration() / 5).max(SHORTEST);
    OwnershipTimings::new(ownership).expect("a fifth of a lease that was checked")
}

/// The content of a log: its head, and the lease as of the last batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// The head; `None` if the log is empty.
    pub head: Option<Head>,
    /// The last change.
    pub last: Option<LogChange>,
}

/// A change of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChange {
    /// Its number. A change that was undone and the next one have the same number.
    pub revision: u64,
    /// A number that no other change has.
    pub id: u64,
    /// The lease after the change.
    pub lease: Box<Stored>,
}

/// A call of a server to the log.
#[derive(Clone, Debug)]
pub enum LogCall {
    /// Read the head and the content.
    Read,
    /// Replace the head, if it is the expected one.
    Append(LogAppend),
}

/// An append.
#[derive(Clone, Debug)]
pub struct LogAppend {
    /// The head that it replaces.
    pub expected: Option<Head>,
    /// The new head.
    pub head: Head,
    /// The change that is appended.
    pub change: Option<LogChange>,
}

/// The answer of the log to a call.
#[derive(Clone, Debug)]
pub enum LogAnswer {
    /// The content.
    Content(LogState),
    /// The outcome of an append.
    Appended(Outcome),
}

impl LogState {
    fn sighting(&self) -> Sighting {
        Sighting {
            engine: log::ENGINE,
            found: self.head.map_or(Found::Empty, Found::Head),
        }
    }
}
