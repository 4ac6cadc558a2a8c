//! The state that a member keeps on disk.

use serde::{Deserialize, Serialize};

use super::{ElectionId, NodeId};
use crate::Epoch;

/// The state that a member keeps on disk. The member writes the record as a whole before it sends
/// any message that depends on it ([`PeerEffect::Persist`](super::PeerEffect::Persist)).
///
/// A member that has lost its record must not take part under its node id again: other members rely
/// on its promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardState {
    /// How often the member has started.
    pub incarnation: u64,
    /// The greatest epoch of a term that the member has promised, followed or led.
    pub highest: Option<Epoch>,
    /// With a quorum: the member to which `highest` is promised.
    pub voted: Option<NodeId>,
    /// How long the promise binds after its last renewal, in milliseconds: the lease duration when
    /// the promise was made. The member may restart with a shorter lease duration, but the leader
    /// relies on the longer one.
    #[serde(default)]
    pub promised_ms: Option<u64>,
    /// Without a quorum: the accepted election, until it is over.
    pub accepted: Option<ElectionId>,
}
