//! The state that a member keeps on disk.

use serde::{Deserialize, Serialize};

use super::{ElectionId, NodeId};
use crate::Epoch;

/// The state that a member keeps on disk: one record, written as a whole before anything that rests
/// on it leaves ([`PeerEffect::Persist`](super::PeerEffect::Persist)).
///
/// A member that has lost its record must not take part under its number again: other members rely
/// on its promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardState {
    /// How often it has started.
    pub incarnation: u64,
    /// The greatest epoch that it has promised, followed or led.
    pub highest: Option<Epoch>,
    /// With a quorum: the member that `highest` is promised to.
    pub voted: Option<NodeId>,
    /// For how long the promise binds, in milliseconds from the last renewal on: the lease duration
    /// of that time. The member may start again with a shorter one, and the leader counts on the
    /// longer.
    #[serde(default)]
    pub promised_ms: Option<u64>,
    /// Without a quorum: the election that it has accepted, until that is over.
    pub accepted: Option<ElectionId>,
}
