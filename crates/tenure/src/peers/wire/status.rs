//! The body of the status route.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::bully::ElectionId;
use tenure_core::{Epoch, Incarnation, Name, NodeId};

/// The status that a member shows. The driver replaces it after each change.
///
/// A newer version may show more fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// The member.
    pub node: NodeId,
    /// The incarnation of the member.
    pub incarnation: Incarnation,
    /// Its strategy, as in its configuration.
    pub strategy: String,
    /// The name of the machine's state. It is `elected` if the member leads among the peers and
    /// waits for the lease, and `ending` if the member no longer leads but its task has not ended.
    pub role: String,
    /// The leader that the member knows.
    pub leader: Option<NodeId>,
    /// The leader's epoch.
    pub epoch: Option<Epoch>,
    /// Without a quorum: the election that the member has accepted or organises.
    pub election: Option<ElectionId>,
    /// The members that it suspects.
    pub suspects: Vec<NodeId>,
    /// With a quorum: whether the member follows a leader, or reached a majority in its last
    /// attempt.
    pub quorum: Option<bool>,
    /// With a fallback, on the leader: the voters that carry its term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried_by: Option<CarriedBy>,
    /// With a fallback: a short form of the settings that must be the same for all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    /// With a fallback: the id of the store that the group uses, if the member knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The leader's metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// The voters that carry a term, with a fallback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CarriedBy {
    /// The kind of the quorum: `store` or `members`.
    pub kind: String,
    /// How many more members can be lost without an end of the term.
    pub further_losses: usize,
    /// The time of the store's last answer, if the store has been silent since.
    pub store_silent_since: Option<String>,
}

/// The body of the status route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PeerView {
    /// The status of the member.
    #[serde(flatten)]
    pub status: Status,
    /// Its counters.
    pub counters: Counters,
    /// With `relay`: the other members that have answered, each with the members that passed the
    /// last message on to it. The list is empty if the message went there directly.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<NodeId, Vec<NodeId>>,
}

impl Status {
    /// Creates the status of a member that has just started.
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
            carried_by: None,
            settings: None,
            store: None,
            metadata: BTreeMap::new(),
        }
    }
}

/// Messages and requests since the member started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counters {
    /// The number of requests to other members. A request that first had to learn the receiver's
    /// time counts twice.
    pub sent: u64,
    /// Of these requests, those that the other member accepted.
    pub answered: u64,
    /// Of these requests, those that the other member refused.
    pub refused_by_peers: u64,
    /// Of these requests, those without an answer in time.
    pub failed: u64,
    /// Of these requests, those whose answer had no MAC, or a wrong one.
    pub answers_unauthenticated: u64,
    /// Messages that were not sent: they were too old, or no way to their receiver was known.
    pub expired: u64,
    /// Messages that a newer message of the same kind replaced before they could be sent.
    pub replaced: u64,
    /// With `relay`: further copies of requests to other members, which searched for a path.
    #[serde(default)]
    pub copies: u64,
    /// With `relay`: requests and copies of requests that this member passed on for others.
    #[serde(default)]
    pub relayed: u64,
    /// Requests of other members that this member accepted.
    pub taken: u64,
    /// Requests that this member refused, by code.
    pub refused: BTreeMap<String, u64>,
}

/// The numbers of a member of an election among peers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerMetrics {
    /// The name of the group.
    pub cluster: Name,
    /// Whether the member follows a leader, or reached a majority in its last attempt. `None`
    /// without a quorum.
    pub has_quorum: Option<bool>,
    /// The number of members that this member suspects.
    pub suspects: u64,
    /// Requests to other members, and those of other members.
    pub messages: Counters,
}
