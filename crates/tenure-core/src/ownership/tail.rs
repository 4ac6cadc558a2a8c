//! The tail of a shared log, as far as it decides which server owns the log.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// One start of a server. Two starts of the same server have different ids, so that the bytes of
/// two tails are never equal by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnerId(pub u128);

/// The identity of the service that keeps the log, with the place of the log in it. It changes if the
/// service may have lost commits, after a restore from a snapshot or after a promotion, and if the log
/// was copied to another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HomeId(pub u128);

impl fmt::Display for HomeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The tail of a shared log: its newest entry. Each append replaces exactly one tail by the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tail {
    /// The identity of the service in which the tail was written.
    pub home: HomeId,
    /// The number of the ownership: each take-over adds one.
    pub generation: u64,
    /// The number of the append: each append adds one.
    pub sequence: u64,
    /// The number of appends with this sequence number that the server has undone before this one.
    pub undone: u64,
    /// The state of the log.
    pub state: TailState,
    /// The server that wrote the tail.
    pub owner: OwnerId,
    /// The ownership duration of that server.
    pub ownership: Duration,
}

/// The state of a shared log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TailState {
    /// The owner accepts requests, or is about to.
    Owned,
    /// The owner has resigned: another server may take over at once.
    Vacant,
    /// A backup is being restored into the log: no server may take over.
    Restoring,
    /// The content was moved to another log for good: no server may take over.
    Retired,
}
