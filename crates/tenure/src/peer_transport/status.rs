//! The body of the status route.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::bully::ElectionId;
use tenure_core::{Epoch, Incarnation, NodeId};

/// The status that a member shows. The driver replaces it when something has changed.
///
/// A newer member may show more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// The member.
    pub node: NodeId,
    /// Which start of the member this is.
    pub incarnation: Incarnation,
    /// Its strategy, as in its configuration.
    pub strategy: String,
    /// The name of the machine's state; `elected` if the member leads among the peers and waits for
    /// the lease, `ending` if it leads no more and its task is not gone yet.
    pub role: String,
    /// The leader that it knows.
    pub leader: Option<NodeId>,
    /// The leader's epoch.
    pub epoch: Option<Epoch>,
    /// Without a quorum: the election that it has accepted or organises.
    pub election: Option<ElectionId>,
    /// The members that it takes for down.
    pub suspects: Vec<NodeId>,
    /// With a quorum: whether it follows a leader, or reached a majority when it last tried.
    pub quorum: Option<bool>,
    /// The leader's metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// The body of the status route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PeerView {
    /// The state of the member.
    #[serde(flatten)]
    pub status: Status,
    /// Its counters.
    pub counters: Counters,
}

impl Status {
    /// The status of a member that has just started.
    pub(crate) fn of(node: NodeId, incarnation: Incarnation) -> Self {
        Self {
            node,
            incarnation,
            strategy: "bully".into(),
            role: "starting".into(),
            leader: None,
            epoch: None,
            election: None,
            suspects: Vec::new(),
            quorum: None,
            metadata: BTreeMap::new(),
        }
    }
}

/// Messages and requests since the member started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counters {
    /// Requests to other members that were begun; one more for each request that first had to learn
    /// the time there.
    pub sent: u64,
    /// Of these, those that the other member took.
    pub answered: u64,
    /// Of these, those that it refused.
    pub refused_by_peers: u64,
    /// Of these, those without an answer in time.
    pub failed: u64,
    /// Of these, those whose answer had no MAC, or a wrong one.
    pub answers_unauthenticated: u64,
    /// Messages that were too old before they could be sent.
    pub expired: u64,
    /// Messages that a newer one of the same kind replaced before they could be sent.
    pub replaced: u64,
    /// Requests of other members that were taken.
    pub taken: u64,
    /// Requests that were refused, by code.
    pub refused: BTreeMap<String, u64>,
}
